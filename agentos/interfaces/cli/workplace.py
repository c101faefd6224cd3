"""What a command that drives turns works with: the store, the project around this folder, and agents named by file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentos.definitions import PROJECT_FILE, AgentSpec, Project, load_agents, load_project
from agentos.errors import ConfigurationError, UnknownAgent
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.output import say
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel


@dataclass(frozen=True, slots=True)
class Workplace:
    """asked is the agent that the command line names by a file, None when it names none."""

    url: str
    project: Project | None
    agents: dict[str, AgentSpec]
    asked: str | None

    @staticmethod
    def of(here: Invocation, files: Sequence[Path]) -> Workplace:
        """Agents of the project, and those of the files, which go before the project's. Raises ConfigurationError."""
        project = load_project(Path.cwd())
        named = load_agents(files)
        agents = {**(project.agents() if project is not None else {}), **named}
        if not agents:
            where = "names no agent" if project is not None else "was found from here upward"
            raise ConfigurationError(
                f"no agents: {PROJECT_FILE} {where}; 'agentos init' makes a project, --agent-file names an agent"
            )
        return Workplace(here.store_url(), project, agents, next(iter(named), None))

    def pick(self, wanted: str | None) -> str:
        """The agent to ask: the one wanted, else that of a file, else the project's default, else the only one."""
        if wanted is not None:
            if wanted not in self.agents:
                raise UnknownAgent(wanted, list(self.agents))
            return wanted
        chosen = self.asked or (self.project.default_agent if self.project is not None else None)
        if chosen is not None:
            if chosen not in self.agents:
                raise UnknownAgent(chosen, list(self.agents))
            return chosen
        if len(self.agents) > 1:
            raise UsageError(f"there are several agents; name one with -a: {', '.join(sorted(self.agents))}")
        return next(iter(self.agents))


@asynccontextmanager
async def opened(work: Workplace) -> AsyncIterator[Kernel]:
    """A kernel with all toolboxes open and all agents installed and checked."""
    async with open_kernel(work.url) as kernel:
        for toolbox in work.project.toolboxes() if work.project is not None else ():
            await kernel.add_toolbox(toolbox)
            for problem in getattr(toolbox, "problems", ()):
                say(f"toolbox {toolbox.name}: {problem.path} is left out: {problem.reason}")
        for spec in work.agents.values():
            await kernel.install(spec.path or spec)
        kernel.check()
        yield kernel
