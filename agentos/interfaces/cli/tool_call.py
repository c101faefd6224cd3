"""tool call: one tool, called by hand; inside a script, by way of the portal of its call."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentos.errors import ConfigurationError
from agentos.interfaces.cli.arguments import parsed
from agentos.interfaces.cli.errors import Exit, UsageError, hint
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.output import is_terminal, put_answer, put_json, say, say_error
from agentos.interfaces.cli.portal import PORTAL_VARIABLE, ask_portal

if TYPE_CHECKING:  # a script in the portal is to be quick
    from agentos.components import ToolSpec
    from agentos.kernel.workbench import Called, Workbench


async def call(
    name: str,
    /,
    *,
    toolbox: str | None = None,
    agent_file: Annotated[list[Path] | None, Parameter(name="--agent-file", negative="")] = None,
    json: Flag = False,
) -> int:
    """Call one tool of the project with the JSON arguments on stdin, and print its result. Exit code 5 when it fails.

    No model is asked and no conversation is begun, so nothing is recorded, and no policy stands between you and the tool.
    Bytes that are no text go to stdout as they are, unless that is a terminal.

    Inside a script that has a portal (AGENTOS_PORTAL), the call is one of the script's own agent: judged, recorded and
    limited as such.

    Parameters
    ----------
    name
        the name of a tool, or a path with a / in it to a script
    toolbox
        the toolbox of the tool, when several have one of that name
    agent_file
        a file with an agent whose own toolboxes count too
    json
        print one JSON object
    """
    arguments = _from_stdin()
    if PORTAL_VARIABLE in os.environ and not _is_path(name):
        if toolbox is not None or agent_file:
            raise UsageError("inside a script a tool is called by its name alone: the agent's tools are all there are")
        return put_called(ask_portal(name, arguments), None, json=json)
    async with tool_at(name, toolbox, agent_file or []) as (bench, tool):
        called = await bench.call(tool, arguments, say_progress)
    return put_called(reply_of(called), called.data, json=json)


@asynccontextmanager
async def tool_at(
    name: str, toolbox: str | None, agent_files: Sequence[Path]
) -> AsyncIterator[tuple[Workbench, ToolSpec]]:
    """The one tool of a name among the toolboxes of the project, or the script at a path, open for the length of the block.

    Raises ConfigurationError when there is none, and when there are several.
    """
    from agentos.interfaces.cli.toolboxes import project_toolboxes
    from agentos.kernel.scripts import script_toolbox
    from agentos.kernel.workbench import workbench

    boxes = [script_toolbox(Path(name), Path.cwd())] if _is_path(name) else project_toolboxes(agent_files)
    async with workbench(boxes) as bench:
        found = bench.tools() if _is_path(name) else bench.found(name, toolbox)
        if len(found) != 1:
            raise _not_one(name, found, bench)
        yield bench, found[0]


def reply_of(called: Called) -> dict[str, Any]:
    """How a call ended, as it is printed."""
    return {"call": called.call, "status": called.status.value, "kind": called.kind, "text": called.text}


def put_called(reply: dict[str, Any], data: bytes | None, *, json: bool) -> int:
    """The result on stdout, or why there is none on stderr."""
    done = reply["status"] == "done"
    if json:
        put_json(reply)
    elif not done:
        kind = f" ({reply['kind']})" if reply["kind"] else ""
        say_error(f"{reply['status']}{kind}: {reply['text']}")
    elif data is not None and not is_terminal(sys.stdout):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    else:
        put_answer(str(reply["text"]).removesuffix("\n"))
    return Exit.OK if done else Exit.TOOL


def _from_stdin() -> Any:
    """No arguments when a person sits there: many tools need none."""
    return {} if is_terminal(sys.stdin) else parsed(sys.stdin.read())


def _is_path(name: str) -> bool:
    return name.startswith((".", "/")) or ("/" in name and Path(name).exists())


def say_progress(data: Any) -> None:
    if is_terminal(sys.stderr):
        say(str(data["line"] if isinstance(data, dict) and data.keys() == {"line"} else data))


def _not_one(name: str, found: list[Any], bench: Any) -> ConfigurationError:
    for problem in bench.problems:
        say(f"{problem.place} is left out: {problem.reason}")
    if found:
        boxes = ", ".join(str(tool.toolbox) for tool in found)
        return ConfigurationError(f"several toolboxes have a tool {name!r}; name one with --toolbox: {boxes}")
    names = sorted({tool.name for tool in bench.tools()})
    return ConfigurationError(f"there is no tool {name!r}{hint(name, names)}; 'agentos tool list' lists them")
