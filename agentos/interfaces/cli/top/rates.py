"""What a kernel did between two looks at it, by the second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentos.kernel.top import Top, Work


class Rates(NamedTuple):
    """Each by the second, but units, which is for each append, and append_ms, the mean of them in milliseconds."""

    turns: float
    requests: float
    calls: float
    failed: float
    input_tokens: float
    output_tokens: float
    appends: float
    units: float
    append_ms: float


class AgentRates(NamedTuple):
    requests: float
    calls: float
    tokens: float


def rates_of(before: Top | None, now: Top) -> Rates | None:
    """None when there was no look before, or not long enough before, or that was another kernel."""
    seconds = _seconds(before, now)
    if before is None or seconds is None:
        return None
    done, was = now.work, before.work
    appends = now.batches.appends - before.batches.appends
    return Rates(
        turns=(done.turns_finished - was.turns_finished) / seconds,
        requests=(done.requests - was.requests) / seconds,
        calls=(done.calls_finished - was.calls_finished) / seconds,
        failed=(done.calls_failed + done.replies_failed - was.calls_failed - was.replies_failed) / seconds,
        input_tokens=(done.input_tokens - was.input_tokens) / seconds,
        output_tokens=(done.output_tokens - was.output_tokens) / seconds,
        appends=appends / seconds,
        units=(now.batches.units - before.batches.units) / appends if appends else 0.0,
        append_ms=(now.batches.took_ms - before.batches.took_ms) / appends if appends else 0.0,
    )


def agent_rates(before: Top | None, now: Top) -> Mapping[str, AgentRates]:
    """By agent; empty when there are none to tell."""
    seconds = _seconds(before, now)
    if before is None or seconds is None:
        return {}
    was = {agent.agent: agent.work for agent in before.agents}
    return {
        agent.agent: AgentRates(
            requests=_more(agent.work, was.get(agent.agent), "requests") / seconds,
            calls=_more(agent.work, was.get(agent.agent), "calls_finished") / seconds,
            tokens=_more(agent.work, was.get(agent.agent), "input_tokens", "output_tokens") / seconds,
        )
        for agent in now.agents
    }


def _more(work: Work, was: Work | None, *names: str) -> int:
    return sum(getattr(work, name) - (getattr(was, name) if was is not None else 0) for name in names)


def _seconds(before: Top | None, now: Top) -> float | None:
    if before is None or before.process.pid != now.process.pid or before.writer != now.writer:
        return None
    seconds = now.counted_s - before.counted_s
    return seconds if seconds > 0 else None
