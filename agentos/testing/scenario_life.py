"""The life of one kernel in a scenario: from its opening until it is closed, dropped, or killed with its process."""

from __future__ import annotations

import asyncio
import inspect
import re
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from agentos.errors import AgentosError
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.kernel.control.server import ControlServer
from agentos.models import ScriptedModel
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.reading import SqlReads
from agentos.persistence.sqlite import SQLiteStore
from agentos.resources import Factory
from agentos.resources.process.descendants import living_below
from agentos.testing.checker import Checker
from agentos.testing.clock import START, ManualClock
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.testing.live_invariants import scopes_are_owned
from agentos.testing.scenario_boxes import box_of, write_files
from agentos.testing.scenario_file import Scenario
from agentos.testing.scenario_systems import SYSTEMS
from agentos.testing.scenario_tools import Outside
from agentos.testing.scenario_world import Picture, differences, logs_in, picture_of, picture_of_store, size_of

STORE_FILE = "store.db"
SPINS, ROUNDS, ROUND_S = 200, 10_000, 0.002
"""How patiently something is waited for that others do at once; time in a scenario passes on its own clock alone."""


class StepFailed(Exception):
    """A step did not see what it should; wrong has one sentence for each finding."""

    def __init__(self, wrong: Sequence[str], saw: Sequence[str] = ()) -> None:
        self.wrong, self.saw = list(wrong), list(saw)
        super().__init__("; ".join(self.wrong))


class Carried(msgspec.Struct, kw_only=True, tag=True):
    """What goes on from one life to the next; all else stands in the store and in the files outside.

    names are those of conversations. world is the picture that the next kernel has to find again. checks counts how
    often the invariants were asked, and broken says what they found.
    """

    names: dict[str, str] = {}
    elapsed_s: float = 0.0
    ids_made: int = 0
    released: list[str] = []
    most_inside: dict[str, int] = {}
    world: Picture = {}
    checks: int = 0
    broken: list[str] = []


async def _token() -> object:
    """What a tool has that borrows a resource of a scenario."""
    return object()


