"""Scripts that stand in no toolbox yet: what they say of themselves, how that was read, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentos.components import ToolSpec
from agentos.governance.schema import problem_of_schema, problems_of
from agentos.toolboxes.base import Toolbox
from agentos.toolboxes.script import ScriptToolbox
from agentos.toolboxes.script.files import ScriptFiles


class ScriptView(msgspec.Struct, frozen=True):
    """One script as `describe` shows it: the tool and its description in the protocol's own form, or the problem."""

    path: Path
    tool: ToolSpec | None
    description: dict[str, Any]
    notes: list[str]
    problem: str | None


async def look_at_scripts(paths: Sequence[Path], cwd: Path) -> list[ScriptView]:
    """Asks scripts what they are; of a directory, every executable file in it, as a toolbox of it would."""
    views: list[ScriptView] = []
    for path in paths:
        whole = cwd / path
        found = ScriptFiles([whole], [], "").find() if whole.is_dir() else ScriptFiles([], [whole], "").find()
        views.extend(ScriptView(Path(one.place), None, {}, [], one.reason) for one in found.problems)
        views.extend(_named_once([await _look_at(script, cwd) for script in found.scripts]))
    return views


def _named_once(views: Sequence[ScriptView]) -> Iterator[ScriptView]:
    """In one directory the second script of a name is left out."""
    first: dict[str, Path] = {}
    for view in views:
        if view.tool is not None and first.setdefault(view.tool.name, view.path) != view.path:
            problem = f"slug {view.tool.name!r} is already that of {first[view.tool.name]}"
            view = msgspec.structs.replace(view, problem=view.problem or problem)
        yield view


async def _look_at(path: Path, cwd: Path) -> ScriptView:
    toolbox = ScriptToolbox("scripts", files=[path], cwd=cwd)
    await toolbox.open()
    try:
        notes = [note.reason for note in toolbox.notes]
        if toolbox.problems:
            return ScriptView(path, None, {}, notes, toolbox.problems[0].reason)
        ((_, _, form),) = toolbox.described()
        tool = toolbox.tools()[0]
        return ScriptView(path, tool, msgspec.to_builtins(form), notes, problem_of_schema(tool.schema))
    finally:
        await toolbox.close()


def script_toolbox(path: Path, cwd: Path) -> Toolbox:
    """A toolbox of one script."""
    return ScriptToolbox("script", files=[cwd / path], cwd=cwd)


def argument_problems(tool: ToolSpec, arguments: Any) -> list[str]:
    """What is wrong with arguments, each with its place; empty when nothing is."""
    return problems_of(tool, arguments)
