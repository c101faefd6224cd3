"""tree: which agent may ask which, and the toolboxes of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.components import ModelRef
from agentos.definitions import AgentSpec, Project, cycles
from agentos.interfaces.cli.check_files import Tried, found, tried_out
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.output import put, put_json, say
from agentos.interfaces.cli.workplace import reached

Branch = tuple[str, "list[Branch]"]
"""A line, and what hangs below it."""


async def tree(
    *files: Annotated[Path, Parameter(name="FILE")],
    tools: Flag = False,
    json: Flag = False,
) -> int:
    """Draw the agents with those that they may ask and with their toolboxes. Without files: those of the project.

    An agent that stands above itself is drawn as a way back (↺), and one that was drawn before is not drawn twice.

    Parameters
    ----------
    files
        agent files, folders of them, the file of a project, or names of its agents
    tools
        open the toolboxes and list the tools of each agent
    json
        print one JSON object
    """
    project, loaded = found(files)
    tried = await tried_out(project, loaded.agents) if tools else None
    if json:
        put_json(_object(loaded.agents, tried))
    else:
        drawing = _Drawing(project, loaded.agents, tried)
        for root in roots(loaded.agents, loaded.named):
            put_tree(drawing.agent(root, ()))
    for problem in loaded.errors:
        say(f"error: {problem}")
    for text in tried.problems if tried is not None else ():
        say(f"error: {text}")
    return Exit.CONFIGURATION if loaded.errors or (tried is not None and tried.problems) else Exit.OK


def roots(agents: Mapping[str, AgentSpec], named: Sequence[str] = ()) -> list[str]:
    """Where the drawing begins: the one that was named, else agents that no other asks, and one of each circle left."""
    asked = {use.slug for slug, spec in agents.items() for use in spec.subagent_uses if use.slug != slug}
    chosen = list(named) if len(named) == 1 else [slug for slug in sorted(agents) if slug not in asked]
    for slug in sorted(agents):
        if slug not in reached(agents, chosen):
            chosen.append(slug)
    return chosen


def put_tree(branch: Branch) -> None:
    for line in lines_of(branch):
        put(line)


def lines_of(branch: Branch, first: str = "", rest: str = "") -> Iterator[str]:
    """The lines of a tree, its root first."""
    line, below = branch
    yield first + line
    for place, child in enumerate(below, 1):
        last = place == len(below)
        yield from lines_of(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


class _Drawing:
    """One drawing of one tree or more; an agent is drawn whole once."""

    def __init__(self, project: Project | None, agents: Mapping[str, AgentSpec], tried: Tried | None) -> None:
        self._agents, self._tried = agents, tried
        self._shared = project.file.toolboxes if project is not None else {}
        self._drawn: set[str] = set()

    def agent(self, slug: str, above: tuple[str, ...]) -> Branch:
        spec = self._agents.get(slug)
        if spec is None:
            return f"{slug} (not there)", []
        if slug in above:
            return f"↺ {slug}{' (itself)' if above[-1] == slug else ''}", []
        if slug in self._drawn:
            return f"{slug} (drawn above)", []
        self._drawn.add(slug)
        below = [self._toolbox(spec, use.name) for use in spec.toolbox_uses]
        below.extend(self.agent(use.slug, (*above, slug)) for use in spec.subagent_uses)
        if self._tried is not None and slug in self._tried.tools:
            names = self._tried.tools[slug]
            below.insert(0, (f"tools: {', '.join(names) or 'none'}", []))
        return f"{slug}  [{model_name(spec.model_ref)}]", below

    def _toolbox(self, spec: AgentSpec, name: str) -> Branch:
        private = dict(spec.private_toolboxes).get(name)
        said = private or self._shared.get(name)
        kind = said.kind if said is not None else "not there"
        shown = name.removeprefix(f"{spec.slug}/") if private is not None else name
        box = next((box for box in self._tried.boxes if box.name == name), None) if self._tried is not None else None
        problem = f": {box.problem}" if box is not None and box.problem else ""
        return f"toolbox {shown} ({kind}){problem}", []


def model_name(ref: ModelRef) -> str:
    return f"{ref.kind}:{ref.name}" if ref.name else ref.kind


def _object(agents: Mapping[str, AgentSpec], tried: Tried | None) -> dict[str, Any]:
    return {
        "agents": {
            slug: {
                "file": str(spec.path) if spec.path is not None else None,
                "model": model_name(spec.model_ref),
                "toolboxes": [use.name for use in spec.toolbox_uses],
                "subagents": [use.slug for use in spec.subagent_uses],
                **({"tools": tried.tools[slug]} if tried is not None and slug in tried.tools else {}),
            }
            for slug, spec in sorted(agents.items())
        },
        "cycles": [list(cycle) for cycle in cycles(agents)],
    }
