"""After the torture: the store and the effect file must tell the same story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from agentos.history import Identical, Skipped, replay_all, verify_store
from agentos.ids import call_id, turn_id
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.testing.torture_places import Place


class Findings(msgspec.Struct):
    """Counts of what is in the store and in the effect file, and every promise that was broken."""

    counts: dict[str, int] = {}
    broken: list[str] = []


async def check(place: Place, acknowledged: Sequence[tuple[str, int]], told: Mapping[str, str]) -> Findings:
    """acknowledged: inputs by log and seq. told: the outcome that a caller was told of a turn."""
    findings = Findings()
    store = open_store(place.url)
    try:
        await _inputs(store, acknowledged, findings)
        await _outcomes(store, told, findings)
        await _effects(store, place.effects, findings)
        await _ends(store, findings)
        await _history(store, findings)
    finally:
        await store.close()
    return findings


async def _inputs(store: Store, acknowledged: Sequence[tuple[str, int]], findings: Findings) -> None:
    sql = "select l.id, e.seq from entries e join logs l on l.n = e.n where e.kind = 'input.received'"
    stored = set((await store.query(sql)).rows)
    lost = [place for place in acknowledged if place not in stored]
    sql = "select text, count(*) from messages where role = 'user' and text like 'work %' group by text having count(*) > 1"
    twice = (await store.query(sql)).rows
    findings.counts |= {
        "inputs stored": len(stored),
        "acknowledged inputs lost": len(lost),
        "inputs stored twice": len(twice),
    }
    findings.broken += [f"the acknowledged input {log}:{seq} is lost" for log, seq in lost]
    findings.broken += [f"the input {text!r} is stored {count} times" for text, count in twice]


async def _outcomes(store: Store, told: Mapping[str, str], findings: Findings) -> None:
    sql = "select l.id, t.seq, t.outcome from turns t join logs l on l.n = t.n"
    stored: dict[str, str] = {turn_id(log, seq): outcome for log, seq, outcome in (await store.query(sql)).rows}
    lost = [turn for turn, outcome in told.items() if stored.get(turn) != outcome]
    findings.counts |= {"outcomes told": len(told), "told outcomes lost": len(lost)}
    findings.broken += [f"{turn} was told to be {told[turn]}, and is {stored.get(turn)}" for turn in lost]


async def _effects(store: Store, path: Path, findings: Findings) -> None:
    """At most one line of a `once` call; one of each that is done; none of a call that was never started."""
    lines = _lines_of(path)
    seen = Counter(key for key, _, _ in lines)
    sql = """
        select l.id, c.seq, c.status, c.effect, c.attempt from calls c join logs l on l.n = c.n
        where c.toolbox is not null
    """
    calls: dict[str, tuple[str, str, int]] = {
        call_id(log, seq): (status, effect, attempt)
        for log, seq, status, effect, attempt in (await store.query(sql)).rows
    }
    twice = [key for key, count in seen.items() if count > 1 and calls.get(key, ("", "once", 0))[1] == "once"]
    strange = [key for key in seen if key not in calls or not calls[key][2]]
    missing = [key for key, (status, _, _) in calls.items() if status == "done" and not seen[key]]
    findings.counts |= {
        "calls of tools": len(calls),
        "effects": len(lines),
        "calls whose outcome is unknown": sum(status == "unknown" for status, _, _ in calls.values()),
        "calls started again": sum(attempt > 1 for _, _, attempt in calls.values()),
        "once, but twice": len(twice),
        "effects without a stored start": len(strange),
        "done without an effect": len(missing),
    }
    findings.broken += [f"{key} took effect {seen[key]} times" for key in twice]
    findings.broken += [f"{key} took effect, and no start of it is stored" for key in strange]
    findings.broken += [f"{key} is done, and took no effect" for key in missing]


def _lines_of(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def _ends(store: Store, findings: Findings) -> None:
    states = Counter(row[0] for row in (await store.query("select state from conversations")).rows)
    rows = (await store.query("select coalesce(outcome, 'open'), coalesce(outcome_name, '') from turns")).rows
    outcomes = Counter(f"{outcome} ({name})" if name else outcome for outcome, name in rows)
    ((resumed,),) = (await store.query("select count(*) from entries where kind = 'turn.resumed'")).rows
    findings.counts |= {"turns resumed": resumed, "conversations": states.total(), "turns": outcomes.total()}
    findings.counts |= {f"  {outcome}": count for outcome, count in sorted(outcomes.items())}
    for state, count in states.items():
        if state != "idle":
            findings.broken.append(f"{count} conversations are {state} at the end")


async def _history(store: Store, findings: Findings) -> None:
    report = await verify_store(store)
    findings.counts["entries verified"] = report.entries
    findings.broken += [f"verify: {difference}" for difference in report.differences]
    identical = 0
    async for result in replay_all(store):
        identical += isinstance(result, Identical)
        if not isinstance(result, (Identical, Skipped)):
            findings.broken.append(f"replay: {result}")
    findings.counts["conversations replayed"] = identical
