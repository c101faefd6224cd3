"""Runs one attempt of one call: deadline, cap, result; and asks a tool what became of a doubted one."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

import msgspec

from agentos.codec import encode_json
from agentos.components import Access, AgentContext, CallStatus, EffectClass
from agentos.effects.base import Running, Services, arguments_of, owned, words_of
from agentos.errors import ResourceDeadlock, ResourceError, ToolError
from agentos.events.effects import Probe, RunCall
from agentos.events.intake import CallReport, InnerCall, Item, Probed, Progress
from agentos.ids import CallId, ConversationId, LogId, Name, TurnId, call_id, name_of, turn_id
from agentos.lineage import Lineage
from agentos.ports import InnerResult
from agentos.resources import Borrower, Level, Scope
from agentos.resources.process.partial import partial_of
from agentos.resources.scope import level_named
from agentos.resources.threaded import lent_to_thread
from agentos.toolboxes.base import CutOff, Failed, Finish
from agentos.toolboxes.results import render

UNKNOWN = "the outcome is unknown: the kernel stopped while the tool ran; it was not run again"


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
        return asyncio.run_coroutine_threadsafe(self.call(tool, arguments), loop).result()

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
            raise ToolError("borrow_from_thread is for a sync tool, which runs in a thread; here, async with borrow(...)")
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


async def run_call(services: Services, effect: RunCall, running: Running) -> Item:
    """A CallReport, whatever the tool does: its value, its failure, or that its outcome is unknown."""
    context = services.turn_context(effect.log, effect.turn)
    config, _ = services.call(effect.log, effect.call)
    spec = next((t for t in (*context.tools, *context.hidden) if t.name == effect.tool), None)
    limits = context.limits
    timeout_s = spec.timeout_s if spec is not None and spec.timeout_s is not None else limits.tool_s
    call = Context(services, effect, running, context, timeout_s)
    toolbox = services.toolbox(config.toolbox)
    if toolbox is None:
        return _report(effect, CallStatus.FAILED, f"not run: toolbox {config.toolbox} is not open", "unavailable")
    running.limit(timeout_s)
    arguments = arguments_of(services, effect)
    try:
        value = await toolbox.call(effect.tool, arguments, call)
        report = _result(effect, config.effect, value, limits.result_chars)
    except ToolError as error:
        report = _failed(effect, words_of(error), "tool", limits.result_chars)
    except ResourceError as error:
        kind = "deadlock" if isinstance(error, ResourceDeadlock) else "resource"
        report = _failed(effect, words_of(error), kind, limits.result_chars)
    except BaseException as error:  # a tool may raise anything; it is the failure of this call alone
        if isinstance(error, asyncio.CancelledError) or running.ended:
            partial = render(partial_of(error), limits.result_chars).text
            report = _cancelled(effect, running, config.effect, timeout_s, partial)
        else:
            report = _failed(effect, f"{type(error).__name__}: {words_of(error)}", "raised", limits.result_chars)
    running.done = True
    if call.inner:
        call.end_inner()
    if call.scope is not None:
        report = await _released(call.scope, report)
    if call.borrowed:
        services.lending.ended(effect.log, effect.call)
    return _bounded(report, limits.payload_bytes_max)


def _bounded(report: CallReport, bytes_max: int) -> CallReport:
    """What is kept of a whole result has a bound too; beyond it stand its head, its size, and its tail."""
    whole = report.whole
    if whole is None or len(whole) <= bytes_max // 4 or len(whole.encode("utf-8", "surrogatepass")) <= bytes_max:
        return report
    return msgspec.structs.replace(report, whole=render(whole, bytes_max // 4).text)


def _result(effect: RunCall, effect_class: EffectClass, value: object, limit_chars: int) -> CallReport:
    if isinstance(value, Failed):
        return _failed(effect, value.text, value.kind, limit_chars)
    if isinstance(value, CutOff):
        return _cut_off(effect, effect_class, value, limit_chars)
    finish = isinstance(value, Finish)
    shown = render(value.value if isinstance(value, Finish) else value, limit_chars)
    return CallReport(
        call=effect.call,
        attempt=effect.attempt,
        status=CallStatus.DONE,
        text=shown.text,
        whole=shown.whole,
        finish=finish,
    )


def _failed(effect: RunCall, text: str, kind: str, limit_chars: int) -> CallReport:
    """The words of a failure are capped like those of a result."""
    shown = render(text, limit_chars)
    return _report(effect, CallStatus.FAILED, shown.text, kind, shown.whole)


def _cut_off(effect: RunCall, effect_class: EffectClass, cut: CutOff, limit_chars: int) -> CallReport:
    """Nobody knows how far a `once` call came; the others have simply not worked out."""
    if effect_class is not EffectClass.ONCE:
        return _failed(effect, cut.text, cut.kind, limit_chars)
    shown = render(f"{cut.text}; whether it took effect is unknown", limit_chars)
    return _report(effect, CallStatus.UNKNOWN, shown.text, cut.kind, shown.whole)


def _report(
    effect: RunCall, status: CallStatus, text: str, kind: str | None = None, whole: str | None = None
) -> CallReport:
    name = Name(kind) if kind else None
    return CallReport(call=effect.call, attempt=effect.attempt, status=status, text=text, kind=name, whole=whole)


def _cancelled(
    effect: RunCall, running: Running, effect_class: EffectClass, timeout_s: float, partial: str
) -> CallReport:
    """A cancelled `once` call may have had its effect: unknown. The others are safely cancelled or timed out."""
    if not running.was_cancelled():
        return _report(effect, CallStatus.FAILED, "the tool cancelled itself", "raised")
    so_far = f"\nOutput so far:\n{partial}" if partial else ""
    timeout = running.ended == "timeout"
    why = f"no result within {timeout_s:g} s" if timeout else "interrupted"
    kind = "timeout" if timeout else "interrupted"
    if effect_class is EffectClass.ONCE:
        return _report(effect, CallStatus.UNKNOWN, f"{why}; whether it took effect is unknown{so_far}", kind)
    return _report(effect, CallStatus.TIMED_OUT if timeout else CallStatus.CANCELLED, f"{why}{so_far}", kind)


async def _released(scope: Scope, report: CallReport) -> CallReport:
    """What the call borrowed comes back before its slot does; a failed release is told with the result."""
    try:
        await scope.close()
    except Exception as error:
        text = f"{report.text}\n(clean-up failed: {error})"
        return CallReport(
            call=report.call,
            attempt=report.attempt,
            status=report.status,
            text=text,
            kind=report.kind or Name("release"),
            whole=report.whole,
            finish=report.finish,
        )
    return report


async def probe_call(services: Services, effect: Probe, running: Running) -> Item:
    """A Probed: what the tool knows of a call that was running when the kernel died, or that nobody knows."""
    config, _ = services.call(effect.log, effect.call)
    toolbox = services.toolbox(config.toolbox)
    if toolbox is None:
        return Probed(call=effect.call, status=CallStatus.UNKNOWN, text=UNKNOWN)
    running.limit(services.turn_context(effect.log, effect.turn).limits.tool_s)
    arguments = arguments_of(services, effect)
    try:
        doubt = await toolbox.probe(effect.tool, arguments, call_id(LogId(effect.log), effect.call))
    except (asyncio.CancelledError, Exception) as error:
        if isinstance(error, asyncio.CancelledError) and not running.was_cancelled():
            raise
        return Probed(call=effect.call, status=CallStatus.UNKNOWN, text=f"{UNKNOWN} (the probe failed: {error})")
    if doubt is None:
        return Probed(call=effect.call, status=CallStatus.UNKNOWN, text=UNKNOWN)
    return Probed(call=effect.call, status=doubt.status, text=doubt.text)
