"""Agents from single files, of every kind that is read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from agentos.definitions.agents_exe import is_agents_exe, native
from agentos.definitions.checking import Parts, check
from agentos.definitions.limits import LIMITS
from agentos.definitions.location import PROJECT_FILES
from agentos.definitions.private_toolbox import PRIVATE_MODELS
from agentos.definitions.problem import Problem, in_order, raise_errors
from agentos.definitions.reading import is_agent_like, read_source
from agentos.definitions.source import Source
from agentos.definitions.spec import STEP_LIMIT_WORDS, AgentSpec, ModelUse, PolicyRule, SubagentUse, ToolboxUse
from agentos.errors import ConfigurationError


class AgentFile(msgspec.Struct, frozen=True):
    """One file as it was read. spec is None when there is an error among the problems.

    source is in our own form, whatever the form of the file. slug is what the file says, even where all else is wrong.
    """

    path: Path
    source: Source
    spec: AgentSpec | None
    problems: tuple[Problem, ...]

    @property
    def slug(self) -> str | None:
        if self.spec is not None:
            return self.spec.slug
        value = self.source.value
        slug = value.get("slug") if isinstance(value, dict) else None
        return slug if isinstance(slug, str) else None


def load_agent(path: Path) -> AgentSpec:
    """One agent from one file. Raises ConfigurationError naming file, line and column of each problem."""
    found = read_agent(path)
    raise_errors(found.problems)
    assert found.spec is not None, "without an error there is an agent"
    return found.spec


def read_agent(path: Path) -> AgentFile:
    """One agent from one file, and all that is wrong with it. Never raises for what the file says."""
    if path.name in PROJECT_FILES:
        text = "this is the file of a project, not of an agent"
        return AgentFile(path, Source(path, None, {}), None, (Problem(path, 0, 0, text),))
    source, usable = _in_our_form(read_source(path))
    spec, found = check(AgentSpec, source, _PARTS) if usable else (None, [])
    told = {problem.where for problem in source.problems if problem.is_error}
    problems = in_order((*source.problems, *(problem for problem in found if problem.where not in told)))
    if spec is None or any(problem.is_error for problem in problems):
        return AgentFile(path, source, None, problems)
    spec._path = path
    return AgentFile(path, source, spec, problems)


def agent_files(directory: Path) -> list[Path]:
    """The agent files directly inside a directory, sorted. Raises ConfigurationError.

    Files of other suffixes, hidden ones, Markdown without front matter and the files of a project are none.
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_file())
    except NotADirectoryError as error:
        raise ConfigurationError(f"{directory}: no directory of agents") from error
    except FileNotFoundError as error:
        raise ConfigurationError(f"{directory}: no such directory of agents") from error
    except OSError as error:
        raise ConfigurationError(f"{directory}: {os.strerror(error.errno or 0)}") from error
    wanted = [name for name in names if not name.startswith(".") and name not in PROJECT_FILES]
    found = [path for path in map(directory.joinpath, wanted) if is_agent_like(path)]
    if len(found) > LIMITS.files_max:
        raise ConfigurationError(f"{directory}: over {LIMITS.files_max:,} agent files (files_max)")
    return found


def _in_our_form(source: Source) -> tuple[Source, bool]:
    """The same with our keys and all problems so far, and whether enough of it is good to be checked further."""
    if not is_agents_exe(source.value):
        problems = (*source.problems, *_words(source))
        broken = any(problem.is_error for problem in problems)
        return source._replace(problems=problems), source.value is not None or not broken
    imported = native(source)
    usable = not any(problem.is_error for problem in imported.problems)
    return Source(source.path, imported.value, imported.places, (*source.problems, *imported.problems)), usable


def _words(source: Source) -> Iterable[Problem]:
    """What stands in the words of other systems: taken, and told."""
    value = source.value if isinstance(source.value, dict) else {}
    given = [word for word in ("step_limit", *STEP_LIMIT_WORDS) if word in value]
    for word in given:
        if word != given[0]:
            text = f"{word} is another word for step_limit, and {given[0]} stands here too; keep one"
            yield source.problem((word,), text)
        elif word != "step_limit":
            none = ", and 0 sets no bound" if value[word] == 0 else ""
            yield source.problem((word,), f"{word} is taken for step_limit, our word for it{none}", "warning")


def _toolbox_model(value: Any) -> type[BaseModel]:
    kind = value.get("kind") if isinstance(value, dict) else None
    return PRIVATE_MODELS.get(kind, ToolboxUse) if isinstance(kind, str) else ToolboxUse


_PARTS: Parts = {
    "toolboxes": _toolbox_model,
    "subagents": SubagentUse,
    "model": ModelUse,
    "policy": PolicyRule,
}
