"""watch: what is stored of a conversation, then what comes, read from the store while another process works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agentos.events.entry import Entry
from agentos.interfaces.cli.entries import as_lines, watched_as_object
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json
from agentos.kernel.reading import Reading, reading

POLL_S = 0.2
_OPEN = "select state in ('running', 'parked') from conversations where id = ?"


async def watch(
    conversation: str,
    /,
    *,
    after: int = 0,
    until_settled: Flag = False,
    json: Flag = False,
    here: Here,
) -> None:
    """Print the stored entries of a conversation, then new ones as they come, until Ctrl-C.

    Pieces of a reply are shown by the process that asks the model, and by no other.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    after
        begin after this seq
    until_settled
        end once no turn is open
    json
        print each entry as one line of JSON
    """
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        async for entry in follow(store, log, after, until_settled):
            _show(entry, json)


async def follow(store: Reading, log: str, after: int, until_settled: bool) -> AsyncIterator[Entry]:
    """Entries after a seq, without a gap or a repeat; ends with the open turn when told so."""
    while True:
        settled = until_settled and not await _is_open(store, log)  # asked first: what it ended with is read after
        for entry in await store.entries(log, after):
            after = entry.seq
            yield entry
        if settled:
            return
        await asyncio.sleep(POLL_S)


async def _is_open(store: Reading, log: str) -> bool:
    return any(row[0] for row in (await store.query(_OPEN, (log,))).rows)


def _show(entry: Entry, json: bool) -> None:
    if json:
        put_json(watched_as_object(entry), stream=True)
        return
    for line in as_lines(entry):
        put(line, flush=True)
