"""A process that speaks JSON-RPC 2.0, a message a line, on its stdin and stdout: many may ask it at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agentos.clock import Clock
from agentos.components import Pattern
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.kinds.jsonrpc.exchange import Counts, Exchange, ExchangeLimits, Heard
from agentos.resources.kinds.process import KeptLimits, KeptProcess, ProcessState, Program, bounds_of
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level


class JsonRpcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the process, and of what is said with it."""

    process: KeptLimits = KeptLimits()
    exchange: ExchangeLimits = ExchangeLimits()


class JsonRpcProcess:
    """One process, whoever asks. `prepare` is asked of each incarnation before anybody else may talk to it, `changed` is
    called when the process says that it offers other things now."""

    def __init__(
        self,
        name: str,
        program: Program,
        *,
        limits: JsonRpcLimits | None = None,
        clock: Clock | None = None,
        prepare: Callable[[Exchange], Awaitable[None]] | None = None,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self._limits = limits or JsonRpcLimits()
        self.counts = Counts()
        self._numbers = itertools.count(1)
        self._prepare, self._changed = prepare or _nothing, changed or (lambda: None)
        self._exchange: Exchange | None = None
        self._kept = KeptProcess(name, program, self._next, limits=self._limits.process, clock=clock)

    async def open(self) -> None:
        """Starts it. Raises ProcessNotStarted."""
        await self._kept.open()

    async def close(self) -> None:
        """Ends it: its stdin is closed, then SIGTERM, then SIGKILL; descendants too."""
        await self._kept.close()

    async def ask(self, method: str, params: object, progress: Heard | None = None) -> Any:
        """The result of one request, of a process that is started anew if need be.

        Errors: those of `KeptProcess.ready` and of `Exchange.ask`. What it was asked may have been done or not only
        after ProcessLost, Unanswered and a cancellation.
        """
        await self._kept.ready()
        assert self._exchange is not None, "a process that is ready has an exchange"
        return await self._exchange.ask(method, params, progress)

    @property
    def state(self) -> ProcessState:
        return self._kept.state

    @property
    def problem(self) -> str:
        """Why it does not run, or last ended; empty while all is well."""
        return self._kept.problem

    @property
    def pid(self) -> int | None:
        return self._kept.pid

    @property
    def started(self) -> int:
        """How many times it was started."""
        return self._kept.started

    @property
    def under_way(self) -> int:
        """How many requests wait for their answers."""
        return self._exchange.under_way if self._exchange is not None else 0

    def healthy(self) -> bool:
        return self._kept.healthy()

    def _next(self) -> Exchange:
        self._exchange = Exchange(
            self._limits.exchange,
            self.counts,
            self._numbers,
            prepare=self._prepare,
            broken=self._kept.end,
            changed=self._changed,
        )
        return self._exchange


def jsonrpc_process(
    program: Program, *, name: str = "process", limits: JsonRpcLimits | None = None, clock: Clock | None = None
) -> Factory[JsonRpcProcess]:
    """How such a process is made as a resource, and given back. One that gave up stays so until its scope ends."""
    return opening(JsonRpcProcess(name, program, limits=limits, clock=clock))


def opening(process: JsonRpcProcess) -> Factory[JsonRpcProcess]:
    """How this very process is opened and closed as a resource; it is not looked at, since it mends itself."""

    async def make() -> JsonRpcProcess:
        await process.open()
        return process

    return Factory(make=make, close=JsonRpcProcess.close, takes=lambda one: Takes(pid=one.pid))


JSONRPC = ResourceKind(
    name="jsonrpc",
    factory=jsonrpc_process,
    pattern=Pattern.STATELESS,
    bounds=bounds_of(KeptLimits()),
    level=Level.TOOLBOX,
)
"""Many ask it at once: each answer goes to the one who asked."""


async def _nothing(exchange: Exchange) -> None:
    return None
