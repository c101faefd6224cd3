"""Resources of calls outside a kernel: tools that are tried by hand or under test borrow as they do in turns.

There is one scope for a call, and one for all else. Nothing is noted, and nobody waits for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentos.clock import SystemClock
from agentos.ids import RandomIds
from agentos.resources.borrowing import PROGRAM, Borrower
from agentos.resources.kinds.known import KNOWN
from agentos.resources.loans import Loans
from agentos.resources.registry import ResourceKind, Resources
from agentos.resources.scope import Level, Scope
from agentos.resources.shared import Shared

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


class OutsideLoans(Loans):
    """What one call borrows; its context derives from this. declared are the kinds of its own toolbox."""

    def __init__(self, resources: OutsideResources, name: str, declared: Mapping[str, ResourceKind]) -> None:
        self._loop = asyncio.get_running_loop()
        self._resources, self._declared_kinds = resources, declared
        self._scope = Scope(Level.CALL, name, resources.scope)

    @property
    def borrower(self) -> Borrower:
        return PROGRAM

    async def give_back(self) -> None:
        """At the end of the call: what lived in its scope."""
        await self._scope.close()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def _declared(self, name: str) -> ResourceKind | None:
        return self._declared_kinds.get(name)

    def _found(self, name: str) -> Shared[Any]:
        return self._resources.table.find(name, self._scope)

    async def _ensured(
        self, kind: str | ResourceKind, name: str, level: Level | None, options: Mapping[str, Any]
    ) -> Shared[Any]:
        table = self._resources.table
        known = kind if isinstance(kind, ResourceKind) else table.kind(kind)
        in_call = (known.level if level is None else level) is Level.CALL
        return await table.ensure(self._scope if in_call else self._resources.scope, known, name, options)
