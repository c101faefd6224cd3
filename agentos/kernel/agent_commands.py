"""What people say to a kernel about agents and toolboxes: which are in force, and which edits of their files count."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentos.components import ToolSpec
from agentos.definitions import AgentSpec
from agentos.ids import Name
from agentos.kernel.machine import Machine
from agentos.models.base import ModelClient
from agentos.toolboxes.base import Toolbox


class AgentCommands(Machine):
    """The part of a kernel that answers them."""

    async def install(
        self,
        spec: AgentSpec | str | os.PathLike[str],
        *,
        model: ModelClient | None = None,
        working_directory: Path | None = None,
    ) -> Name:
        """Puts an agent in force, from a spec or a file, with the toolboxes that it holds; open turns keep what they
        pinned. A file is followed from here on (see `refresh`), also that of a spec which says what its file says.

        working_directory: what the paths of toolboxes count from that say so; by default where this process is.
        Errors: ConfigurationError naming file and line. References to toolboxes and agents are checked at its first turn,
        so that agents may name each other in any order; `check` does it at once.
        """
        return await self._programs.install(spec, model, working_directory)

    async def refresh(self, agent: str | None = None) -> list[str]:
        """Takes up what was edited, for turns that begin from here on: the files of an agent, of its toolboxes and of the
        agents that it may ask; None is all of them. Gives what became of it, a sentence each.

        `start`, `send` and `ask` do so for their agent unless the setting follow_files is off. Nothing edited costs a stat
        for each file. A broken edit leaves what is in force, and is told: here, by a warning, and in the World
        (`AgentProblem`, `ToolboxState.problem`).
        Errors: UnknownAgent, StoreUnavailable.
        """
        self._commands.check_open()
        if agent is not None:
            self.catalog.spec(agent)
        return await self._following.refresh(Name(agent) if agent is not None else None)

    def check(self) -> None:
        """Resolves every installed agent, and makes its model.

        Errors: ConfigurationError for what is not there; of several agents it tells the first problem of each, a line each.
        """
        self._programs.check()

    def offered(self, agent: str) -> tuple[ToolSpec, ...]:
        """The tools that the model of an agent would be offered in a turn that begins now, by name.

        Errors: UnknownAgent; ConfigurationError for a reference that leads nowhere, and for a model that cannot be made.
        """
        return self._programs.offered(agent)

    async def add_toolbox(self, toolbox: Toolbox) -> Name:
        """Opens a toolbox and shares it among the agents that name it. Raises ConfigurationError."""
        return await self._programs.add_toolbox(toolbox)

    def bind(
        self, agent: str, toolbox: str, *, expose: Sequence[str] | None = None, grant: Sequence[str] | None = None
    ) -> None:
        """Lets an installed agent use an open toolbox from its next turn on, until it is installed anew."""
        self._programs.bind(agent, toolbox, expose, grant)

    def unbind(self, agent: str, toolbox: str) -> None:
        self._programs.unbind(agent, toolbox)

    async def remove(self, name: str) -> None:
        """Removes an agent, whose open turns end as they are, or a toolbox; its own toolboxes go with an agent.

        A toolbox takes no more calls, and closes when those that run have ended.
        Errors: UnknownToolbox; ReleaseFailed when it does not close.
        """
        await self._programs.remove(Name(name))
