"""What a command that drives turns works with: the store, the project around this folder, and agents named by file."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from agentos.components import ToolboxConfig, ToolboxState, ToolboxStatus
from agentos.definitions import PROJECT_FILE, AgentSpec, Loaded, Project, load_all, load_project
from agentos.errors import ConfigurationError, UnknownAgent
from agentos.ids import Kind, hashed_id
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.invocation import Invocation
from agentos.interfaces.cli.log_file import log_file
from agentos.interfaces.cli.output import counted, is_terminal, say
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel
from agentos.ports import Approval, Hook
from agentos.settings import Settings

BASE_URL_VARIABLE = "AGENTOS_BASE_URL"
KEYS_VARIABLE = "AGENTOS_KEYS"
LOG_VARIABLE = "AGENTOS_LOG_FILE"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where models are asked, and with which keys: options of every command that asks one."""

    api_keys: Annotated[
        tuple[Path, ...], Parameter(negative="", show_default=False, help=f"a file of keys [env var: {KEYS_VARIABLE}]")
    ] = ()
    base_url: Annotated[
        str | None,
        Parameter(help=f"the server that every model of the network is asked at [env var: {BASE_URL_VARIABLE}]"),
    ] = None

    def keys(self, project: Project | None) -> tuple[Path, ...]:
        """Key files in the order in which they are asked: of the flag, the environment, the project."""
        named = os.environ.get(KEYS_VARIABLE, "")
        from_environment = [Path(name) for name in named.split(os.pathsep) if name]
        return (*self.api_keys, *from_environment, *(project.key_files if project is not None else ()))

    def url(self) -> str | None:
        return self.base_url or os.environ.get(BASE_URL_VARIABLE) or None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Network):
    """Which agents and how: options of every command that drives turns."""

    agent_file: Annotated[
        tuple[Path, ...],
        Parameter(
            negative="", show_default=False, help="a file with an agent, or a folder of them; the first is asked"
        ),
    ] = ()
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"], help="the slug of the agent to ask")] = None
    without: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="go on without this toolbox: its name, or a pattern with * and ?"
        ),
    ] = ()
    log_file: Annotated[
        Path | None,
        Parameter(help=f"append a line of JSON for every effect to this file [env var: {LOG_VARIABLE}]"),
    ] = None

    @staticmethod
    def on(network: Network | None) -> Selection:
        """The agents of the project, with these models."""
        return Selection(api_keys=network.api_keys, base_url=network.base_url) if network is not None else Selection()

    def log(self) -> Path | None:
        named = os.environ.get(LOG_VARIABLE)
        return self.log_file or (Path(named) if named else None)


@dataclass(frozen=True, slots=True)
class Workplace:
    """What was found. loaded has all agents by slug, those of the files before the project's."""

    url: str
    project: Project | None
    loaded: Loaded
    selection: Selection

    @staticmethod
    def of(here: Invocation, selection: Selection) -> Workplace:
        """Raises ConfigurationError with all errors of all files; that there are warnings is said to who looks."""
        project = load_project(Path.cwd())
        loaded = load_all(project, selection.agent_file)
        loaded.check()
        if loaded.warnings and is_terminal(sys.stderr):
            say(f"{counted(len(loaded.warnings), 'warning')} about agent files; 'agentos check' tells more")
        if not loaded.agents:
            none = f"no {PROJECT_FILE} was found from here upward" if project is None else f"{PROJECT_FILE} names none"
            raise ConfigurationError(f"no agents: {none}; 'agentos init' makes a project, --agent-file names an agent")
        return Workplace(here.store_url(), project, loaded, selection)

    @property
    def agents(self) -> dict[str, AgentSpec]:
        return self.loaded.agents

    def pick(self) -> str:
        """The agent to ask: the one wanted, else that of a file, else the project's default, else the only one."""
        default = self.project.default_agent if self.project is not None else None
        chosen = self.selection.agent or next(iter(self.loaded.named), None) or default
        if chosen is not None:
            if chosen not in self.agents:
                raise UnknownAgent(chosen, list(self.agents))
            return chosen
        if len(self.agents) > 1:
            raise UsageError(f"there are several agents; name one with -a: {', '.join(sorted(self.agents))}")
        return next(iter(self.agents))


