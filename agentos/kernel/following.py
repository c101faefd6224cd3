"""Edits at run time: looks at the files that agents and toolboxes came from, and puts in force what they say now.

To look is to stat. What an edit breaks stays as it was: the version in force goes on, one warning tells the place, and the
World tells it until the file is in order again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentos.components import AgentProblem, AgentState, ToolboxConfig, ToolboxState
from agentos.definitions import AgentSpec, load_agent
from agentos.errors import ConfigurationError, StoreError
from agentos.ids import Kind, Name, agent_id, hashed_id
from agentos.kernel.agents import Agent, Look, agent_of, look_at
from agentos.kernel.catalog import Catalog, ReloadableToolbox
from agentos.kernel.installing import Installing
from agentos.toolboxes.base import Toolbox
from agentos.world import World

_log = logging.getLogger(__name__)


class _Followed:
    """An agent, its file, and how that looked when it was last read."""

    def __init__(self, agent: Agent, path: Path, seen: Look) -> None:
        self.agent, self.path, self.seen = agent, path, seen

    def changed(self) -> bool:
        return look_at(self.path) != self.seen


class _Ways(NamedTuple):
    """What the next turn of an agent may depend on: its files and toolboxes, and those of agents that it may ask."""

    files: tuple[_Followed, ...]
    toolboxes: tuple[ReloadableToolbox, ...]


class Following:
    """The files of what is in force in one kernel."""

    def __init__(self, catalog: Catalog, installing: Installing, world: World) -> None:
        self._catalog, self._installing, self._world = catalog, installing, world
        self._files: dict[Name, _Followed] = {}
        self._problems: dict[tuple[Name, str], str] = {}
        self._ways: dict[Name | None, _Ways] = {}
        self._epoch = -1

    def follow(self, agent: Agent, path: Path | None, seen: Look) -> None:
        """From here on, the file of the agent counts, if any; seen is how it looked before it was read."""
        self._tell(agent.slug, "file", "")
        self._tell(agent.slug, "tools", "")
        self._files.pop(agent.slug, None)
        if path is not None:
            self._files[agent.slug] = _Followed(agent, path, seen)
        self._epoch = -1

    def forget(self, slug: Name) -> None:
        self._files.pop(slug, None)
        self._tell(slug, "file", "")
        self._tell(slug, "tools", "")
        self._epoch = -1

    @property
    def anything(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._files or self._catalog.reloadable)

    async def refresh(self, slug: Name | None) -> list[str]:
        """Puts in force what was edited; says what became of it, one sentence each."""
        ways = self._ways_of(slug)
        toolboxes = [toolbox for toolbox in ways.toolboxes if self._has_changed(toolbox)]
        files = [file for file in ways.files if file.changed()]
        if not toolboxes and not files:
            return []
        async with self._installing.lock:
            said = [await self._reload(toolbox) for toolbox in toolboxes]
            said += [await self._reread(file) for file in files]
        return [sentence for sentence in said if sentence]

    def _ways_of(self, slug: Name | None) -> _Ways:
        if self._epoch != self._catalog.epoch:
            self._epoch = self._catalog.epoch
            self._ways.clear()
        ways = self._ways.get(slug)
        if ways is None:
            ways = self._ways[slug] = self._find_ways(slug)
        return ways

    def _find_ways(self, slug: Name | None) -> _Ways:
        known, agents = self._catalog.reloadable, self._catalog.agents
        if slug is None:
            return _Ways(tuple(self._files.values()), tuple(known.values()))
        found = _may_ask(slug, agents)
        names = dict.fromkeys(Name(use.name) for one in found for use in agents[one].toolbox_uses)
        return _Ways(
            tuple(self._files[one] for one in found if one in self._files),
            tuple(known[name] for name in names if name in known),
        )

    async def _reload(self, toolbox: ReloadableToolbox) -> str:
        """A toolbox reads its files again; others may have had it do so while we waited."""
        if self._catalog.toolboxes.get(toolbox.name) is not toolbox or not self._has_changed(toolbox):
            return ""
        id_ = hashed_id(Kind.TOOLBOX, toolbox.name)
        before, was = self._world.get(id_, ToolboxConfig), self._world.get(id_, ToolboxState)
        assert before is not None and was is not None, "an open toolbox is in the World"
        names = _names(toolbox)
        try:
            after = await self._installing.reload_toolbox(toolbox)
        except StoreError:
            raise
        except Exception as error:
            return self._stays(toolbox, error)
        self._check_all()
        state = self._world.get(id_, ToolboxState)
        assert state is not None, "an open toolbox is in the World"
        said = []
        if after.toolset != before.toolset:
            said.append(f"toolbox {toolbox.name} is r{after.revision} now{_difference(names, _names(toolbox))}")
        if state.problem and state.problem != was.problem:
            said.append(self._warned(f"toolbox {toolbox.name}: {state.problem}"))
        elif was.problem and not state.problem:
            said.append(f"toolbox {toolbox.name} is in order again")
        return "; ".join(said)

    def _has_changed(self, toolbox: ReloadableToolbox) -> bool:
        try:
            return toolbox.changed()
        except Exception as error:
            self._stays(toolbox, error)
            return False

    def _stays(self, toolbox: ReloadableToolbox, error: Exception) -> str:
        """A toolbox may raise anything; what it had stays, and why is told once."""
        id_ = hashed_id(Kind.TOOLBOX, toolbox.name)
        was = self._world.get(id_, ToolboxState)
        assert was is not None, "an open toolbox is in the World"
        problem = f"it could not be read again: {type(error).__name__}: {error}"
        if problem == was.problem:
            return ""
        self._world.set(id_, msgspec.structs.replace(was, problem=problem))
        return self._warned(f"toolbox {toolbox.name} stays as it was: {problem}")

    def _check_all(self) -> None:
        """An agent that names a tool which an edit took goes on with what it had, where calls of that tool fail."""
        for slug, spec in self._catalog.agents.items():
            problem = ""
            try:
                self._catalog.try_out(spec, {})
            except ConfigurationError as error:
                problem = str(error)
                self._catalog.hold(agent_id(slug))
            if self._tell(slug, "tools", problem) and problem:
                self._warned(f"agent {slug} keeps the tools it had: {problem}")

    async def _reread(self, file: _Followed) -> str:
        """An agent's file is read again; the definition in force stays when there is anything wrong with it."""
        slug, seen = file.agent.slug, look_at(file.path)
        if self._files.get(slug) is not file or seen == file.seen:
            return ""
        before = self._catalog.definition_of(slug)
        try:
            await self._put(file, self._read(file))
        except ConfigurationError as error:
            file.seen = seen
            news = self._tell(slug, "file", str(error))
            return self._warned(f"agent {slug} keeps r{self._revision(slug)}: {error}") if news else ""
        file.seen = seen
        self._check_all()
        mended = self._tell(slug, "file", "")
        if self._catalog.definition_of(slug) != before:
            return f"agent {slug} is r{self._revision(slug)} now"
        return f"agent {slug} is in order again, and stays r{self._revision(slug)}" if mended else ""

    def _read(self, file: _Followed) -> AgentSpec:
        spec = load_agent(file.path)
        slug = file.agent.slug
        if spec.slug != slug:
            raise ConfigurationError(
                f"{file.path}: its slug is {spec.slug!r} now; install it anew, or name it {slug!r}"
            )
        return self._installing.rebound(spec)

    async def _put(self, file: _Followed, spec: AgentSpec) -> None:
        """With the agents that it may ask by their files, where these are not installed yet; all of them or none."""
        others = _by_path(spec, {*self._catalog.agents, Name(spec.slug)})
        with_ = {Name(spec.slug): spec, **{slug: other for slug, (other, _) in others.items()}}
        after = agent_of(spec, file.agent.working_directory, file.agent.model)
        done: list[Name] = []
        try:
            for slug, (other, seen) in others.items():
                new = agent_of(other, after.working_directory)
                await self._installing.put_agent(new, with_)
                done.append(slug)
                self.follow(new, other.path, seen)
            await self._installing.put_agent(after, with_)
        except BaseException:
            for slug in done:
                await self._installing.take_agent(slug)
                self.forget(slug)
            raise
        file.agent = after

    def _revision(self, slug: Name) -> int:
        state = self._world.get(agent_id(slug), AgentState)
        return state.revision if state is not None else 0

    def _tell(self, slug: Name, part: str, problem: str) -> bool:
        """What is wrong with a part of an agent, for the World; whether that is news."""
        if self._problems.get((slug, part), "") == problem:
            return False
        self._problems.pop((slug, part), None)
        if problem:
            self._problems[slug, part] = problem
        text = "\n".join(self._problems[slug, one] for one in ("file", "tools") if (slug, one) in self._problems)
        self._world.set(agent_id(slug), AgentProblem(text=text))
        return True

    def _warned(self, sentence: str) -> str:
        _log.warning("%s", sentence)
        return sentence


