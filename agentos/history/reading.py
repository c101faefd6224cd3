"""Reading logs back: stored units a page at a time, what they pinned, and the decoded entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from agentos import codec
from agentos.components import AgentContext, TurnConfig
from agentos.errors import StoreDamaged, UnknownConversation
from agentos.events.entry import Entry, Registry, decode_entry, digest_of_body
from agentos.ids import Digest, LogId
from agentos.persistence.base import LogRow, Store, StoredEntry

PAGE_ENTRIES = 500
"""How many entries are read at once."""


async def conversation_row(store: Store, conversation: str) -> LogRow:
    """Raises UnknownConversation."""
    row = await store.log(conversation)
    if row is None:
        raise UnknownConversation(conversation[:80])
    return row


async def logs_above(store: Store, row: LogRow, known: Mapping[str, LogRow] | None = None) -> AsyncIterator[LogRow]:
    """The logs that a fork comes from, nearest first; those that are known are not read.

    Raises UnknownConversation for one that is not there, and StoreDamaged for one that comes from itself.
    """
    names = {row.id}
    while row.forked_from is not None:
        row = (known or {}).get(row.forked_from) or await conversation_row(store, row.forked_from)
        if row.id in names:
            raise StoreDamaged(store.url, f"{row.id} is a fork of itself")
        names.add(row.id)
        yield row


async def stored_units(
    store: Store, log: str, after: int = 0, upto: int | None = None
) -> AsyncIterator[list[StoredEntry]]:
    """The stored entries of a log unit by unit, and others run in between. In a fork they begin with its parent's."""
    async for units in stored_pages(store, log, after, upto):
        for unit in units:
            yield unit


async def stored_pages(
    store: Store, log: str, after: int = 0, upto: int | None = None
) -> AsyncIterator[list[list[StoredEntry]]]:
    """The same, many whole units at once."""
    held: list[StoredEntry] = []
    while True:
        page = await store.entries(log, after, upto, PAGE_ENTRIES)
        if len(page) < PAGE_ENTRIES:
            break
        *units, held = in_units([*held, *page])
        yield units
        after = page[-1].seq
        await asyncio.sleep(0)
    if held or page:
        yield in_units([*held, *page])


def in_units(entries: Sequence[StoredEntry]) -> list[list[StoredEntry]]:
    """Entries that follow each other, unit by unit."""
    units: list[list[StoredEntry]] = []
    last = None
    for stored in entries:
        if stored.unit == last:
            units[-1].append(stored)
        else:
            units.append([stored])
            last = stored.unit
    return units


def decoded(log: LogId, stored: Sequence[StoredEntry], registry: Registry) -> list[Entry]:
    """The entries of a unit with their bodies. Raises CodecError."""
    return [decode_entry(log, entry.head, {i: body for i, _, _, body in entry.payloads}, registry) for entry in stored]


def pinned_by(entries: Sequence[Entry]) -> list[Digest]:
    """The digests of the contexts that the turns beginning in these entries pin, in order."""
    return [
        component.context
        for entry in entries
        if entry.data.kind == "turn.started"
        for _, component in entry.changes
        if isinstance(component, TurnConfig)
    ]


def named_by(entries: Sequence[Entry]) -> list[Digest]:
    """The digests of all contexts that these entries name: of turns that begin, and of open ones in a fork."""
    return [value.context for entry in entries for _, value in entry.changes if isinstance(value, TurnConfig)]


class Contexts:
    """Pinned contexts by digest, each read from the definitions once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Digest, AgentContext] = {}

    def __getitem__(self, digest: Digest) -> AgentContext:
        return self._known[digest]

    async def learn(self, digest: Digest) -> AgentContext:
        """Raises StoreDamaged when the definition is missing or has another digest, CodecError when it is none."""
        known = self._known.get(digest)
        if known is not None:
            return known
        found = await self._store.definition(digest)
        if found is None:
            raise StoreDamaged(self._store.url, f"definition {digest} is missing")
        if digest_of_body(found[1]) != digest:
            raise StoreDamaged(self._store.url, f"the body of definition {digest} has another digest")
        context = self._known[digest] = codec.convert(codec.decode_json(found[1]), AgentContext)
        return context
