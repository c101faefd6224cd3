"""session replay-call: a recorded call against the tool as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentos.components import ToolSpec
from agentos.history.sessions import RecordedCall, calls_of
from agentos.interfaces.cli.arguments import numbered
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say, say_error
from agentos.interfaces.cli.session.source import session_at
from agentos.interfaces.cli.tool_call import put_called, reply_of, say_progress, tool_at
from agentos.kernel.scripts import argument_problems


async def replay_call(
    *,
    session: Annotated[str, Parameter(name=["--session", "-s"], allow_leading_hyphen=True)],
    index: Annotated[int, Parameter(name=["--tool-call", "--index", "-i"], allow_leading_hyphen=True)],
    tool: Annotated[str | None, Parameter(name=["--tool", "-t"])] = None,
    toolbox: str | None = None,
    agent_file: Annotated[list[Path] | None, Parameter(name="--agent-file", negative="")] = None,
    validate_only: Flag = False,
    raw: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Run a recorded call again, with the tool as it is now: its arguments are held against the schema, then it is called.

    As with 'agentos tool call', no policy stands between you and the tool, and nothing is recorded. Exit code 1 when the
    arguments do not fit any more, 5 when the call fails.

    Parameters
    ----------
    session
        a session file, - for stdin, or a conversation by its id or a part of it
    index
        which call, as 'agentos session list-calls' counts them
    tool
        the name of a tool, or a path with a / in it to a script; by default the recorded name
    toolbox
        the toolbox of the tool, when several have one of that name
    agent_file
        a file with an agent whose own toolboxes count too
    validate_only
        do not call
    raw
        print the result alone, as it is
    json
        print one JSON object
    """
    call = _chosen(calls_of(await session_at(session, here)), index)
    async with tool_at(tool or call.name, toolbox, agent_file or []) as (bench, found):
        if wrong := argument_problems(found, call.arguments):
            return _refuse(found, call, wrong, json=json)
        if validate_only:
            return _say_fits(found, call, json=json)
        if not (raw or json):
            say(f"call {call.index}: the arguments fit {found.name}")
        called = await bench.call(found, call.arguments, say_progress)
    return put_called(reply_of(called), called.data, json=json)


def _chosen(calls: list[RecordedCall], index: int) -> RecordedCall:
    """Raises UsageError that names those there are."""
    if 0 <= index < len(calls):
        return calls[index]
    there = f"it has 0 to {len(calls) - 1}" if calls else "it has none"
    raise UsageError(f"the session has no call {index}; {there}: 'agentos session list-calls' lists them")


def _refuse(tool: ToolSpec, call: RecordedCall, wrong: list[str], *, json: bool) -> int:
    if json:
        put_json({"call": call.index, "tool": tool.name, "valid": False, "problems": wrong})
    else:
        say_error(f"call {call.index}: the arguments do not fit {tool.name}:\n{numbered(wrong)}")
    return Exit.FAILURE


def _say_fits(tool: ToolSpec, call: RecordedCall, *, json: bool) -> int:
    if json:
        put_json({"call": call.index, "tool": tool.name, "valid": True, "problems": []})
    else:
        put(f"call {call.index}: the arguments fit {tool.name}")
    return Exit.OK