def _may_ask(slug: Name, agents: Mapping[Name, AgentSpec]) -> dict[Name, None]:
    """An agent and all that it, and they, may ask, as far as they are installed."""
    found: dict[Name, None] = {}
    waiting = [slug]
    while waiting:
        one = waiting.pop()
        if one in found or one not in agents:
            continue
        found[one] = None
        waiting.extend(Name(use.slug) for use in agents[one].subagent_uses)
    return found


def _by_path(spec: AgentSpec, known: set[Name]) -> dict[Name, tuple[AgentSpec, Look]]:
    """The agents that a definition brings along by their files, and those that they bring, each with how its file looked.

    Errors: ConfigurationError.
    """
    found: dict[Name, tuple[AgentSpec, Look]] = {}
    waiting = [spec]
    while waiting:
        asking = waiting.pop()
        for use in asking.subagent_uses:
            if use.path is None or use.slug in known or use.slug in found or asking.path is None:
                continue
            path = asking.path.parent / use.path
            seen, other = look_at(path), load_agent(path)
            if other.slug != use.slug:
                raise ConfigurationError(f"{asking.path}: subagent {use.slug}: {other.path} is agent {other.slug!r}")
            found[Name(other.slug)] = other, seen
            waiting.append(other)
    return found


def _names(toolbox: Toolbox) -> set[Name]:
    return {tool.name for tool in toolbox.tools()}


def _difference(before: set[Name], after: set[Name]) -> str:
    parts = [*(f"+{name}" for name in sorted(after - before)), *(f"-{name}" for name in sorted(before - after))]
    return f": {' '.join(parts)}" if parts else ""
