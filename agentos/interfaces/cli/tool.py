"""tool list, describe and check: what tools there are, what a script says of itself, and what is wrong with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from agentos.components import ToolSpec
from agentos.errors import ConfigurationError
from agentos.interfaces.cli.arguments import numbered, parsed
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.output import put, put_json, put_table, say, say_error, table
from agentos.interfaces.cli.toolboxes import project_toolboxes
from agentos.kernel.scripts import ScriptView, argument_problems, look_at_scripts
from agentos.kernel.workbench import Workbench, workbench

AgentFiles = Annotated[list[Path] | None, Parameter(name="--agent-file", negative="")]


async def list_tools(*, agent_file: AgentFiles = None, json: Flag = False) -> int:
    """List the tools of all toolboxes of the project and of its agents; what could not be loaded is told on stderr.

    Parameters
    ----------
    agent_file
        a file with an agent whose own toolboxes count too
    json
        print one JSON object, with the schemas
    """
    async with workbench(project_toolboxes(agent_file or [])) as bench:
        if json:
            put_json(_bench_object(bench))
        else:
            columns = ("name", "toolbox", "effect", "access", "description")
            put_table(columns, [_row(tool) for tool in bench.tools()])
            for problem in bench.problems:
                say(f"{problem.place} is left out: {problem.reason}")
    return Exit.OK


async def describe(path: Path, /, *, json: Flag = False) -> int:
    """Ask a script what it is, and say how that was read: notes are about a tool that works, problems keep it from it.

    Parameters
    ----------
    path
        an executable file that answers `describe`
    json
        print one JSON object
    """
    _refuse_directory(path)
    (view,) = await look_at_scripts([path], Path.cwd())
    if json:
        put_json(_view_object(view))
    elif view.tool is not None:
        _put_view(view)
    if view.problem is not None:
        say_error(f"{view.path}: {view.problem}")
    return Exit.OK if view.problem is None else Exit.CONFIGURATION


async def check(
    *paths: Path, args: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, json: Flag = False
) -> int:
    """Check that scripts are tools. Exit code 3 when one is not; with --args, 1 when the arguments do not fit.

    Parameters
    ----------
    paths
        executable files, and directories of them
    args
        a file with JSON arguments to hold against the schema of the one script, or - for stdin
    json
        print one JSON object
    """
    views = await look_at_scripts(paths, Path.cwd())
    if not views:
        raise UsageError("nothing to check: name executable files, or directories with some in them")
    wrong = _argument_problems(views, args) if args is not None else []
    if json:
        put_json({"scripts": [_view_object(view) for view in views], "arguments": wrong})
    else:
        _put_checked(views, wrong)
    if any(view.problem is not None for view in views):
        return Exit.CONFIGURATION
    return Exit.FAILURE if wrong else Exit.OK


def _refuse_directory(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory; 'agentos tool check {path}' looks at all scripts in it")


def _argument_problems(views: list[ScriptView], source: str) -> list[str]:
    """What is wrong with the arguments in a file or on stdin; nothing is asked of a script that is no tool."""
    if len(views) != 1:
        raise UsageError(f"--args goes with one script, and there are {len(views)}")
    tool = views[0].tool
    text = sys.stdin.read() if source == "-" else _read(Path(source))
    return [] if tool is None else argument_problems(tool, parsed(text))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: no UTF-8 at byte {error.start}") from error


def _put_checked(views: list[ScriptView], wrong: list[str]) -> None:
    for view in views:
        if view.problem is not None:
            say_error(f"{view.path}: {view.problem}")
        else:
            assert view.tool is not None, "a script without a problem is a tool"
            put(f"{view.path}: tool {view.tool.name}")
        for note in view.notes:
            say(f"{view.path}: note: {note}")
    if wrong:
        say_error(f"the arguments do not fit:\n{numbered(wrong)}")


def _put_view(view: ScriptView) -> None:
    """The tool, its arguments as a table, and the notes."""
    said, tool = view.description, view.tool
    assert tool is not None
    put(f"{tool.name}  {view.path}")
    put(f"  {tool.description}")
    switches = [word for word in ("progress", "portal") if said[word]]
    output = [f"output {said['output-media-type']}"] if said["output-media-type"] else []
    put(f"  {', '.join([f'effect {tool.effect.value}', f'access {tool.access.value}', *output, *switches])}")
    if said["args"]:
        columns = ("argument", "mode", "type", "arity", "description")
        rows = [[arg["name"], arg["mode"], arg["type"], arg["arity"], arg["description"]] for arg in said["args"]]
        for line in table(columns, rows):
            put(f"  {line}")
    for note in view.notes:
        put(f"  note: {note}")


def _row(tool: ToolSpec) -> tuple[str, str | None, str, str, str]:
    first_line = tool.description.strip().partition("\n")[0]
    return tool.name, tool.toolbox, tool.effect.value, tool.access.value, first_line


def _bench_object(bench: Workbench) -> dict[str, Any]:
    return {
        "tools": [_tool_object(tool) for tool in bench.tools()],
        "problems": [msgspec.to_builtins(problem) for problem in bench.problems],
        "notes": [msgspec.to_builtins(note) for note in bench.notes],
    }


def _tool_object(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "toolbox": tool.toolbox,
        "effect": tool.effect.value,
        "access": tool.access.value,
        "description": tool.description,
        "schema": tool.schema,
    }


def _view_object(view: ScriptView) -> dict[str, Any]:
    return {
        "path": str(view.path),
        "description": view.description if view.tool is not None else None,
        "schema": view.tool.schema if view.tool is not None else None,
        "notes": view.notes,
        "problem": view.problem,
    }
