"""session list-calls: every call of a session, by the index that replay-call takes."""

from __future__ import annotations

import json as json_
from typing import Any, Literal

import msgspec

from agentos.history.sessions import RecordedCall, calls_of
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.interfaces.cli.session.source import SessionAt, session_at

BRIEF_CHARS = 60


async def list_calls(
    session: SessionAt,
    /,
    *,
    format: Literal["human", "json", "brief"] = "human",
    json: Flag = False,
    here: Here,
) -> int:
    """List the calls of a session with their arguments, oldest first; the index counts over the whole session, from 0.

    Parameters
    ----------
    session
        a session file, - for stdin, or a conversation by its id or a part of it
    format
        human, json (a list), or brief (index, name and the beginning of the arguments, with tabs between them)
    json
        print one JSON object, with the results too
    """
    calls = calls_of(await session_at(session, here))
    if json:
        put_json({"calls": [msgspec.to_builtins(call) for call in calls]})
    elif format == "json":
        put_json([_listed(call) for call in calls])
    elif format == "brief":
        for call in calls:
            put(f"{call.index}\t{call.name}\t{_compact(call.arguments)[:BRIEF_CHARS]}")
    elif calls:
        _put_all(calls)
    else:
        say("the session has no calls")
    return Exit.OK


def _put_all(calls: list[RecordedCall]) -> None:
    put(f"{counted(len(calls), 'call')}:")
    for call in calls:
        put(f"[{call.index}] {call.name}")
        put(f"    step: {call.step}")
        put(f"    arguments: {_compact(call.arguments)}")
        if call.result is None:
            put("    without a result")
    say("'agentos session replay-call -s SESSION -i INDEX' runs one again")


def _listed(call: RecordedCall) -> dict[str, Any]:
    return {"index": call.index, "turn": call.step, "name": call.name, "arguments": call.arguments}


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json_.dumps(value, ensure_ascii=False)
