"""watch: what is stored of a conversation, then what comes: from the kernel that runs it, else read from the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from agentos.events.entry import Entry
from agentos.events.model import ModelDelta
from agentos.ids import LogId
from agentos.interfaces.cli.entries import as_lines, watched_as_object
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, put_piece, say
from agentos.interfaces.cli.running import NOT_TAKEN, owner_of, process_of, why_not
from agentos.kernel.control import SocketClient
from agentos.kernel.reading import Reading, reading
from agentos.kernel.watch import StreamGap, Watched

POLL_S = 0.2
_SETTLING = frozenset({"turn.finished", "conversation.paused", "conversation.closed"})
"""After these it may be that no turn is open or to come."""


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

    While a process runs it, pieces of a reply are printed as the model gives them; their entry comes after, whole. When that
    process ends, the store is read on, whoever writes to it.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    after
        begin after this seq
    until_settled
        end once no turn is open, and no input waits for one
    json
        print each entry, and each piece of a reply, as one line of JSON
    """
    screen = _Screen(json=json)
    async with reading(here.store_url()) as store:
        log = await find_conversation(store, conversation)
        async with owner_of(store, log) as kernel:
            if kernel is not None and not (until_settled and not await _is_open(store, log)):
                async with aclosing(_live(kernel, store, log, after, until_settled)) as items:
                    async for item in items:
                        after = item.seq if isinstance(item, Entry) else after
                        screen.show(item)
        async for entry in follow(store, log, after, until_settled):
            screen.show(entry)


async def _live(
    kernel: SocketClient, store: Reading, log: LogId, after: int, until_settled: bool
) -> AsyncGenerator[Watched, None]:
    """What the kernel gives, until it ends, or the open turn does when told so."""
    try:
        async with aclosing(kernel.watch(log, after)) as items:
            async for item in items:
                yield item
                ended = isinstance(item, Entry) and item.data.kind in _SETTLING
                if until_settled and ended and not await _is_open(store, log):
                    return
        say(f"{process_of(kernel)} runs it no longer; going on by the store")
    except NOT_TAKEN as error:
        say(f"warning: {why_not(kernel, error)}; going on by the store")


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
    """Whether a turn is open, or one is to come: an input waits for it, or a word in the inbox."""
    return log in await store.store.open_logs()


class _Screen:
    """Prints what is watched. Pieces of a reply stand on lines of their own, between entries."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._in_reply = False

    def show(self, item: Watched) -> None:
        if self._json:
            put_json(watched_as_object(item), stream=True)
        elif isinstance(item, ModelDelta):
            put_piece(item.text)
            self._in_reply = True
        else:
            self._end_reply()
            self._show_line(item)

    def _show_line(self, item: Entry | StreamGap) -> None:
        if isinstance(item, StreamGap):
            say("pieces of the reply were left out: they came faster than they were printed")
            return
        for line in as_lines(item):
            put(line, flush=True)

    def _end_reply(self) -> None:
        if self._in_reply:
            self._in_reply = False
            put(flush=True)
