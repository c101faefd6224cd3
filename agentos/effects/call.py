"""Runs one attempt of one call: deadline, cap, result; and asks a tool what became of a doubted one."""

from __future__ import annotations

import asyncio

import msgspec

from agentos.components import CallStatus, EffectClass
from agentos.effects.base import Running, Services, arguments_of, words_of
from agentos.effects.context import Context
from agentos.errors import ResourceDeadlock, ResourceError, ToolError
from agentos.events.effects import Probe, RunCall
from agentos.events.intake import CallReport, Item, Probed
from agentos.ids import LogId, Name, call_id
from agentos.resources import Scope
from agentos.resources.account import bear
from agentos.resources.process.partial import partial_of
from agentos.resources.waited import waited_for
from agentos.toolboxes.base import CutOff, Failed, Finish
from agentos.toolboxes.results import render

UNKNOWN = "the outcome is unknown: the kernel stopped while the tool ran; it was not run again"


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
    if (account_of := services.lending.account_of) is not None:
        bear(account_of(effect.log, effect.turn, effect.call))
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
            report = _cancelled(effect, running, config.effect, timeout_s, waited_for(error), partial)
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
    effect: RunCall, running: Running, effect_class: EffectClass, timeout_s: float, waited: str, partial: str
) -> CallReport:
    """A cancelled `once` call may have had its effect: unknown. The others are safely cancelled or timed out."""
    if not running.was_cancelled():
        return _report(effect, CallStatus.FAILED, "the tool cancelled itself", "raised")
    so_far = f"\nOutput so far:\n{partial}" if partial else ""
    timeout = running.ended == "timeout"
    why = f"no result within {timeout_s:g} s{waited}" if timeout else "interrupted"
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
    if (account_of := services.lending.account_of) is not None:
        bear(account_of(effect.log, effect.turn, effect.call))
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
