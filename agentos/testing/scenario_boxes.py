"""What other programs need in a scenario: the files of real kinds of toolboxes, and an environment."""

from __future__ import annotations

import os
from pathlib import Path

import agentos
from agentos.definitions.boxes import make_toolbox
from agentos.testing.scenario_cast import Box
from agentos.testing.scenario_file import Scenario
from agentos.testing.scenario_tools import Outside, ScenarioToolbox
from agentos.toolboxes.base import Toolbox

_EXECUTABLE = 0o700


def write_files(scenario: Scenario, folder: Path) -> None:
    """The files of the scenario, for a life that is the first one in this folder."""
    for name, text in scenario.files.items():
        path = folder / name
        if not path.exists():
            path.write_text(text)
            path.chmod(_EXECUTABLE)


def box_of(scenario: Scenario, name: str, outside: Outside, folder: Path) -> Toolbox:
    """A toolbox of the scenario, not opened."""
    box = scenario.toolboxes[name]
    return ScenarioToolbox(name, box, outside) if isinstance(box, Box) else make_toolbox(name, box, folder)


def environment() -> dict[str, str]:
    """With it, a child runs the code that this process runs."""
    here = str(Path(agentos.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}
