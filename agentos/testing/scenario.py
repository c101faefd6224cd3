"""Scenarios: what kernels are put through, step by step, and what must be seen; each is one YAML file.

    result = run_scenario(Path("scenarios/crash_and_resume.yaml"))
    print(result.text())

A scenario is a row of lives: kernels over one store, each closed, dropped in the middle, or killed with its process. At
the end the invariants have held after every tick, each World was found again as it was left, replay is identical, verify
finds nothing, and no call ran more often than it may.
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
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from agentos.testing.scenario_child import live_in_child
from agentos.testing.scenario_end import check_end
from agentos.testing.scenario_file import ENDS, Scenario, load_scenario
from agentos.testing.scenario_life import Carried, Life
from agentos.testing.scenario_result import ScenarioResult, StepResult
from agentos.testing.scenario_steps import live
from agentos.testing.scenario_tools import Outside, ScenarioToolbox
from agentos.testing.scenario_world import at_work

T = TypeVar("T")


def run_scenario(path: Path | str, *, folder: Path | None = None) -> ScenarioResult:
    """Runs one scenario from its file. Not to be called where an event loop runs: each life has its own.

    folder is where its store and what its tools wrote stay; by default they are removed.
    Errors: ConfigurationError naming file, line and column; nothing that happens in the scenario.
    """
    scenario = load_scenario(Path(path))
    if folder is not None:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty; a scenario begins with nothing, so name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        return Play(scenario, folder).run()
    with tempfile.TemporaryDirectory(prefix="agentos-scenario-") as name:
        return Play(scenario, Path(name)).run()


def find_scenarios() -> list[Path]:
    """The scenarios of this program: those of the checkout, or those that the wheel brought along."""
    here = Path(__file__).parent
    for folder in (here / "scenarios", here.parents[1] / "scenarios"):
        if folder.is_dir():
            return sorted(folder.glob("*.yaml"))
    return []


class Play:
    """One run of one scenario. memory is the store that all its lives share, when it is no file."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        """Raises ConfigurationError when agents and toolboxes do not fit together."""
        self.scenario, self._folder = scenario, folder.absolute()
        _check_wiring(scenario, Outside(folder, ManualClock(), [], {}))
        self.memory = MemoryStore() if scenario.store == "memory" else None
        self._carried = Carried()
        self._results: list[StepResult] = []

    def run(self) -> ScenarioResult:
        """All lives, and the checks at the end, as far as nothing fails."""
        lives = self.scenario.lives()
        try:
            if all(self._live(number, steps) for number, steps in enumerate(lives, 1)):
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

    def _live(self, number: int, steps: range) -> bool:
        """Whether the life came to its end."""
        end = self.scenario.steps[steps[-1]].word
        if end == "kill":
            tell = self._results.append
            carried = live_in_child(self.scenario, self._folder, number, steps, self._carried, tell)
        else:
            carried = _in_a_loop(self._live_here(number, steps, end))
        self._carried = carried or self._carried
        return carried is not None and self._results[-1].ok

    async def _live_here(self, number: int, steps: range, end: str) -> Carried | None:
        life = Life(self.scenario, self._folder, self._carried, self.memory)
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
        life = Life(self.scenario, self._folder, self._carried, self.memory)
        try:
            await life.open()
            return await check_end(life, self._carried)
        finally:
            await life.close()


_SAID = {"crash": "the kernel is dropped in the middle", "close": "the kernel is closed in good order"}


def _check_wiring(scenario: Scenario, outside: Outside) -> None:
    toolboxes = {Name(name): ScenarioToolbox(name, box, outside) for name, box in scenario.toolboxes.items()}
    agents = {Name(agent.slug): agent for agent in scenario.agents}
    try:
        wire(agents, toolboxes=toolboxes, settings=scenario.limits)
    except ConfigurationError as error:
        raise ConfigurationError(f"{scenario.path}: {error}") from error


def _in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner() as runner:
        return runner.run(work)
