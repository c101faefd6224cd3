"""Hits: what the index takes for one, read back from the store and marked there."""

from __future__ import annotations

import asyncio

import msgspec

from agentos.history.search.forks import Forks
from agentos.history.search.texts import texts_of
from agentos.ids import call_id, turn_id
from agentos.persistence.base import Store
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_marks import Snippet, snippets_of
from agentos.persistence.search_rows import Asked, IndexHit

_FACTS = "select agent, state from logs join conversations on conversations.n = logs.n where logs.id = ?"


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One text with the words. part says which of its entry: text, thinking, arguments, progress or result.

    forks are conversations that begin with this entry, too; at in microseconds, UTC. marks are places in the snippet.
    """

    conversation: str
    agent: str
    state: str
    seq: int
    i: int
    role: str
    part: str
    tool: str | None
    turn: str | None
    call: str | None
    at: int
    snippet: str
    marks: tuple[tuple[int, int], ...]
    forks: tuple[str, ...] = ()

    @property
    def cursor(self) -> str:
        """What `after` takes to go on behind this hit."""
        return f"{self.conversation}:{self.seq}:{self.i}"


class HitReader:
    """Reads hits back from the store, which alone says what stands there."""

    def __init__(self, store: Store, index: SearchIndex, limit_s: float) -> None:
        self._store, self._index, self._limit_s = store, index, limit_s
        self._forks = Forks(store)
        self._facts: dict[str, tuple[str, str]] = {}

    async def hits(self, asked: Asked, limit: int) -> list[Hit]:
        """So many at most; what the index alone takes for a hit leaves it."""
        found: list[Hit] = []
        stale: list[IndexHit] = []
        while len(found) < limit:
            page = await asyncio.to_thread(self._index.hits, asked, limit - len(found), self._limit_s)
            if not page:
                break
            read = await self._read(page, asked.match)
            found += [await self._hit(hit, snippet) for hit, snippet in read if snippet is not None]
            stale += [hit for hit, snippet in read if snippet is None]
            last = page[-1]
            asked = msgspec.structs.replace(asked, after=(last.log, last.seq, last.i))
        for hit in stale:
            await asyncio.to_thread(self._index.drop_text, hit)
        return found

    async def _read(self, page: list[IndexHit], match: str) -> list[tuple[IndexHit, Snippet | None]]:
        texts = [await self._text(hit) for hit in page]
        snippets = await asyncio.to_thread(snippets_of, texts, match)
        return [(hit, snippets.get(n)) for n, hit in enumerate(page)]

    async def _text(self, hit: IndexHit) -> str:
        """Empty when the store has it no longer."""
        for stored in await self._store.entries(hit.log, hit.seq - 1, hit.seq):
            for text in texts_of(stored):
                if text.i == hit.i:
                    return text.text
        return ""

    async def _hit(self, hit: IndexHit, snippet: Snippet) -> Hit:
        agent, state = await self._of(hit.log)
        return Hit(
            conversation=hit.log,
            agent=agent,
            state=state,
            seq=hit.seq,
            i=hit.i,
            role=hit.role,
            part=hit.part,
            tool=hit.tool,
            turn=turn_id(hit.log, hit.turn) if hit.turn else None,
            call=call_id(hit.log, hit.call) if hit.call else None,
            at=hit.at,
            snippet=snippet.text,
            marks=snippet.marks,
            forks=await self._forks.sharing(hit.log, hit.seq),
        )

    async def _of(self, log: str) -> tuple[str, str]:
        """Agent and state of a conversation; empty when it has not begun, or has no row."""
        if log not in self._facts:
            rows = (await self._store.query(_FACTS, (log,))).rows
            self._facts[log] = (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")
        return self._facts[log]
