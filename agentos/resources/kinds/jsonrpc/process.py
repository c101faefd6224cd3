"""A process that speaks JSON-RPC 2.0, a message a line, on its stdin and stdout: many may ask it at the same time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agentos.clock import Clock
from agentos.components import Pattern
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.kinds.jsonrpc.exchange import Counts, Exchange, ExchangeLimits, Heard
from agentos.resources.kinds.jsonrpc.silence import Question
from agentos.resources.kinds.process import KeptLimits, KeptProcess, ProcessState, Program, bounds_of
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level


class JsonRpcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the process, and of what is said with it."""

    process: KeptLimits = KeptLimits()
    exchange: ExchangeLimits = ExchangeLimits()


class JsonRpcProcess:
    """One process, whoever asks. `prepare` is asked of each incarnation before anybody else may talk to it, `changed` is
    called when the process says that it offers other things now. One that hangs is replaced; health is what it is asked
    before."""

    def __init__(
        self,
        name: str,
        program: Program,
        *,
        limits: JsonRpcLimits | None = None,
        clock: Clock | None = None,
        prepare: Callable[[Exchange], Awaitable[None]] | None = None,
        changed: Callable[[], None] | None = None,
        health: Question | None = None,
    ) -> None:
        self._limits = limits or JsonRpcLimits()
        self.counts = Counts()
        self._numbers = itertools.count(1)
        self._prepare, self._changed = prepare or _nothing, changed or (lambda: None)
        self._health = health or Question()
        self._exchange: Exchange | None = None
        self._asking = 0
        self._renewing = asyncio.Lock()
        self._unasked: asyncio.Future[None] | None = None
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
        while self._renewing.locked():
            async with self._renewing:
                pass
        self._asking += 1
        try:
            await self._kept.ready()
            assert self._exchange is not None, "a process that is ready has an exchange"
            return await self._exchange.ask(method, params, progress)
        finally:
            self._asking -= 1
            if self._unasked is not None and not self._asking and not self._unasked.done():
                self._unasked.set_result(None)

    async def renew(self, wait_s: float) -> bool:
        """Lets the process that runs now go: who asks from here on has another one, also where this one had given up.

        Requests under way have wait_s, in seconds, to be answered; after that they are cut off. False when there was no
        process to let go.
        """
        async with self._renewing:
            if self._asking:
                self._unasked = asyncio.get_running_loop().create_future()
                try:
                    await asyncio.wait([self._unasked], timeout=wait_s)
                finally:
                    self._unasked = None
            return self._kept.renew()

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
            hangs=lambda why: self._kept.end(why, at_once=True),
            changed=self._changed,
            health=self._health,
        )
        return self._exchange


def jsonrpc_process(
    program: Program,
    *,
    name: str = "process",
    limits: JsonRpcLimits | None = None,
    clock: Clock | None = None,
    health: str | None = None,
) -> Factory[JsonRpcProcess]:
    """How such a process is made as a resource, and given back. One that gave up stays so until it is renewed, or
    its scope gives it back (`Kernel.release`)."""
    question = Question(health) if health is not None else None
    return opening(JsonRpcProcess(name, program, limits=limits, clock=clock, health=question))


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
    told_name_and_clock=True,
)
"""Many ask it at once: each answer goes to the one who asked."""


async def _nothing(exchange: Exchange) -> None:
    return None
