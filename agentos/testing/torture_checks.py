"""After the torture: the store and the effect file must tell the same story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agentos.history import Identical, Skipped, replay_all, verify_store
from agentos.ids import call_id
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.testing.torture_life import EFFECTS, store_url


class Findings(msgspec.Struct):
    """Counts of what is in the store and in the effect file, and every promise that was broken."""

    counts: dict[str, int] = {}
    broken: list[str] = []

    def rows(self) -> list[tuple[str, object]]:
        return list(self.counts.items())


async def check(folder: Path, acknowledged: Sequence[tuple[str, int]]) -> Findings:
    findings = Findings()
    store = open_store(store_url(folder))
    try:
        await _inputs(store, acknowledged, findings)
        await _effects(store, folder / EFFECTS, findings)
        await _ends(store, findings)
        await _history(store, findings)
    finally:
        await store.close()
    return findings


async def _inputs(store: Store, acknowledged: Sequence[tuple[str, int]], findings: Findings) -> None:
    sql = "select l.id, e.seq from entries e join logs l on l.n = e.n where e.kind = 'input.received'"
    stored = set((await store.query(sql)).rows)
    lost = [place for place in acknowledged if place not in stored]
    findings.counts |= {"inputs stored": len(stored), "acknowledged inputs lost": len(lost)}
    findings.broken += [f"the acknowledged input {log}:{seq} is lost" for log, seq in lost]


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
    outcomes = Counter(row[0] for row in (await store.query("select coalesce(outcome, 'open') from turns")).rows)
    findings.counts |= {"conversations": states.total(), "turns": outcomes.total()}
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
