"""What a tool sees of its call: what it may ask for, tell, borrow and have given back."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agentos.clock import Clock
from agentos.codec import encode_json
from agentos.components import AgentContext
from agentos.effects.base import Running, Services, owned
from agentos.errors import ToolError
from agentos.events.effects import RunCall
from agentos.events.intake import InnerCall, Progress
from agentos.ids import CallId, ConversationId, TurnId, call_id, name_of, turn_id
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources import Borrower, Level, ResourceKind, Scope, Shared
from agentos.resources.loans import Loans
from agentos.resources.threaded import ask_loop, check_in_thread, running_loop


class Context(Loans):
    """What a tool sees of its call; see agentos.ports.CallContext. Its scope is made when something is deferred.

    A sync tool uses it from its thread; what it changes is changed on the loop all the same.
    """

    __slots__ = (
        "_asked",
        "_borrower",
        "_effect",
        "_limits",
        "_progressed",
        "_running",
        "_services",
        "agent",
        "attempt",
        "inner",
        "scope",
        "timeout_s",
    )

    def __init__(
        self, services: Services, effect: RunCall, running: Running, context: AgentContext, timeout_s: float
    ) -> None:
        self._services, self._running = services, running
        self._effect, self._limits = effect, context.limits
        self._progressed = self._asked = 0
        self.inner: set[asyncio.Future[InnerResult | None]] = set()
        self.agent = context.slug
        self.attempt = effect.attempt
        self.timeout_s = timeout_s
        self.scope: Scope | None = None
        self._borrower: Borrower | None = None

    @property
    def call_id(self) -> CallId:
        return call_id(self._effect.log, self._effect.call)

    @property
    def turn(self) -> TurnId:
        return turn_id(self._effect.log, self._effect.turn)

    @property
    def conversation(self) -> ConversationId:
        return ConversationId(self._effect.log)

    @property
    def key(self) -> str:
        return self.call_id

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def lineage(self) -> Lineage:
        return self._services.lineage(self._effect.log, self._effect.turn, self._effect.call)

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        item = self._inner_call(tool, arguments)
        waiter = self._services.ask_inner(self._effect.log, item)
        self.inner.add(waiter)
        try:
            result = await waiter
        finally:
            self.inner.discard(waiter)
        if result is None:
            raise ToolError(f"{tool}: the call that asks for it is over")
        return result

    def call_from_thread(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        loop = self._event_loop()
        check_in_thread(loop, "call_from_thread", "await call(...)")
        return ask_loop(loop, self.call(tool, arguments))

    def _inner_call(self, tool: str, arguments: dict[str, Any]) -> InnerCall:
        """What is asked for, if this attempt may ask for more."""
        size = len(encode_json(arguments))  # raises to the tool when they have no form
        if self._running.ended or self._running.done:
            raise ToolError(f"{tool}: the call that asks for it is over")
        if size > self._limits.payload_bytes_max:
            raise ToolError(
                f"arguments of {size} characters are over payload_bytes_max ({self._limits.payload_bytes_max})"
            )
        if self._limits.call_limit is not None and self._asked >= self._limits.call_limit:
            raise ToolError(f"a call may make {self._limits.call_limit} inner calls (call_limit)")
        self._asked += 1
        return InnerCall(
            call=self._effect.call,
            attempt=self.attempt,
            index=self._asked,
            tool=name_of(tool),
            arguments=owned(arguments),
        )

    def end_inner(self) -> None:
        """Nobody waits for an inner call any more, as a thread might that nobody can stop."""
        for waiter in self.inner:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def borrowed(self) -> bool:
        """Whether it ever asked for a resource."""
        return self._borrower is not None

    @property
    def borrower(self) -> Borrower:
        """Who borrows, with the frames down to this call."""
        if self._borrower is None:
            effect = self._effect
            self._borrower = self._services.lending.borrower(effect.log, effect.turn, effect.call)
        return self._borrower

    def _declared(self, name: str) -> ResourceKind | None:
        if self._running.done:  # a task that a tool left behind borrows nothing: nobody would see to it
            raise ToolError(f"{name}: the call that asks for it is over")
        return self._services.lending.declared(self._effect.log, self._effect.call, name)

    def _found(self, name: str) -> Shared[Any]:
        effect = self._effect
        return self._services.lending.find(effect.log, effect.turn, effect.call, name)

    async def _ensured(
        self, kind: str | ResourceKind, name: str, level: Level | None, options: Mapping[str, Any]
    ) -> Shared[Any]:
        lending, effect = self._services.lending, self._effect
        within = lending.scope_of(effect.log, effect.turn, effect.call, kind, level)
        if within.level is Level.CALL:
            self.scope = within  # it ends with this call
        return await lending.ensure(within, kind, name, options)

    def progress(self, data: Any) -> None:
        size = len(encode_json(data))  # raises to the tool when it has no form
        self._progressed += 1
        if size > self._limits.payload_bytes_max:
            raise ToolError(
                f"progress of {size} characters is over payload_bytes_max ({self._limits.payload_bytes_max})"
            )
        if self._progressed > self._limits.progress_max:
            raise ToolError(f"a call may report progress {self._limits.progress_max} times (progress_max)")
        item = Progress(call=self._effect.call, data=owned(data))
        self._on_loop(lambda: self._services.report(self._effect.log, item))

    def defer(self, release: Callable[[], Awaitable[None] | None]) -> None:
        self._on_loop(lambda: self._defer(release))

    def _defer(self, release: Callable[[], Awaitable[None] | None]) -> None:
        if self.scope is None:
            self.scope = self._services.call_scope(self._effect.log, self._effect.turn, self._effect.call)
        self.scope.push(getattr(release, "__name__", "release"), release)

    def _on_loop(self, work: Callable[[], None]) -> None:
        """Does it here if this is the loop, else there, and waits; what it raises is raised here."""
        loop = self._event_loop()
        if running_loop() is loop:
            work()
            return
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        loop.call_soon_threadsafe(_do, work, done)
        done.result()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        assert self._running.task is not None, "a call runs in a task"
        return self._running.task.get_loop()


def _do(work: Callable[[], None], done: concurrent.futures.Future[None]) -> None:
    try:
        work()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)