class Life:
    """One kernel over the scenario's store, with its clock, its tools, and the invariants after each of its ticks."""

    def __init__(
        self, scenario: Scenario, folder: Path, carried: Carried, memory: MemoryStore | None = None, url: str = ""
    ) -> None:
        """url is that of a store in the place of a file in the folder."""
        self.scenario, self.folder, self.names = scenario, folder, dict(carried.names)
        self.processes_before = living_below()
        self.writers: dict[str, int] = {}
        self.clock = ManualClock(START, carried.elapsed_s)
        self.outside = Outside(folder, self.clock, carried.released, carried.most_inside)
        self.store: Store = memory or (
            open_store(url, scenario.limits) if url else SQLiteStore(str(folder / STORE_FILE), settings=scenario.limits)
        )
        self._before = carried
        self._ids = SequentialIds(carried.ids_made + 1)
        self.kernel = Kernel(
            self.store,
            ids=self._ids,
            clock=self.clock,
            salts=SequentialSalts(),
            settings=scenario.limits,
            systems=[SYSTEMS[name] for name in scenario.systems],
        )
        asked = any(step.word == "command" for step in scenario.steps)
        self._door = ControlServer(self.kernel, self.store.url, scenario.limits) if asked else None
        self._reads = None if memory is not None or url else _Reads(folder / STORE_FILE)
        readable = memory or self._reads
        self._checker = Checker(cast(Store, readable), self.kernel.registry) if readable is not None else None
        self._asks: list[asyncio.Task[RunOutcome]] = []

    async def open(self) -> None:
        """With the toolboxes and agents of the scenario."""
        await self.kernel.__aenter__()
        if self._door is not None:
            await self._door.open(self.kernel.ticker.writer)
        if self._checker is not None:
            self._checker.watch(self.kernel)
        write_files(self.scenario, self.folder)
        for name, lent in self.scenario.resources.items():
            await self.kernel.resources.create(
                self.kernel.scope, "scenario", name, Factory(_token), pattern=lent.pattern, size=lent.size
            )
        for name in self.scenario.toolboxes:
            await self.kernel.add_toolbox(box_of(self.scenario, name, self.outside, self.folder))
        for agent in self.scenario.everybody:
            model = None if agent.script is None else ScriptedModel(agent.script, self.clock)
            spec = agent if model is None else agent.model_copy(update={"model": "scripted"})
            await self.kernel.install(spec, model=model)

    async def world_as_before(self) -> str:
        """Compares what is loaded again with the last picture. Raises StepFailed."""
        before = self._before.world
        after = picture_of(self.kernel.world)
        after |= await picture_of_store(self.kernel.store, self.kernel.registry, logs_in(before))
        if wrong := differences(before, after):
            raise StepFailed([f"the World is not as it was before: {what}" for what in wrong])
        return f"the World is as it was before: {size_of(after)}"

    def ask(self, conversation: Conversation, text: str) -> asyncio.Task[RunOutcome]:
        task = asyncio.get_running_loop().create_task(conversation.ask(text))
        self._asks.append(task)
        return task

    async def conversation(self, name: str | None) -> Conversation:
        """By its name, else the only one of an agent of this slug; without a name the first. Raises StepFailed."""
        known = self.names if name is None else {key: id_ for key, id_ in self.names.items() if key == name}
        for id_ in known.values():
            return await self.kernel.get(id_)
        sql = "select id from conversations where agent = ? order by started_at, n"
        found = (await self.kernel.query(sql, (name or "",))).rows
        if len(found) != 1:
            raise StepFailed([f"no conversation has the name {name!r}, and {len(found)} are of an agent of this slug"])
        return await self.kernel.get(found[0][0])

    def told(self, error: AgentosError) -> str:
        """An error in words, with the names of processes in place of what is another in each run."""
        said = f"{type(error).__name__}: {error}"
        for name, number in self.writers.items():
            said = re.sub(rf"writer {number}, pid \d+ on [^,]*, since [-0-9]+ [:0-9]+ UTC", f"process {name}", said)
        return said

    def name_of(self, id_: str) -> str:
        return next((name for name, known in self.names.items() if known == id_), id_)

    async def settle(self) -> None:
        """Until nothing goes on without something from outside: the clock, a gate, a person."""
        for _ in range(3):
            for _ in range(20):
                await asyncio.sleep(0)
            await self.kernel.ticker.wait_quiet()

    async def until(self, lacking: Callable[[], Awaitable[list[str]] | list[str]]) -> None:
        """Lets others run until nothing is lacking any more. Raises StepFailed with what still is."""
        said: list[str] = []
        for spin in range(ROUNDS):
            found = lacking()
            said = await found if inspect.isawaitable(found) else found
            if not said:
                return
            await asyncio.sleep(0 if spin < SPINS else ROUND_S)
        raise StepFailed([f"it never came true: {what}" for what in said])

    async def close(self) -> Carried:
        """In good order; what still runs is cancelled at once."""
        await self.settle()
        broken = scopes_are_owned(self.kernel)
        await self.kernel.close(0.0)
        if self.kernel.scope.open:
            broken.append(f"{self.kernel.scope.open} things were not given back at the close")
        carried = self.last_words()
        carried.broken += broken
        await self._let_go()
        return carried

    async def crash(self) -> Carried:
        """Dropped as it stands: nothing more is stored, and nobody is told. What toolboxes of real kinds hold of this
        process, which goes on, is given back."""
        carried = self.last_words()
        if isinstance(self.store, (MemoryStore, SQLiteStore)):
            self.store.abandon()
        else:
            await self.store.close()
        await self._let_go()
        await self.kernel.scope.close()
        return carried

    def last_words(self) -> Carried:
        """What the next life has to know, as of now."""
        checker, before = self._checker, self._before
        return Carried(
            names=self.names,
            elapsed_s=self.clock.monotonic(),
            ids_made=self._ids.made,
            released=self.outside.released,
            most_inside=dict(self.outside.most_inside),
            world=picture_of(self.kernel.world),
            checks=before.checks + (checker.checks if checker is not None else 0),
            broken=[*before.broken, *(checker.broken if checker is not None else ())],
        )

    async def _let_go(self) -> None:
        """Of every task on this loop: those of a dropped kernel end with it, as those of a dead process do."""
        self.kernel.ticker.after_tick = None
        if self._door is not None:
            await self._door.close()
        for _ in range(ROUNDS):
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *self._asks, return_exceptions=True)
            if not tasks:
                break
        if self._reads is not None:
            self._reads.close()


class _Reads(SqlReads):
    """Reads a SQLite file in place, for checks in the middle of a tick, which cannot wait."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._db: sqlite3.Connection | None = None

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._db is None:
            self._db = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        return self._db.execute(sql, tuple(parameters)).fetchall()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
