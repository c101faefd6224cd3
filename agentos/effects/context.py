"""What a tool sees of its call: what it may ask for, tell, borrow and have given back."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from agentos.clock import Clock
from agentos.codec import encode_json
from agentos.components import Access, AgentContext
from agentos.effects.base import Running, Services, owned
from agentos.errors import ToolError
from agentos.events.effects import RunCall
from agentos.events.intake import InnerCall, Progress
from agentos.ids import CallId, ConversationId, TurnId, call_id, name_of, turn_id
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources import Borrower, Level, Scope
from agentos.resources.scope import level_named
from agentos.resources.threaded import ask_loop, lent_to_thread


class Context:
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
        loop = self._loop()
        if _running_loop() is loop:
            raise ToolError("call_from_thread is for a sync tool, which runs in a thread; here, await call(...)")
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

    def borrow(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[Any]:
        self._check_going(name)
        lending, effect = self._services.lending, self._effect
        if lending.declared(effect.log, effect.call, name) is not None:
            return self.resource(name, access=access, timeout_s=timeout_s)
        shared = lending.find(effect.log, effect.turn, effect.call, name)
        return shared.borrow(self.borrower, access=access, timeout_s=timeout_s)

    def borrow_from_thread(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractContextManager[Any]:
        loop = self._loop()
        if _running_loop() is loop:
            raise ToolError(
                "borrow_from_thread is for a sync tool, which runs in a thread; here, async with borrow(...)"
            )
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
        self._check_going(kind)
        lending, effect = self._services.lending, self._effect
        known = lending.declared(effect.log, effect.call, kind) or kind
        within = lending.scope_of(effect.log, effect.turn, effect.call, known, level_named(scope, kind))
        if within.level is Level.CALL:
            self.scope = within  # it ends with this call
        shared = await lending.ensure(within, known, name, options or {})
        async with shared.borrow(self.borrower, access=access, timeout_s=timeout_s) as handle:
            yield handle

    @property
    def borrowed(self) -> bool:
        """Whether it ever asked for a resource."""
        return self._borrower is not None

    def _check_going(self, name: str) -> None:
        """A task that a tool left behind borrows nothing more: nobody would see to it."""
        if self._running.done:
            raise ToolError(f"{name}: the call that asks for it is over")

    @property
    def borrower(self) -> Borrower:
        """Who borrows, with the frames down to this call."""
        if self._borrower is None:
            effect = self._effect
            self._borrower = self._services.lending.borrower(effect.log, effect.turn, effect.call)
        return self._borrower

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
        loop = self._loop()
        if _running_loop() is loop:
            work()
            return
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        loop.call_soon_threadsafe(_do, work, done)
        done.result()

    def _loop(self) -> asyncio.AbstractEventLoop:
        assert self._running.task is not None, "a call runs in a task"
        return self._running.task.get_loop()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _do(work: Callable[[], None], done: concurrent.futures.Future[None]) -> None:
    try:
        work()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)
