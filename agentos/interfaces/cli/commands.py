"""answer and cancel: commands to the kernel that runs a conversation; where none can be asked, into its inbox."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from agentos.components import Verdict
from agentos.events.intake import Cancel
from agentos.ids import Kind, LogId, Name, is_id, log_and_seq
from agentos.interfaces.cli.errors import Exit, UsageError, hint
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put_json, put_table, say
from agentos.interfaces.cli.running import given_to_owner, how_taken
from agentos.kernel import answer_item
from agentos.kernel.reading import Reading, reading

PART_MIN = 4
"""How many letters of a call's id must be given: an answer should not go to the wrong one by a slip."""

_REQUESTS = """
select tool_calls.id, tool_calls.conversation, conversations.agent, tool_calls.tool, tool_calls.arguments
from tool_calls join conversations on conversations.id = tool_calls.conversation
where tool_calls.status = 'waiting' and exists (
    select 1 from events where events.call_id = tool_calls.id and events.kind = 'approval.requested'
) order by tool_calls.id
"""
_STATUS = "select status from tool_calls where id = ?"


async def answer(
    request: str | None = None,
    verdict: Literal["allow", "deny"] | None = None,
    /,
    *,
    reason: str = "",
    json: Flag = False,
    here: Here,
) -> int:
    """Answer an approval request; without one, list those that wait.

    Parameters
    ----------
    request
        the id of the call that waits, or its end
    verdict
        allow or deny
    reason
        what the model reads with a denial
    json
        print the list, or what became of the answer, as one JSON object
    """
    async with reading(here.store_url()) as store:
        waiting = await open_requests(store)
        if request is None:
            _list(waiting, json)
            return Exit.OK
        if verdict is None:
            raise UsageError("say allow or deny after the request")
        call = await _find_request(store, request, [str(row["request"]) for row in waiting])
        is_first, taken_by = await _answered(store, call, Verdict(verdict), reason)
    if json:
        put_json({"request": call, "verdict": verdict, "first": is_first, "taken_by": taken_by})
    elif is_first:
        say(f"{call}: {verdict}; {how_taken(taken_by)}")
    else:
        say(f"{call} was answered before; the first answer counts")
    return Exit.OK if is_first else Exit.FAILURE


async def cancel(conversation: str, /, *, json: Flag = False, here: Here) -> int:
    """Cancel the open turn of a conversation; its calls get a result, its history stays.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        ((state,),) = (await store.query("select state from conversations where id = ?", (log,))).rows
        is_open = state in ("running", "parked")
        taken_by = await _cancelled(store, log) if is_open else None
    if json:
        put_json({"conversation": log, "state": state, "cancelled": is_open, "taken_by": taken_by})
    elif is_open:
        say(f"{log}: cancel is under way; {how_taken(taken_by)}")
    else:
        say(f"{log} is {state}; there is nothing to cancel")
    return Exit.OK


async def _answered(store: Reading, call: str, verdict: Verdict, reason: str) -> tuple[bool, int | None]:
    """Whether this is the first answer, and the process of the kernel that took it, None when it waits in the store."""
    log, key, item = answer_item(call, verdict, reason=reason)
    taken = await given_to_owner(store, log, lambda kernel: kernel.answer(call, verdict, reason=reason), "the answer")
    if taken is not None:
        return taken
    return await store.post(log, key, item), None


async def _cancelled(store: Reading, log: LogId) -> int | None:
    taken = await given_to_owner(store, log, lambda kernel: kernel.interrupt(log))
    if taken is not None:
        return taken.pid
    await store.post(log, f"cancel:{uuid.uuid4().hex}", Cancel(by=Name("user")))
    return None


async def open_requests(store: Reading) -> list[dict[str, Any]]:
    """Calls that wait for a person: request, conversation, agent, tool, arguments (JSON text)."""
    names = ("request", "conversation", "agent", "tool", "arguments")
    return [dict(zip(names, row, strict=True)) for row in (await store.query(_REQUESTS)).rows]


def _list(waiting: list[dict[str, Any]], json: bool) -> None:
    if json:
        put_json({"requests": waiting})
    elif waiting:
        put_table(list(waiting[0]), [list(row.values()) for row in waiting])
    else:
        say("no call waits for approval")


async def _find_request(store: Reading, text: str, waiting: list[str]) -> str:
    """The waiting call that this names. Raises UsageError naming near ones, or what became of it."""
    found = [id_ for id_ in waiting if text == id_ or (len(text) >= PART_MIN and id_.endswith(text))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text!r} is the end of {len(found)} ids: {', '.join(found)}")
    if is_id(text, Kind.CALL):
        log_and_seq(text)
        for (status,) in (await store.query(_STATUS, (text,))).rows:
            raise UsageError(f"{text} does not wait for approval: it is {status}")
    raise UsageError(
        f"no call {text[:80]!r} waits for approval; 'agentos answer' lists those that do{hint(text, waiting)}"
    )
