"""session print: a session as Markdown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from agentos.history.sessions import PrintOptions, Shown, markdown_of
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_answer, put_json
from agentos.interfaces.cli.session.source import SessionAt, session_at

HowMuch = Literal["hidden", "shown", "elided"]


async def print_session(
    session: SessionAt,
    /,
    *,
    show_tool_call_results: HowMuch = "hidden",
    show_tool_call_arguments: HowMuch = "hidden",
    n_turns: Annotated[int | None, Parameter(name="--n-turns")] = None,
    repeat_system_prompt: Flag = False,
    repeat_tools: Flag = False,
    antichronological: Flag = False,
    no_funny_stamp: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Print a session of agents-exe, or a conversation of the store, as Markdown: who said and called what, step by step.

    Parameters
    ----------
    session
        a session file, - for stdin, or a conversation by its id or a part of it
    show_tool_call_results
        hidden, shown, or elided: the first and last 10 lines
    show_tool_call_arguments
        the same of what calls were given
    n_turns
        only so many of the newest turns
    repeat_system_prompt
        print the system prompt in every turn, not in the first alone
    repeat_tools
        the same of the tools
    antichronological
        the newest turn first
    no_funny_stamp
        print no picture at the top
    json
        print one JSON object: the whole session, in our own form, oldest turn first
    """
    found = await session_at(session, here)
    if json:
        put_json(msgspec.to_builtins(found))
        return Exit.OK
    options = PrintOptions(
        results=Shown(show_tool_call_results),
        arguments=Shown(show_tool_call_arguments),
        last_turns=n_turns,
        repeat_prompt=repeat_system_prompt,
        repeat_tools=repeat_tools,
        newest_first=antichronological,
        stamp=not no_funny_stamp,
    )
    for line in markdown_of(found, options):
        put_answer(line)
    return Exit.OK
