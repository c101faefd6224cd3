"""A look at a kernel as the lines of a screen: what matters most stands first, and every line fits its width."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agentos.components import Shares
from agentos.interfaces.cli.finding import short
from agentos.interfaces.cli.output import cell, clipped, counted, table
from agentos.interfaces.cli.ps import span, with_tenants
from agentos.interfaces.cli.top.rates import AgentRates, Rates, agent_rates, rates_of
from agentos.kernel.top import AgentVitals, LimitUse, OpenTurn, ResourceUse, Top

STATES = ("running", "parked", "idle", "paused", "closed")
_EFFECTS = {"model": "model request"}
_WAITS = {
    "bound": "room for a process or a handle",
    "child": "a subagent",
    "doubt": "a word on a doubt",
    "retry": "a retry",
    "resource": "a resource",
    "slot": "a slot",
}
LABEL = 8
"""Places of the word that begins a line."""
AGENTS_MAX = 8
TURN_LINES_MIN = 4
"""Turns have at least so many lines, their head included, before agents have any."""
TURN_COLUMNS = ("conversation", "agent", "phase", "for", "turn", "step", "calls", "what")
AGENT_COLUMNS = ("agent", "running", "parked", "requests/s", "calls/s", "tokens/s")
HEADS = ("agent ", "conversation ")
"""How the heads of the two tables begin."""


def screen_of(before: Top | None, now: Top, columns: int, rows: int) -> list[str]:
    """At most so many lines of at most so many places; before is the look before, for rates."""
    lines = [*summary(before, now)]
    left = rows - len(lines) - 1
    turns = turn_lines(now)
    agents = agent_lines(now, agent_rates(before, now))
    room = left - min(len(turns), TURN_LINES_MIN) - 1
    if agents and room >= 2:
        lines += ["", *agents[: min(room, AGENTS_MAX + 1)]]
    if rows - len(lines) > 2:
        lines += ["", *_cut(turns, rows - len(lines) - 1, now.turns_open)]
    return [clipped(cell(line), columns) for line in lines[:rows]]


def summary(before: Top | None, now: Top) -> list[str]:
    """The kernel as a whole."""
    rates = rates_of(before, now)
    return [
        _title(now),
        _line(
            "turns",
            _counts(now.conversations, STATES),
            f"{now.turns_open} open",
            f"{now.turns_waiting:,} waiting for a place" if now.turns_waiting else "",
        ),
        _line("rates", *_rates(rates)),
        _line("outside", *(counted(n, _EFFECTS.get(word, word)) for word, n in sorted(now.effects.items()))),
        _line("waits", *(f"{n:,} for {_WAITS.get(word, word)}" for word, n in sorted(now.waits.items()))),
        _line("in use", *_in_use(now.resources)),
        *([_line("limits", *map(_limit, now.limits))] if now.limits else []),
        *([_line("weights", *_weights(now.shares))] if now.shares != Shares() else []),
        _line("store", *_store(now, rates)),
        _line("process", *_process(now)),
    ]


def turn_lines(now: Top) -> list[str]:
    """Open turns, a line each below their head."""
    if not now.turns:
        return ["no open turns"]
    return table(*with_tenants(TURN_COLUMNS, [(turn.tenant, _turn(turn, now.at)) for turn in now.turns]), clip=True)


def agent_lines(now: Top, rates: Mapping[str, AgentRates]) -> list[str]:
    """Agents that do something, the busiest first, a line each below their head."""
    agents = sorted(now.agents, key=lambda agent: (-agent.running, -_busy(rates.get(agent.agent)), agent.agent))
    rows = [_agent(agent, rates.get(agent.agent)) for agent in agents]
    return table(AGENT_COLUMNS, rows, clip=True) if rows else []


def _title(now: Top) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(now.at / 1e6))
    who = f"writer {now.writer}, pid {now.process.pid}, up {span(now.up_s)}"
    return f"agentos {at}  {who}  {now.store}"


def _line(label: str, *facts: str) -> str:
    return f"{label:<{LABEL}}  {', '.join(fact for fact in facts if fact) or 'none'}"


def _counts(counts: dict[str, int], order: Sequence[str] = ()) -> str:
    names = [*(name for name in order if name in counts), *sorted(counts.keys() - set(order))]
    return ", ".join(f"{counts[name]:,} {name}" for name in names)


def _rates(rates: Rates | None) -> Iterable[str]:
    if rates is None:
        return ("counting",)
    return (
        f"{_number(rates.turns)} turns/s",
        f"{_number(rates.requests)} requests/s",
        f"{_number(rates.calls)} calls/s",
        f"{_number(rates.failed)} failures/s" if rates.failed else "",
        f"tokens/s {_number(rates.input_tokens)} in {_number(rates.output_tokens)} out",
    )


def _in_use(resources: Sequence[ResourceUse]) -> list[str]:
    """What is held or waited for, the most wanted first; what is free is only counted."""
    used = sorted((one for one in resources if one.held or one.waiting), key=lambda one: (-one.waiting, -one.held))
    free = len(resources) - len(used)
    return [*map(_use, used), *([f"{free} free"] if free or not used else [])]


def _use(one: ResourceUse) -> str:
    bound = f"/{one.size}" if one.size else ""
    waiting = f" +{one.waiting} waiting" if one.waiting else ""
    return f"{one.name} {one.held}{bound}{waiting}"


def _limit(one: LimitUse) -> str:
    """turns 4/4 +12 waiting, or calls of agent reviewer 2/2."""
    whose = "" if one.scope == "program" else f" of {one.scope} {one.name}"
    waiting = f" +{one.waiting:,} waiting" if one.waiting else ""
    return f"{one.of}{whose} {one.held}/{one.size}{waiting}"


def _weights(shares: Shares) -> Iterable[str]:
    yield from (f"{share.name} {share.weight:g}" for share in shares.agents)
    yield from (f"tenant {share.name} {share.weight:g}" for share in shares.tenants)


def _store(now: Top, rates: Rates | None) -> Iterable[str]:
    if rates is None:
        return ("counting",)
    return (
        f"{_number(rates.appends)} batches/s of {_number(rates.units)} units",
        f"{rates.append_ms:.1f} ms each",
        f"longest {now.batches.longest_ms:.1f} ms",
        f"{now.batches.failed} failed" if now.batches.failed else "",
    )


def _process(now: Top) -> Iterable[str]:
    process = now.process
    return (
        f"{process.memory_bytes / 2**20:.0f} MB" if process.memory_bytes is not None else "",
        f"loop late by {now.lag_ms:.1f} ms" if now.lag_ms is not None else "",
        counted(process.threads, "thread"),
        counted(process.files, "file") if process.files is not None else "",
        f"{process.children} child processes" if process.children else "",
    )


def _turn(turn: OpenTurn, at: int) -> list[object]:
    what = ", ".join(_grouped(turn.doing)) or ", ".join(f"for {_WAITS.get(word, word)}" for word in turn.waits)
    return [
        short(turn.conversation),
        turn.agent,
        turn.phase.value,
        _since(turn.phase_at, at),
        _since(turn.started_at, at),
        turn.step,
        turn.calls,
        what or None,
    ]


def _grouped(names: Iterable[str]) -> list[str]:
    """Each once, with how often it is there."""
    return [f"{name} x{count}" if count > 1 else name for name, count in Counter(names).items()]


def _since(then: int | None, at: int) -> str | None:
    return None if then is None else span(max(0, at - then) / 1e6)


def _agent(agent: AgentVitals, rates: AgentRates | None) -> list[object]:
    shown = [None] * 3 if rates is None else [_Rate(rate) for rate in rates]
    return [agent.agent, agent.running, agent.parked, *shown]


def _busy(rates: AgentRates | None) -> float:
    return rates.calls + rates.requests if rates is not None else 0.0


class _Rate(float):
    """A number that is shown short, and stands to the right as numbers do."""

    def __str__(self) -> str:
        return _number(self)


def _number(value: float) -> str:
    """0.4, 12, 1.2k, 3.4M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")


def _cut(lines: list[str], limit: int, total: int) -> list[str]:
    """The first of them; the last line says how many turns are left out."""
    shown = len(lines) - 1
    if len(lines) <= limit and shown >= total:
        return lines
    kept = lines[: max(1, limit - 1)]
    return [*kept, f"and {total - len(kept) + 1:,} more"] if total > len(kept) - 1 else kept
