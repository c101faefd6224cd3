"""Resources of calls outside a kernel: tools that are tried by hand or under test borrow as they do in turns.

There is one scope for a call, and one for all else. Nothing is noted, and nobody waits for long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentos.clock import SystemClock
from agentos.components import Access
from agentos.ids import RandomIds
from agentos.resources.kinds.known import KNOWN
from agentos.resources.registry import ResourceKind, Resources
from agentos.resources.scope import Level, Scope, level_named

WARN_S = 60.0
"""After which a holder or a waiter is told of in the log of the program."""


class OutsideResources:
    """The resources of a workbench, or of a contract suite; `close` gives them all back."""

    def __init__(self) -> None:
        self.scope = Scope(Level.PROGRAM, "program")
        self.table = Resources(SystemClock(), RandomIds(), hold_warn_s=WARN_S, wait_warn_s=WARN_S)
        for kind in KNOWN:
            self.table.register(kind)

    async def close(self) -> None:
        try:
            await self.scope.close()
        finally:
            self.table.shut()


class OutsideLoans:
    """What one call borrows: the two methods of `agentos.ports.CallContext`. declared are the kinds of its own toolbox."""

    def __init__(self, resources: OutsideResources, name: str, declared: Mapping[str, ResourceKind]) -> None:
        self._resources, self._declared = resources, declared
        self._scope = Scope(Level.CALL, name, resources.scope)

    @asynccontextmanager
    async def borrow(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AsyncIterator[Any]:
        if name in self._declared:
            async with self.resource(name, access=access, timeout_s=timeout_s) as handle:
                yield handle
            return
        shared = self._resources.table.find(name, self._scope)
        async with shared.borrow(access=access, timeout_s=timeout_s) as handle:
            yield handle

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
        known = self._declared.get(kind) or self._resources.table.kind(kind)
        level = level_named(scope, kind)
        level = known.level if level is None else level
        within = self._scope if level is Level.CALL else self._resources.scope
        shared = await self._resources.table.ensure(within, known, name, options or {})
        async with shared.borrow(access=access, timeout_s=timeout_s) as handle:
            yield handle

    async def close(self) -> None:
        await self._scope.close()
