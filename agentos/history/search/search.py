"""search: find what was said, by words, in all conversations of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import ExitStack
from typing import Literal

import msgspec

from agentos.errors import IndexDamaged, QueryRefused
from agentos.history.search.hits import Hit, HitReader
from agentos.history.search.indexing import Tell, bring_up_to_date
from agentos.history.search.words import match_of
from agentos.persistence.base import Store
from agentos.persistence.search_index import SearchIndex
from agentos.persistence.search_place import turn_at
from agentos.persistence.search_rows import Asked
from agentos.settings import Settings

HITS = 20
"""How many hits are given where nobody says how many."""
HITS_MAX = 1_000
CONVERSATIONS_PAGE = 10_000

Role = Literal["user", "assistant", "tool"]

_CHOSEN = """
select n, id from conversations
where n > ? and (? = '' or agent = ?) and (? = '' or root = ?) and (? = '' or state = ?) order by n limit ?
"""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a hit has to be, all of it; None asks nothing. Times in microseconds, UTC, since included, until not.

    agent, root, state: of a conversation of this agent, of the tree of this root, in this state now. role: who wrote it.
    tool: arguments for this tool, or what it answered. thinking: what models thought is searched too.
    """

    agent: str | None = None
    root: str | None = None
    state: str | None = None
    role: Role | None = None
    tool: str | None = None
    since: int | None = None
    until: int | None = None
    thinking: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Hits in order. more: there are others behind them, from the cursor of the last one on.

    texts is how many the index holds; index, where it is; unkept, where it should be and cannot be written. behind: another
    process brings it up to date at this moment, and what was said last may be missing.
    """

    hits: tuple[Hit, ...]
    more: bool
    texts: int
    index: str
    unkept: str | None
    behind: bool


class Search:
    """Searches of one store. The index is brought up to date before each; one in memory lasts as long as this object."""

    def __init__(self, store: Store, *, settings: Settings | None = None) -> None:
        self._store, self._limit_s = store, (settings or Settings()).query_s
        self._index = SearchIndex(SearchIndex.beside(store.url))
        self._unkept: str | None = None

    async def find(
        self,
        words: str,
        wanted: Wanted | None = None,
        *,
        limit: int = HITS,
        newest: bool = False,
        after: str | None = None,
        rebuild: bool = False,
        tell: Tell | None = None,
    ) -> Found:
        """The best hits, or the newest; see `match_of` for words. rebuild makes the index anew first.

        Errors: QueryRefused for words with nothing to look for, a limit or cursor that is none, and a search that takes too
        long; IndexUnavailable, StoreError; ConfigurationError where SQLite has no full text.
        """
        match = match_of(words)
        if not 1 <= limit <= HITS_MAX:
            raise QueryRefused(f"limit is {limit}; a search gives 1 to {HITS_MAX:,} hits at once")
        place = _place(after) if after is not None else None
        asked = (match, wanted or Wanted(), limit, newest, place)
        try:
            return await self._find(*asked, rebuild=rebuild, tell=tell)
        except IndexDamaged:
            return await self._find(*asked, rebuild=True, tell=tell)

    def close(self) -> None:
        self._index.close()

    async def _find(
        self,
        match: str,
        wanted: Wanted,
        limit: int,
        newest: bool,
        after: tuple[str, int, int] | None,
        *,
        rebuild: bool,
        tell: Tell | None,
    ) -> Found:
        behind = not await self._catch_up(rebuild=rebuild, tell=tell)
        asked = Asked(
            match=match,
            role=wanted.role,
            tool=wanted.tool,
            since=wanted.since,
            until=wanted.until,
            thinking=wanted.thinking,
            logs=await self._chosen(wanted),
            newest=newest,
            after=after,
        )
        hits = await HitReader(self._store, self._index, self._limit_s).hits(asked, limit + 1)
        texts = await asyncio.to_thread(self._index.count)
        return Found(
            hits=tuple(hits[:limit]),
            more=len(hits) > limit,
            texts=texts,
            index=self._index.place,
            unkept=self._unkept,
            behind=behind,
        )

    async def _catch_up(self, *, rebuild: bool, tell: Tell | None) -> bool:
        """Whether it was this process's turn. Where no file can be written, the index is made in memory."""
        with ExitStack() as held:
            try:
                ours = held.enter_context(turn_at(self._index.path))
            except OSError:
                self._unkept = self._index.place
                self._index.close()
                self._index, ours = SearchIndex(), True
            if ours and rebuild:
                self._index.remove()
            await asyncio.to_thread(self._index.open)
            if ours:
                await bring_up_to_date(self._store, self._index, tell)
            return ours

    async def _chosen(self, wanted: Wanted) -> Collection[str] | None:
        """The conversations that fit, None for all."""
        if wanted.agent is None and wanted.root is None and wanted.state is None:
            return None
        given = [value or "" for name in (wanted.agent, wanted.root, wanted.state) for value in (name, name)]
        found: list[str] = []
        n = 0
        while page := (await self._store.query(_CHOSEN, (n, *given, CONVERSATIONS_PAGE))).rows:
            found += [str(id_) for _, id_ in page]
            n = page[-1][0]
        return found


async def search_store(
    store: Store,
    words: str,
    wanted: Wanted | None = None,
    *,
    limit: int = HITS,
    newest: bool = False,
    after: str | None = None,
    rebuild: bool = False,
    tell: Tell | None = None,
) -> Found:
    """One search; see `Search.find`."""
    search = Search(store)
    try:
        return await search.find(words, wanted, limit=limit, newest=newest, after=after, rebuild=rebuild, tell=tell)
    finally:
        search.close()


def _place(cursor: str) -> tuple[str, int, int]:
    """Raises QueryRefused."""
    log, _, place = cursor.partition(":")
    seq, _, i = place.partition(":")
    if not (log and seq.isdecimal() and i.isdecimal() and len(place) <= 40):
        raise QueryRefused(f"{cursor[:80]!r} is no cursor; it is CONVERSATION:SEQ:I, as a search gives it")
    return log, int(seq), int(i)
