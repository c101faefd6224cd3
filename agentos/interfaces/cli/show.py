"""show: a conversation entry by entry, or the exact request of one of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.events.entry import Entry
from agentos.history import StepRequest, Versions, iso_time, pinned_by, request_of, standing_at
from agentos.interfaces.cli.entries import as_lines, as_object, body_text
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import Place, find_place
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say
from agentos.interfaces.cli.standing import block, message_lines, put_standing
from agentos.kernel.reading import reading


async def show(
    id_: Annotated[str, Parameter(name="ID")],
    seq: Annotated[int | None, Parameter(name="SEQ")] = None,
    /,
    *,
    at: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    request: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Print the entries of a conversation with what was said, or only those of one turn, call or seq.

    With --request: the model request of the step at this seq, else of the last one, rebuilt from the log and checked
    against the digest that was recorded when the model was asked. Exit code 1 when they differ.

    With --at: the whole conversation as it stood after that entry: its state, the open turn, calls, inputs that waited, and
    the messages of the window that the model would have seen.

    Parameters
    ----------
    id_
        a conversation by its id or a part of it, or the id of a turn or call
    seq
        one entry
    at
        the conversation as it was after the entry of this seq, in place of entries
    request
        the model request in place of the entries
    json
        print one JSON object
    """
    if at is not None and (request or seq is not None):
        raise UsageError("--at shows the conversation after an entry; leave out SEQ and --request")
    async with reading(here.store_url()) as store:
        place, versions = await find_place(store, id_), Versions(store.store)
        if at is not None:
            put_standing(await standing_at(store.store, place.conversation, at), json=json)
            return Exit.OK
        if request:
            return _show_request(await request_of(store.store, place.conversation, seq), json=json)
        entries = _chosen(await store.entries(place.conversation), place, seq)
        row = await store.store.log(place.conversation)
        tenant = row.tenant if row is not None else None
        erased_at = iso_time(row.erased_at) if row is not None and row.erased_at is not None else None
        ran_with = {entry.seq: await versions.of(context) for entry in entries for context in pinned_by([entry])}
    if json:
        shown = [{**as_object(entry), "ran_with": ran_with.get(entry.seq)} for entry in entries]
        facts = {"conversation": place.conversation, "tenant": tenant, "erased_at": erased_at}
        put_json({**facts, "entries": shown})
        return Exit.OK
    put(f"{place.conversation}  tenant {tenant}" if tenant is not None else place.conversation)
    for entry in entries:
        for line in as_lines(entry, ran_with.get(entry.seq, "")):
            put(line)
    if erased_at is not None:
        say(f"its texts were erased at {erased_at}; the last payload.erased is the receipt")
    return Exit.OK


def _chosen(entries: list[Entry], place: Place, seq: int | None) -> list[Entry]:
    """All entries, those of a turn or call, or one. Raises UsageError when there is none."""
    if seq is not None:
        found = [entry for entry in entries if entry.seq == seq]
    elif place.seq:
        found = [entry for entry in entries if place.seq in (entry.turn, entry.call, entry.seq)]
    else:
        return entries
    if not found:
        last = entries[-1].seq if entries else 0
        raise UsageError(f"{place.conversation} has no entry {seq or place.seq}; it has 1 to {last}")
    return found


def _show_request(step: StepRequest, *, json: bool) -> int:
    if json:
        put_json({**msgspec.to_builtins(step), "matches": step.matches})
    else:
        for line in _request_lines(step):
            put(line)
    if step.matches:
        return Exit.OK
    say(f"this is not what was asked: the log has digest {step.recorded}, the request rebuilt from it {step.digest}")
    return Exit.FAILURE


def _request_lines(step: StepRequest) -> Iterator[str]:
    yield f"{step.turn} seq {step.seq}: {step.agent}, step {step.step}, attempt {step.attempt}"
    yield f"model: {body_text(step.model)}"
    for part in step.prompt:
        yield from block("prompt", part)
    for tool in step.tools:
        yield from block(f"tool {tool['name']}", f"{tool['description']}\n{body_text(tool['schema'])}")
    yield from message_lines(step.messages)
    yield f"digest: {step.digest} ({'as recorded' if step.matches else 'NOT as recorded'})"
