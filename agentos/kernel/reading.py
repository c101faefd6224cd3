"""Reading a store without a kernel, and posting to its inbox: no turn is driven, and another process may be at work."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agentos.codec import decode_text
from agentos.components import Outcome
from agentos.errors import ConfigurationError, ConversationBusy, UnknownConversation
from agentos.events.entry import Entry, Registry
from agentos.events.intake import Item
from agentos.ids import ConversationId, LogId, Name, turn_id
from agentos.journal import decode_units
from agentos.kernel.outcome import RunOutcome
from agentos.persistence import open_store
from agentos.persistence.base import Rows, Store, WriterRow
from agentos.settings import Settings

__all__ = ["Reading", "Rows", "WriterRow", "reading"]

_LAST_TURN = """
select conversations.agent, turns.seq, turns.outcome, turns.outcome_name, turns.steps, turns.calls,
    turns.input_tokens, turns.output_tokens,
    (select text from messages where messages.n = turns.n and messages.turn = turns.seq and role = 'assistant'
        order by messages.seq desc limit 1)
from logs join turns on turns.n = logs.n join conversations on conversations.n = logs.n
where logs.id = ? and turns.outcome is not null order by turns.seq desc limit 1
"""


class Reading:
    """A store as a client sees it."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.store, self._settings = store, settings or Settings()
        self._registry = Registry()

    @property
    def url(self) -> str:
        return self.store.url

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """One reading statement. Raises QueryRefused, StoreError."""
        return await self.store.query(sql, parameters)

    async def entries(self, log: str, after_seq: int = 0, upto: int | None = None) -> list[Entry]:
        """Stored entries with their bodies. Raises UnknownConversation when there is no such log."""
        stored = await self.store.entries(log, after_seq, upto)
        if not stored and await self.store.log(log) is None:
            raise UnknownConversation(log)
        return [entry for unit in decode_units(LogId(log), stored, self._registry) for entry in unit]

    async def post(self, log: LogId, key: str, item: Item) -> bool:
        """Puts an item into the inbox of a log, for whoever owns it; False when the key is known already.

        Errors: ConversationBusy when inbox_max of them wait there.
        """
        from agentos.kernel.inbox_items import inbox_row

        async with self.writing() as store:
            if await store.inbox_seq(log, key) is not None:
                return False
            waiting = len(await store.inbox(log))
            if waiting >= self._settings.inbox_max:
                raise ConversationBusy(log, waiting)
            return await store.post(inbox_row(log, key, item))

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Store]:
        """The store, open as a writer for the length of a block."""
        await self.store.open(uuid.uuid4().hex)
        try:
            yield self.store
        finally:
            await self.store.close()

    async def writers(self) -> list[WriterRow]:
        """Every process that ever opened the store for writing, oldest first, and whether it lives."""
        return await self.store.writers()

    async def declare_dead(self, writer: int) -> bool:
        """On a person's word, as `Kernel.declare_dead`."""
        async with self.writing() as store:
            return await store.declare_dead(writer)

    async def last_outcome(self, conversation: str) -> RunOutcome | None:
        """How the last settled turn ended, as far as tables tell; None when there was none."""
        for row in (await self.query(_LAST_TURN, (conversation,))).rows:
            agent, turn, outcome, name, steps, calls, input_tokens, output_tokens, text = row
            return RunOutcome(
                outcome=Outcome(outcome),
                name=Name(name) if name else None,
                text=decode_text(text or ""),
                error="",
                conversation=ConversationId(conversation),
                turn=turn_id(conversation, turn),
                agent=Name(agent),
                steps=steps,
                calls=calls,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
            )
        return None


@asynccontextmanager
async def reading(url: str, settings: Settings | None = None) -> AsyncIterator[Reading]:
    """A store that exists already. Raises ConfigurationError for a store that no other process could have filled."""
    if url == "memory:":
        raise ConfigurationError("a store in memory ends with its process; name one with --store sqlite:///FILE")
    store = open_store(url, settings)
    try:
        yield Reading(store, settings)
    finally:
        await store.close()