def reached(agents: Mapping[str, AgentSpec], slugs: Iterable[str]) -> dict[str, AgentSpec]:
    """The agents that turns of these may come to: themselves, and those that they may ask, directly or not."""
    found: dict[str, AgentSpec] = {}
    rest = list(slugs)
    while rest:
        slug = rest.pop(0)
        if slug in agents and slug not in found:
            found[slug] = agents[slug]
            rest.extend(use.slug for use in agents[slug].subagent_uses)
    return found


@asynccontextmanager
async def opened(
    work: Workplace,
    asked: str | None = None,
    *,
    hooks: Sequence[Hook] = (),
    approval: Approval | None = None,
    hosted: Sequence[str] = (),
    recover_poll_s: float | None = None,
    takes_stop: bool = False,
) -> AsyncIterator[Kernel]:
    """A kernel with the toolboxes open and the agents installed and checked: those that asked may come to, or hosted, else
    all. All too for one that is not among them, as the agent of a fork which stands in the store. It can be asked from
    other terminals from then on. recover_poll_s is for a kernel that takes up what others leave, where the project says
    nothing of it; takes_stop for one that hears a word to end.

    Raises ConfigurationError for a toolbox that is in state error and that --without does not name.
    """
    project, selection = work.project, work.selection
    wanted = [asked] if asked in work.agents else list(hosted)
    agents = _left_out(reached(work.agents, wanted) if wanted else work.agents, selection.without)
    settings = project.settings if project is not None else Settings()
    if settings.recover_poll_s is None:
        settings = msgspec.structs.replace(settings, recover_poll_s=recover_poll_s)
    with log_file(selection.log()) as observers:
        async with open_kernel(
            work.url,
            settings=settings,
            keys=selection.keys(project),
            base_url=selection.url(),
            observers=observers,
            hooks=hooks,
            approval=approval,
        ) as kernel:
            for toolbox in project.toolboxes() if project is not None else ():
                if not any(_fits(pattern, toolbox.name) for pattern in selection.without):
                    await kernel.add_toolbox(toolbox)
            for spec in agents.values():
                await kernel.install(spec)
            _check_toolboxes(kernel, agents)
            kernel.check()
            if takes_stop:
                kernel.stopping.listen()
            await kernel.listen()
            yield kernel


def toolbox_state(kernel: Kernel, name: str) -> tuple[ToolboxConfig, ToolboxState] | None:
    """What the World says of a toolbox; None when none of this name was opened."""
    id_ = hashed_id(Kind.TOOLBOX, name)
    config, state = kernel.world.get(id_, ToolboxConfig), kernel.world.get(id_, ToolboxState)
    return (config, state) if config is not None and state is not None else None


def _left_out(agents: Mapping[str, AgentSpec], patterns: Sequence[str]) -> dict[str, AgentSpec]:
    """The agents without what --without names. Raises UsageError for a pattern that names nothing."""
    unused = set(patterns)
    left: dict[str, AgentSpec] = {}
    for slug, spec in agents.items():
        for use in spec.toolbox_uses:
            found = {pattern for pattern in patterns if _fits(pattern, use.name)}
            unused -= found
            spec = spec.unbound(use.name) if found else spec
        left[slug] = spec
    if unused:
        raise UsageError(f"--without {min(unused)}: no agent here uses such a toolbox")
    return left


def _check_toolboxes(kernel: Kernel, agents: Mapping[str, AgentSpec]) -> None:
    """Raises ConfigurationError for those in state error; says what of others could not be loaded."""
    refused: list[str] = []
    for slug, spec in agents.items():
        for use in spec.toolbox_uses:
            known = toolbox_state(kernel, use.name)
            if known is not None and known[1].status is ToolboxStatus.ERROR:
                refused.append(f"agent {slug}: toolbox {use.name}: {known[1].problem}")
            elif known is not None and known[1].problem:
                say(f"warning: toolbox {use.name}: {known[1].problem}")
    if refused:
        raise ConfigurationError("\n".join([*refused, "go on without a toolbox by --without NAME"]))


def _fits(pattern: str, name: str) -> bool:
    """By the whole name, or for a toolbox of an agent's own by what follows its slug."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("/")[2], pattern)
