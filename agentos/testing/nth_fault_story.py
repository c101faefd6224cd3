"""One run of `agentos.testing.nth_fault`: a story with one fault, told by as many processes as it takes, and judged."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial

import msgspec

from agentos.errors import StoreError
from agentos.testing.faults import Fault, FaultPlan
from agentos.testing.forked import Forked, Silence, Tell
from agentos.testing.nth_fault_life import DIES_IN_A_CALL, DIES_PARKED, live
from agentos.testing.nth_fault_points import failing, store_at
from agentos.testing.torture_places import Place
from agentos.testing.torture_run import Run, findings_of

PARTS = (DIES_IN_A_CALL, DIES_PARKED, 3)
LIVES_MAX = 6
PATIENCE_S = 60.0


class Story(msgspec.Struct):
    """How it went. visits counts those of "PART POINT", as far as its processes lived to make them."""

    fired: bool = False
    ended: bool = False
    lost: int = 0
    twice: int = 0
    visits: dict[str, int] = {}
    broken: list[str] = []


def tell_story(place: Place, fault: Fault | None, part: int) -> Story:
    """The whole story in an empty store, with a fault in one part of it."""
    story, run = Story(), Run()
    while not story.ended and run.lives < LIVES_MAX:
        run.lives += 1
        _live(place, story, run, fault if run.lives == part else None)
    findings = findings_of(place, run)
    counts = findings.counts
    story.lost = counts.get("acknowledged inputs lost", 0) + counts.get("told outcomes lost", 0)
    story.twice = counts.get("once, but twice", 0) + counts.get("inputs stored twice", 0)
    broken = [*run.broken, *findings.broken]
    broken += [] if story.ended else [f"after {LIVES_MAX} lives it has not come to its end"]
    where = f"{fault.kind} at {fault.point} {fault.n} of part {part}: " if fault is not None else ""
    story.broken = [where + what for what in broken]
    return story


def _live(place: Place, story: Story, run: Run, fault: Fault | None) -> None:
    """The next part."""
    with Forked(partial(_work, place, run.lives, fault)) as child:
        try:
            for line in child.lines(PATIENCE_S):
                if line.startswith("v"):
                    visited = f"{run.lives} {line[1:]}"
                    story.visits[visited] = story.visits.get(visited, 0) + 1
                    continue
                sign = run.note(line)
                story.fired |= sign == "f"
                story.ended |= sign == "z"
        except Silence as silence:
            run.broken.append(f"life {run.lives}: {silence}")
            child.kill()
    if child.status not in (0, -signal.SIGKILL):
        run.broken.append(f"life {run.lives} ended by itself with status {child.status}")


def _work(place: Place, part: int, fault: Fault | None, tell: Tell) -> None:
    logging.disable(logging.WARNING)  # what goes wrong is planned
    plan = FaultPlan([fault] if fault is not None else [])
    try:
        asyncio.run(live(store_at(place, failing(plan, place.name, tell)), place.effects, part, tell))
    except StoreError:
        tell("x")  # it could not begin; somebody starts it again
