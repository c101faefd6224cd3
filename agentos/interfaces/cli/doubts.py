"""doubts and resolve: calls of which nobody knows whether they took effect, and a person's word on one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from agentos.components import Resolution
from agentos.errors import AlreadyResolved, ConfigurationError
from agentos.ids import Kind, is_id
from agentos.interfaces.cli.entries import iso_of
from agentos.interfaces.cli.errors import Exit, UsageError, hint
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import clipped, put_json, put_table, say
from agentos.interfaces.cli.ps import age_of
from agentos.interfaces.cli.running import given_to_owner, how_taken
from agentos.kernel import Doubt, doubts_of, resolve_item
from agentos.kernel.control import SocketClient
from agentos.kernel.reading import Reading, reading
from agentos.settings import Settings

PART_MIN = 4
"""How many letters of a call's id must be given: a word on a payment should not go to another one by a slip."""
ARGUMENTS_SHOWN = 60
COLUMNS = ("call", "agent", "tool", "arguments", "started", "in doubt", "state")


async def doubts(
    conversation: Annotated[str | None, Parameter(name="ID")] = None, /, *, json: Flag = False, here: Here
) -> None:
    """List the calls that may or may not have taken effect, and that nobody has resolved.

    A call is `waiting` when its turn waits to hear of it (`doubt_s` of its agent), `unknown` when it has ended so.

    Parameters
    ----------
    conversation
        only those of this conversation, by its id or a part of it
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        log = None if conversation is None else await find_conversation(store, conversation)
        found = await doubts_of(store.store, log)
    if json:
        put_json({"doubts": [_as_object(doubt) for doubt in found]})
    elif found:
        put_table(COLUMNS, [_as_row(doubt) for doubt in found])
    else:
        say("no call is in doubt")


async def resolve(
    call: str,
    as_: Annotated[Literal["done", "failed", "retry"], Parameter(name="AS")],
    /,
    *,
    result: str | None = None,
    result_file: str | None = None,
    reason: str = "",
    by: str = "user",
    json: Flag = False,
    here: Here,
) -> int:
    """Say what became of a call in doubt: it is done, it has failed, or it is to be tried again.

    A call that waits ends by that, or is started once more. One that has ended as unknown is not run again: the model reads
    a note at the beginning of the next turn. The first word on a call counts.

    Parameters
    ----------
    call
        its id, or the end of it
    as_
        done, failed or retry
    result
        what the call brought, for the model to read
    result_file
        a file that holds the result, - for stdin
    reason
        how you know, for the model to read
    by
        who says so
    json
        print one JSON object
    """
    resolution = Resolution(as_)
    text = _result(result, result_file)
    async with reading(here.store_url()) as store:
        id_, state = await _find_call(store, call)
        is_first, taken_by = await _resolved(store, id_, resolution, text, reason, by)
    if json:
        put_json({"call": id_, "as": as_, "state": state, "first": is_first, "taken_by": taken_by})
    elif not is_first:
        say(f"{id_}: another word on it is under way; the first one counts")
    else:
        heard = how_taken(taken_by) if state == "waiting" else "the model is told at the beginning of the next turn"
        say(f"{id_}: {as_}; {heard}")
    return Exit.OK if is_first else Exit.FAILURE


async def _resolved(
    store: Reading, call: str, resolution: Resolution, result: str | None, reason: str, by: str
) -> tuple[bool, int | None]:
    """Whether this is the first word, and the process of the kernel that took it, None when it waits in the store."""
    log, key, item = await resolve_item(
        store.store, call, resolution, result=result, reason=reason, by=by, bytes_max=Settings().input_bytes_max
    )

    async def say_it(kernel: SocketClient) -> bool:
        try:
            await kernel.resolve(call, resolution, result=result, reason=reason, by=by)
        except AlreadyResolved:
            return False
        return True

    taken = await given_to_owner(store, log, say_it)
    if taken is not None:
        return taken
    return await store.post(log, key, item), None


def _as_row(doubt: Doubt) -> list[Any]:
    arguments = "(erased)" if doubt.arguments is None else doubt.arguments
    return [
        doubt.call,
        doubt.agent,
        doubt.tool,
        clipped(arguments, ARGUMENTS_SHOWN),
        f"{age_of(doubt.started_at)} ago",
        f"{age_of(doubt.since)}",
        doubt.state,
    ]


def _as_object(doubt: Doubt) -> dict[str, Any]:
    return {
        "call": doubt.call,
        "conversation": doubt.conversation,
        "agent": doubt.agent,
        "tool": doubt.tool,
        "arguments": doubt.arguments,
        "attempt": doubt.attempt,
        "state": doubt.state,
        "started_at": iso_of(doubt.started_at),
        "since": iso_of(doubt.since),
    }


def _result(text: str | None, file: str | None) -> str | None:
    """What the person gives as the result. Raises UsageError, ConfigurationError naming the file."""
    if file is None:
        return text
    if text is not None:
        raise UsageError("say --result or --result-file, not both")
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: byte {error.start} is no UTF-8; a result is text") from error


async def _find_call(store: Reading, text: str) -> tuple[str, str]:
    """The call in doubt that this names, and its state; a whole id of any other call as it is, to be refused by name.

    Errors: UsageError naming near ones.
    """
    known = {str(doubt.call): doubt.state for doubt in await doubts_of(store.store)}
    found = [id_ for id_ in known if text == id_ or (len(text) >= PART_MIN and id_.endswith(text))]
    if len(found) == 1:
        return found[0], known[found[0]]
    if found:
        raise UsageError(f"{text!r} is the end of {len(found)} ids: {', '.join(found)}")
    if is_id(text, Kind.CALL):
        return text, "unknown"
    raise UsageError(
        f"no call {text[:80]!r} is in doubt; 'agentos doubts' lists those that are{hint(text, list(known))}"
    )
