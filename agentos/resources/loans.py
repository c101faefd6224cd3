"""How a tool borrows: three methods of `agentos.ports.CallContext`, the same in a kernel and outside of one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from agentos.components import Access
from agentos.resources.borrowing import Borrower
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level, level_named
from agentos.resources.shared import Shared
from agentos.resources.threaded import check_in_thread, lent_to_thread


class Loans(ABC):
    """A context of a call says who borrows, and where what is borrowed lives."""

    __slots__ = ()

    @property
    @abstractmethod
    def borrower(self) -> Borrower: ...

    @abstractmethod
    def _event_loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which the call runs, also when a thread asks."""

    @abstractmethod
    def _declared(self, name: str) -> ResourceKind | None:
        """The kind that the call's own toolbox declares under this name. Raises ToolError when the call is over."""

    @abstractmethod
    def _found(self, name: str) -> Shared[Any]:
        """The resource of this name that lives in a scope around the call. Raises ResourceNotFound."""

    @abstractmethod
    async def _ensured(
        self, kind: str | ResourceKind, name: str, level: Level | None, options: Mapping[str, Any]
    ) -> Shared[Any]:
        """The one of the scope of this level around the call, None is that of its kind; made when there is none."""

    def borrow(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[Any]:
        if self._declared(name) is not None:
            return self.resource(name, access=access, timeout_s=timeout_s)
        return self._found(name).borrow(self.borrower, access=access, timeout_s=timeout_s)

    def borrow_from_thread(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractContextManager[Any]:
        loop = self._event_loop()
        check_in_thread(loop, "borrow_from_thread", "async with borrow(...)")
        return lent_to_thread(loop, lambda: self.borrow(name, access=access, timeout_s=timeout_s))

    @asynccontextmanager
    async def resource(
        self,
        kind: str,
        name: str = "",
        *,
        scope: str | None = None,
        options: Mapping[str, Any] | None = None,
        access: Access = Access.WRITE,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Any]:
        shared = await self._ensured(self._declared(kind) or kind, name, level_named(scope, kind), options or {})
        async with shared.borrow(self.borrower, access=access, timeout_s=timeout_s) as handle:
            yield handle
