"""Scenarios: what kernels are put through, step by step, and what must be seen; each is one YAML file.

    result = run_scenario(Path("scenarios/crash_and_resume.yaml"))
    print(result.text())

A scenario is a row of lives: kernels over one store, each closed, dropped in the middle, or killed with its process; or
several processes at once, each with such a row. At the end the invariants have held after every tick, each World was found
again as it was left, replay is identical, verify finds nothing, and no call ran more often than it may.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from agentos.definitions import wire
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.persistence import open_store
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from agentos.testing.scenario_boxes import box_of
from agentos.testing.scenario_child import live_in_child
from agentos.testing.scenario_end import check_end
from agentos.testing.scenario_file import ENDS, Scenario, load_scenario
from agentos.testing.scenario_life import Carried, Life
from agentos.testing.scenario_processes import Processes
from agentos.testing.scenario_result import ScenarioResult, StepResult
from agentos.testing.scenario_steps import live
from agentos.testing.scenario_tools import Outside
from agentos.testing.scenario_world import at_work

T = TypeVar("T")


def run_scenario(path: Path | str, *, folder: Path | None = None, store: str = "") -> ScenarioResult:
    """Runs one scenario from its file. Not to be called where an event loop runs: each life has its own.

    folder is where its store and what its tools wrote stay; by default they are removed. store is the URL of another
    store, which has to be empty, in the place of a file there; invariants are not asked after its ticks.
    Errors: ConfigurationError naming file, line and column; nothing that happens in the scenario.
    """
    scenario = load_scenario(Path(path))
    if folder is not None:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty; a scenario begins with nothing, so name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        return Play(scenario, folder, store).run()
    with tempfile.TemporaryDirectory(prefix="agentos-scenario-") as name:
        return Play(scenario, Path(name), store).run()


def find_scenarios() -> list[Path]:
    """The scenarios of this program: those of the checkout, or those that the wheel brought along."""
    here = Path(__file__).parent
    for folder in (here / "scenarios", here.parents[1] / "scenarios"):
        if folder.is_dir():
            return sorted(folder.glob("*.yaml"))
    return []


class Play:
    """One run of one scenario. memory is the store that all its lives share, when it is no file."""

    def __init__(self, scenario: Scenario, folder: Path, url: str = "") -> None:
        """Raises ConfigurationError when agents and toolboxes do not fit together, and for a store that is not empty."""
        self.scenario, self._folder, self._url = scenario, folder.absolute(), url
        _check_wiring(scenario, Outside(folder, ManualClock(), [], {}), folder)
        if url:
            _in_a_loop(_check_empty(url))
        self.memory = MemoryStore() if scenario.store == "memory" and not url else None
        self._carried = Carried()
        self._results: list[StepResult] = []

    def run(self) -> ScenarioResult:
        """All lives, and the checks at the end, as far as nothing fails."""
        try:
            if self._live_all():
                self._results += _in_a_loop(self._check_end())
        finally:
            if self.memory is not None:
                _in_a_loop(self.memory.close())
        done = sum(step.line > 0 for step in self._results)
        return ScenarioResult(
            path=str(self.scenario.path),
            title=self.scenario.title,
            about=self.scenario.about,
            steps=self._results,
            skipped=len(self.scenario.steps) - done,
        )

    def _live_all(self) -> bool:
        """Whether all steps went well: in one kernel after the other, or in several processes at once."""
        if not self.scenario.processes:
            return all(self._live(number, steps) for number, steps in enumerate(self.scenario.lives(), 1))
        with Processes(self.scenario, self._folder, self._url, self._results.append) as processes:
            carried = processes.live()
        self._carried = carried or self._carried
        return carried is not None

    def _live(self, number: int, steps: range) -> bool:
        """Whether the life came to its end."""
        end = self.scenario.steps[steps[-1]].word
        if end == "kill":
            tell = self._results.append
            carried = live_in_child(self.scenario, self._folder, number, steps, self._carried, tell, self._url)
        else:
            carried = _in_a_loop(self._live_here(number, steps, end))
        self._carried = carried or self._carried
        return carried is not None and self._results[-1].ok

    async def _live_here(self, number: int, steps: range, end: str) -> Carried | None:
        life = Life(self.scenario, self._folder, self._carried, self.memory, self._url)
        try:
            await life.open()
            if not await live(life, number, steps, self._results.append):
                await life.crash()
                return None
            carried = await (life.crash() if end == "crash" else life.close())
        except BaseException:
            await life.crash()
            raise
        if end in ENDS:
            line = self.scenario.line(steps[-1])
            saw = f"{_SAID[end]}, {at_work(carried.world)}"
            self._results.append(StepResult(life=number, line=line, word=end, saw=[saw]))
        return carried

    async def _check_end(self) -> list[StepResult]:
        """Over the store as it lasts, opened once more."""
        life = Life(self.scenario, self._folder, self._carried, self.memory, self._url)
        try:
            await life.open()
            return await check_end(life, self._carried)
        finally:
            await life.close()


_SAID = {"crash": "the kernel is dropped in the middle", "close": "the kernel is closed in good order"}


async def _check_empty(url: str) -> None:
    store = open_store(url)
    await store.open("scenario")
    try:
        if logs := len(await store.logs()):
            raise ConfigurationError(
                f"{store.url} has {logs} logs; a scenario begins with nothing, so name another store"
            )
    finally:
        await store.close()


def _check_wiring(scenario: Scenario, outside: Outside, folder: Path) -> None:
    toolboxes = {Name(name): box_of(scenario, name, outside, folder) for name in scenario.toolboxes}
    agents = {Name(agent.slug): agent for agent in scenario.everybody}
    try:
        wire(agents, toolboxes=toolboxes, settings=scenario.limits)
    except ConfigurationError as error:
        raise ConfigurationError(f"{scenario.path}: {error}") from error


def _in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner() as runner:
        return runner.run(work)
