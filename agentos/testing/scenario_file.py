"""What a scenario file may say: one YAML file with agents, toolboxes, steps, and what must be seen.

Unknown keys and steps are errors that name file, line and column. `scenarios/README.md` is the page for people.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from agentos.definitions.checking import Parts, checked
from agentos.definitions.reading import read_yaml
from agentos.definitions.source import Source
from agentos.definitions.spec import Slug
from agentos.definitions.toolbox_spec import SHARED_MODELS, BoxName, Strict
from agentos.settings import Settings
from agentos.testing.scenario_cast import Agent, AnyBox, Box, Lent
from agentos.testing.scenario_systems import SYSTEMS
from agentos.testing.scenario_words import Step

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]

ENDS = frozenset({"crash", "kill", "close"})
"""Steps that end the life of a kernel: dropped in the middle, killed with its process, or closed in good order."""
CHANGES = {
    "kill": ("here", "gone"),
    "close": ("here", "gone"),
    "reopen": ("gone", "here"),
    "freeze": ("here", "frozen"),
    "thaw": ("frozen", "here"),
}
"""How a process is before a step, and after it; all other steps are done by one that is here."""
OF_PROCESSES = frozenset({"freeze", "thaw", "declare_dead"})
"""Steps that make sense for one of several processes alone."""


class Scenario(Strict):
    """A whole file. store: where the logs are; kill needs a file, since another process takes over. processes: names of
    real processes, each with a kernel of its own, that are there at the same time. files: programs that toolboxes run, by
    their names in the folder of the run."""

    title: Annotated[str, Field(min_length=1)]
    about: str = ""
    store: Literal["memory", "sqlite"] = "memory"
    settings: dict[str, Any] = Field(default_factory=dict)
    systems: list[str] = Field(default_factory=list)
    processes: list[Slug] = Field(default_factory=list)
    files: dict[FileName, str] = Field(default_factory=dict)
    toolboxes: dict[BoxName, AnyBox] = Field(default_factory=dict)
    resources: dict[BoxName, Lent] = Field(default_factory=dict)
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
        slugs = [slug for agent in agents for slug in slugs_of(agent)]
        if len(set(slugs)) < len(slugs):
            raise ValueError(f"two agents have the same slug: {', '.join(slugs)}")
        return agents

    @model_validator(mode="after")
    def _check_lives(self) -> Scenario:
        return self._check_processes() if self.processes else self._check_one_by_one()

    def _check_one_by_one(self) -> Scenario:
        over = False
        for n, step in enumerate(self.steps, 1):
            if step.in_ is not None or step.word in OF_PROCESSES:
                raise ValueError(f"step {n}: {step.word}: this needs 'processes: [first, second]'")
        for n, step in enumerate(self.steps, 1):
            if over is not (step.word == "reopen"):
                raise ValueError(f"step {n}: {_OUT_OF_PLACE[over]}")
            over = step.word in ENDS
        if self.store == "memory" and any(step.word in ("kill", "command") for step in self.steps):
            raise ValueError("kill and command need 'store: sqlite', which is not in one process alone")
        return self

    def _check_processes(self) -> Scenario:
        """Each of them is there from the begin, and goes and comes as its steps say."""
        if len(set(self.processes)) < len(self.processes) or self.store == "memory":
            raise ValueError("processes have different names, and share 'store: sqlite'")
        is_how = dict.fromkeys(self.processes, "here")
        for n, step in enumerate(self.steps, 1):
            named = [self.process_of(step), *([step.said.process] if step.word == "declare_dead" else [])]
            for name in named:
                if name not in is_how:
                    raise ValueError(f"step {n}: no process {name!r}; there are {', '.join(self.processes)}")
            before, after = CHANGES.get(step.word, ("here", "here"))
            if step.word == "crash" or is_how[named[0]] != before:
                raise ValueError(f"step {n}: {step.word}: the process {named[0]} is {is_how[named[0]]}{_NO_CRASH}")
            is_how[named[0]] = after
        return self

    def process_of(self, step: Step) -> str:
        """Which process does a step; without `processes` there is none."""
        return step.in_ or (self.processes[0] if self.processes else "")

    @property
    def everybody(self) -> list[Agent]:
        """All agents, the copies one by one."""
        return [
            agent if agent.copies is None else agent.model_copy(update={"slug": slug})
            for agent in self.agents
            for slug in slugs_of(agent)
        ]

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


_NO_CRASH = "; with processes, a kernel ends by kill or close, and freeze stands before thaw"
_OUT_OF_PLACE = {
    True: "after crash, kill or close comes reopen",
    False: "reopen comes right after crash, kill or close",
}


def slugs_of(agent: Agent) -> list[str]:
    """The names of an agent's copies, or its own where there are none."""
    if agent.copies is None:
        return [agent.slug]
    return [f"{agent.slug}-{number:03}" for number in range(1, agent.copies + 1)]


def _box_model(value: Any) -> type[BaseModel]:
    kind = value.get("kind") if isinstance(value, dict) else None
    return SHARED_MODELS.get(kind, Box) if isinstance(kind, str) else Box


_PARTS: Parts = {"agents": Agent, "steps": Step, "toolboxes": _box_model}


def load_scenario(path: Path) -> Scenario:
    """One scenario from one file. Raises ConfigurationError naming file, line and column of each problem."""
    source = read_yaml(path)
    scenario = checked(Scenario, source, _PARTS)
    scenario._source = source
    return scenario
