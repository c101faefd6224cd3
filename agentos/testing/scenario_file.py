"""What a scenario file may say: one YAML file with agents, toolboxes, steps, and what must be seen.

Unknown keys and steps are errors that name file, line and column. `scenarios/README.md` is the page for people.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from agentos.definitions.checking import checked
from agentos.definitions.reading import read_yaml
from agentos.definitions.source import Source
from agentos.definitions.toolbox_spec import BoxName, Strict
from agentos.settings import Settings
from agentos.testing.scenario_systems import SYSTEMS
from agentos.testing.scenario_words import Agent, Box, Step

ENDS = frozenset({"crash", "kill", "close"})
"""Steps that end the life of a kernel: dropped in the middle, killed with its process, or closed in good order."""


class Scenario(Strict):
    """A whole file. store: where the logs are; kill needs a file, since another process takes over."""

    title: Annotated[str, Field(min_length=1)]
    about: str = ""
    store: Literal["memory", "sqlite"] = "memory"
    settings: dict[str, Any] = Field(default_factory=dict)
    systems: list[str] = Field(default_factory=list)
    toolboxes: dict[BoxName, Box] = Field(default_factory=dict)
    agents: Annotated[list[Agent], Field(min_length=1)]
    steps: Annotated[list[Step], Field(min_length=1)]

    _source: Source = PrivateAttr()

    @field_validator("settings")
    @classmethod
    def _check_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name in settings:
            if name not in Settings.__struct_fields__:
                raise ValueError(f"no setting {name!r}; there are {', '.join(Settings.__struct_fields__)}")
        try:
            msgspec.convert(settings, Settings)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        return settings

    @field_validator("systems")
    @classmethod
    def _check_systems(cls, systems: list[str]) -> list[str]:
        for name in systems:
            if name not in SYSTEMS:
                raise ValueError(f"no system {name!r}; there are {', '.join(SYSTEMS)}")
        return systems

    @field_validator("agents")
    @classmethod
    def _check_slugs(cls, agents: list[Agent]) -> list[Agent]:
        slugs = [agent.slug for agent in agents]
        if len(set(slugs)) < len(slugs):
            raise ValueError(f"two agents have the same slug: {', '.join(slugs)}")
        return agents

    @model_validator(mode="after")
    def _check_lives(self) -> Scenario:
        over = False
        for n, step in enumerate(self.steps, 1):
            if over is not (step.word == "reopen"):
                raise ValueError(f"step {n}: {_OUT_OF_PLACE[over]}")
            over = step.word in ENDS
        if self.store == "memory" and any(step.word == "kill" for step in self.steps):
            raise ValueError("kill needs 'store: sqlite', which outlives a process")
        return self

    @property
    def path(self) -> Path:
        return self._source.path

    @property
    def limits(self) -> Settings:
        return msgspec.convert(self.settings, Settings)

    def line(self, step: int) -> int:
        """Where a step stands in the file, from 1."""
        return self._source.places[("steps", step)].line

    def lives(self) -> list[range]:
        """The numbers of the steps of each kernel's life, in order."""
        ends = [n + 1 for n, step in enumerate(self.steps) if step.word in ENDS and n + 1 < len(self.steps)]
        return [range(*pair) for pair in zip([0, *ends], [*ends, len(self.steps)], strict=True)]


_OUT_OF_PLACE = {
    True: "after crash, kill or close comes reopen",
    False: "reopen comes right after crash, kill or close",
}
_PARTS: dict[str, type[BaseModel]] = {"agents": Agent, "steps": Step, "toolboxes": Box}


def load_scenario(path: Path) -> Scenario:
    """One scenario from one file. Raises ConfigurationError naming file, line and column of each problem."""
    source = read_yaml(path)
    scenario = checked(Scenario, source, _PARTS)
    scenario._source = source
    return scenario
