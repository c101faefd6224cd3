"""The fork rule: a log cut anywhere and taken up as a fork goes on to an end, pairs its calls, and is decided again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agentos.components import Verdict
from agentos.events.intake import Resume
from agentos.history import Identical, replay_all, verify_store
from agentos.ids import Kind, LogId
from agentos.kernel.rest import open_requests
from agentos.persistence.base import LogRow, Unit
from agentos.persistence.base import Verdict as Stored
from agentos.persistence.memory import MemoryStore
from agentos.testing.scenario import Play, find_scenarios
from agentos.testing.scenario_cast import Box
from agentos.testing.scenario_file import Scenario, load_scenario
from agentos.testing.scenario_life import Carried, Life

PLAIN = [{"when": {}, "text": "plainly said"}]
ROUNDS = 50
LATER_S = 7200.0
WRITERS = 9
CUT = ("parent_call", "child_head")
"""What other logs say of one that was cut off does not hold any more, and verify has to find it."""


def alone() -> list[Path]:
    """The scenarios of one kernel after the other: those of several processes have no place in one memory."""
    return [path for path in find_scenarios() if not load_scenario(path).processes]


@pytest.mark.parametrize("path", alone(), ids=lambda path: path.stem)
def test_a_log_cut_at_any_seq_goes_on_as_a_fork(path: Path, tmp_path: Path) -> None:
    played = in_memory(path, tmp_path)
    units = units_of(played)
    plain = answering_plainly(played.scenario)
    for n, (log, upto) in enumerate(cuts(units)):
        folder = tmp_path / str(n)
        folder.mkdir()
        found = asyncio.run(take_up(plain, folder, units, log, upto))

        assert found == [], f"{log} cut at {upto}"
    assert n > 3


def in_memory(path: Path, folder: Path) -> Play:
    """The scenario as it is played over a store in memory, where a kill is a crash."""
    file = folder / path.name
    text = path.read_text().replace("store: sqlite", "store: memory").replace("- kill", "- crash")
    text = re.sub(r"  - command: .*\n", "", text)  # no other process sees a store in memory
    file.write_text(re.sub(r"copies: \d+", "copies: 1", text))  # what holds for one log holds for many of its sort
    play = Play(load_scenario(file), folder)
    assert play.run().ok
    return play


def units_of(play: Play) -> list[Unit]:
    """Every unit of a conversation, in the order in which they were stored."""
    assert play.memory is not None
    operations = play.memory._kept.operations
    return [unit for unit in operations if isinstance(unit, Unit) and unit.log.startswith(Kind.CONVERSATION.value)]


def cuts(units: list[Unit]) -> Iterator[tuple[LogId, int]]:
    """Each log, cut at each seq, rounded down to the end of a unit."""
    ends: dict[LogId, list[int]] = {}
    for unit in units:
        ends.setdefault(unit.log, []).append(unit.seq)
    for log, its in ends.items():
        rounded = {max(end for end in its if end <= seq) for seq in range(its[0], its[-1] + 1)}
        yield from ((log, upto) for upto in sorted(rounded))


def answering_plainly(scenario: Scenario) -> Scenario:
    agents = [agent.model_copy(update={"script": PLAIN}) for agent in scenario.agents]
    return scenario.model_copy(update={"agents": agents})


def later(scenario: Scenario) -> Carried:
    """Some time after the scenario, with nothing held."""
    boxes = [box for box in scenario.toolboxes.values() if isinstance(box, Box)]
    return Carried(elapsed_s=LATER_S, released=[name for box in boxes for name in box.tools])


async def store_of_others() -> MemoryStore:
    """A fresh store that has seen so many writers that the next is none of those of the scenario."""
    store = MemoryStore()
    for _ in range(WRITERS):
        await store.open("another")
    return store


async def take_up(scenario: Scenario, folder: Path, units: list[Unit], log: LogId, upto: int) -> list[str]:
    """What is wrong with the fork of a log: the kernel, its end, the next turn, and what is decided again."""
    life = Life(scenario, folder, later(scenario), await store_of_others())
    await life.open()
    fill(life, units, log, upto)
    others = {row.id: row.seq for row in await life.store.logs(Kind.CONVERSATION.value) if row.id != log}
    await as_fork(life, log)
    broken = await to_its_end(life, log)
    broken += [f"{row.id} was told of it" for row in await life.store.logs() if others.get(row.id, row.seq) != row.seq]
    schedule = life.kernel.schedule
    results = [result async for result in replay_all(life.store, schedule=schedule, settings=life.kernel.settings)]
    broken += [str(result) for result in results if not isinstance(result, Identical) and result.log in {*others, log}]
    broken += [str(found) for found in (await verify_store(life.store)).differences if found.field not in CUT]
    return broken + (await life.close()).broken


def fill(life: Life, units: list[Unit], log: LogId, upto: int) -> None:
    """The store as it was, but for the later units of this log; the kernel owns it all."""
    assert isinstance(life.store, MemoryStore)
    writer = life.kernel.ticker.writer
    definitions = [row for unit in units for row in unit.definitions]
    for unit in units:
        if unit.log != log or unit.seq <= upto:
            create: LogRow | None = unit.create and msgspec.structs.replace(unit.create, owner=writer, epoch=1)
            mine = msgspec.structs.replace(unit, owner=writer, epoch=1, create=create, definitions=definitions)
            assert life.store.append([mine]) == [Stored.STORED]


async def as_fork(life: Life, log: LogId) -> None:
    """As it is loaded, the log is taken up: it is no crash that the kernel has to recover from, but a fork."""
    kernel = life.kernel
    kernel.logs.mine.add(log)
    loaded = await kernel.logs.get(log)
    for alarm in await life.store.wakeups():
        if alarm.log == log:
            kernel.ticker.alarms.arm(loaded, alarm)
    kernel.ticker.feed(loaded, Resume(fork=True))


async def to_its_end(life: Life, log: LogId) -> list[str]:
    """Lets time pass and answers who asks until no turn is open, then asks for one more."""
    conversation = await life.kernel.get(log)
    for _ in range(ROUNDS):
        await life.settle()
        if conversation.state == "idle":
            break
        for request in open_requests(life.kernel):
            await life.kernel.answer(request, Verdict.ALLOW)
        life.clock.advance(60)
    else:
        return [f"it is still {conversation.state}"]
    outcome = await conversation.ask("and now?")
    fine = outcome.text == "plainly said" or str(outcome) == "limit(context)"
    return [] if fine else [f"the next turn ends as {outcome}: {outcome.text}"]
