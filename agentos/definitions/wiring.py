"""Whether the references of agents lead somewhere: to toolboxes, to other agents, to models. All agents are known by then."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from agentos.definitions.checking import did_you_mean
from agentos.definitions.circles import cycles
from agentos.definitions.files import AgentFile, agent_files, read_agent
from agentos.definitions.limits import LIMITS
from agentos.definitions.location import PROJECT_FILE
from agentos.definitions.private_toolbox import Private
from agentos.definitions.problem import Problem
from agentos.definitions.source import cut
from agentos.definitions.spec import AgentSpec, SubagentUse
from agentos.definitions.toolbox_spec import LackingSpec
from agentos.errors import ConfigurationError
from agentos.models import check_secrets, model_kinds

NEIGHBOURS_MAX = 20
"""Agents of the same folder that an error names."""


class Known(msgspec.Struct, frozen=True):
    """What a reference may name. toolboxes is None without a project. slugs also holds agents that are no good."""

    toolboxes: Collection[str] | None
    slugs: Collection[str]
    files: Collection[str]
    """The real paths of the files that were read."""


def check_references(file: AgentFile, spec: AgentSpec, known: Known) -> Iterator[Problem]:
    """What one agent names and nobody has."""
    yield from _model(file, spec)
    yield from _toolboxes(file, spec, known)
    for number, use in enumerate(spec.subagent_uses):
        if use.slug not in known.slugs and use.path is None:
            yield file.source.problem(("subagents", number), _no_agent(file, use.slug, known))


def check_slug(file: AgentFile, number: int, use: SubagentUse, other: AgentFile) -> Iterator[Problem]:
    """A subagent is called by the slug of its file, which is no place for another name of it."""
    if other.slug is not None and other.slug != use.slug:
        text = f"{use.path} is the agent {other.slug!r}, not {use.slug!r}; a subagent is named by its own slug"
        yield file.source.problem(("subagents", number, "slug"), text)


def check_cycles(files: Mapping[str, AgentFile]) -> Iterator[Problem]:
    """Circles of agents that may ask each other, as warnings."""
    specs = {slug: file.spec for slug, file in files.items() if file.spec is not None}
    found = cycles(specs)
    for cycle in found:
        file, spec = files[cycle[0]], specs[cycle[0]]
        number = next(n for n, use in enumerate(spec.subagent_uses) if use.slug == cycle[1])
        yield file.source.problem(("subagents", number), f"agents may ask in a circle: {' -> '.join(cycle)}", "warning")
    if len(found) == LIMITS.cycles_max:
        file = files[found[-1][0]]
        text = f"there may be more circles; {LIMITS.cycles_max} are told (cycles_max)"
        yield file.source.problem(("subagents",), text, "warning")


def _model(file: AgentFile, spec: AgentSpec) -> Iterator[Problem]:
    kind, kinds = spec.model_ref.kind, model_kinds()
    if kind not in kinds:
        near = did_you_mean(kind, kinds)
        text = f"model: no model is of kind {cut(kind)!r}; there are {', '.join(kinds)}{near}"
        yield file.source.problem(("model",), text)
    try:
        check_secrets(spec.model_ref)
    except ConfigurationError as error:
        yield file.source.problem(("model",), f"model: {error}")


def _toolboxes(file: AgentFile, spec: AgentSpec, known: Known) -> Iterator[Problem]:
    own = [name for name, _ in spec.private_toolboxes]
    seen: set[str] = set()
    for number, (ref, use) in enumerate(zip(spec.toolboxes, spec.toolbox_uses, strict=True)):
        keys = ("toolboxes", number)
        if use.name in seen:
            yield file.source.problem(keys, f"the toolbox {use.name!r} stands here twice")
        elif isinstance(ref, LackingSpec) and ref.unavailable is None:
            text = f"toolboxes of kind {ref.kind!r} are not in this version; this one has no tools"
            yield file.source.problem(keys, text, "warning")
        elif not isinstance(ref, Private) and use.name not in (known.toolboxes or ()) and use.name not in own:
            yield file.source.problem(keys, _no_toolbox(use.name, known, own))
        seen.add(use.name)


def _no_toolbox(name: str, known: Known, own: list[str]) -> str:
    if known.toolboxes is None:
        return f"no toolbox {name!r}: there is no project here, whose {PROJECT_FILE} would have it"
    names = [*known.toolboxes, *own]
    return f"the project has no toolbox {name!r}; it has {_listed(names)}{did_you_mean(name, names)}"


def _no_agent(file: AgentFile, slug: str, known: Known) -> str:
    near = did_you_mean(slug, sorted(known.slugs))
    beside = _beside(file.path.parent, known)
    found = f"; in the same folder, and not read: {beside}" if beside else ""
    return f"no agent {slug!r}; there are {_listed(known.slugs)}{found}{near}"


def _beside(folder: Path, known: Known) -> str:
    """The agents of a folder that nobody has asked for, which a `path` would name."""
    try:
        paths = agent_files(folder)
    except ConfigurationError:
        return ""  # words for the end of an error, which stands without them
    others = [path for path in paths if os.path.realpath(path) not in known.files][:NEIGHBOURS_MAX]
    slugs = ((read_agent(path).slug, path.name) for path in others)
    return ", ".join(f"{slug} ({name})" for slug, name in slugs if slug is not None)


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:NEIGHBOURS_MAX]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return (", ".join(shown) or "none") + more
