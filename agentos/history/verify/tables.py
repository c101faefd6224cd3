"""The tables that are read beside the logs: their rows log by log, in the order of the logs, a page at a time."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

from agentos.history.pages import pages_of
from agentos.persistence.base import Store
from agentos.persistence.reading import SEQ_MAX
from agentos.persistence.rows import CALL, CONVERSATION, SET_APART, TURN

PAGE_ROWS = 5_000
"""How many rows of each table are asked for at once."""
FEW_ROWS = 500
"""The same where only one log is looked at."""
PAGE_COMPONENTS = 500

Row = tuple[Any, ...]

LOG_NUMBER = "select n from logs where id = ?"
_ENTRIES = "select n, seq, turn, call, at from entries where (n, seq) > (?, ?) order by n, seq limit ?"
_MESSAGES = "select n, seq, role, turn, call from messages where (n, seq) > (?, ?) order by n, seq limit ?"
_MESSAGE_COUNTS = "select n, count(*) from messages where n > ? group by n order by n limit ?"
_PAYLOADS = "select n, count(*) from payloads where n > ? group by n order by n limit ?"
_CONVERSATIONS = (
    "select n, id, agent, state, depth, parent, root, open_turn, turns, steps, calls, input_tokens, output_tokens,"
    " started_at, updated_at from conversations where n > ? order by n limit ?"
)
_TURNS = (
    "select n, seq, state, outcome, outcome_name, steps, calls, input_tokens, output_tokens, started_at, finished_at,"
    " context from turns where (n, seq) > (?, ?) order by n, seq limit ?"
)
_CALLS = (
    "select n, seq, turn, step, ordinal, tool, toolbox, effect, status, kind, attempt, child, started_at, finished_at,"
    " arguments_seq, arguments_i, result_seq, parent, resolution from calls where (n, seq) > (?, ?) order by n, seq limit ?"
)
_COMPONENTS = (
    "select n, entity, type, body from components where (n, entity, type) > (?, ?, ?) order by n, entity, type limit ?"
)
ORPHANED = (
    "select seq, i, name from payloads where n = ? and not exists"
    " (select 1 from entries where entries.n = payloads.n and entries.seq = payloads.seq) order by seq, i limit 100"
)
"""Payloads of a log whose entry is not there."""
ORPHANS = {
    "entries": "select distinct n from entries where n not in (select n from logs) limit 100",
    "payloads": "select distinct n from payloads where n not in (select n from logs) limit 100",
    "messages": "select distinct n from messages where n not in (select n from logs) limit 100",
    "components": "select distinct n from components where n not in (select n from logs) limit 100",
    "conversations": "select distinct n from conversations where n not in (select n from logs) limit 100",
    "turns": "select distinct n from turns where n not in (select n from logs) limit 100",
    "calls": "select distinct n from calls where n not in (select n from logs) limit 100",
}
"""The numbers of logs that are not there, but have rows."""
COLUMNS = {
    "conversations": CONVERSATION,
    "turns": TURN,
    "calls": (*CALL, *SET_APART["calls"]),
    "components": ("entity", "type", "body"),
}
"""The names of the columns after n."""


class Cursor:
    """The rows of one table, asked for by ascending n. after is the key that they begin behind; it begins with n."""

    def __init__(self, store: Store, sql: str, after: Row, page: int = PAGE_ROWS) -> None:
        self._store, self._sql, self._after, self._limit = store, sql, after, page
        self._page: dict[int, list[Row]] = {}
        self._more = True

    async def of(self, n: int) -> list[Row]:
        """The rows of one log, without n. Rows of logs before it that nobody asked for are passed over."""
        found = self._page.pop(n, [])
        while self._more and self._after[0] <= n:
            await self._read()
            found += self._page.pop(n, ())
        return found

    async def _read(self) -> None:
        """The next page in place of the one before, of which nothing is left."""
        page = (await self._store.query(self._sql, (*self._after, self._limit))).rows
        self._page = {n: [row[1:] for row in rows] for n, rows in groupby(page, itemgetter(0))}
        self._more = len(page) == self._limit
        if page:
            self._after = page[-1][: len(self._after)]


def messages_of(store: Store, n: int) -> Cursor:
    """The messages of one log."""
    return Cursor(store, _MESSAGES, (n - 1, SEQ_MAX), FEW_ROWS)


class Tables:
    """All tables of logs, from the log with this number on. whole: all logs are asked for, so that entries are read in
    one sweep where the store can do that; else page is how many rows are read at once."""

    def __init__(self, store: Store, first: int, *, whole: bool = True) -> None:
        before, page = (first - 1, SEQ_MAX), PAGE_ROWS if whole else FEW_ROWS
        self.pages = pages_of(store, first, Cursor(store, _ENTRIES, before, page), whole=whole)
        self.message_counts = Cursor(store, _MESSAGE_COUNTS, (first - 1,), page)
        self.payloads = Cursor(store, _PAYLOADS, (first - 1,), page)
        self.projections = {
            "conversations": Cursor(store, _CONVERSATIONS, (first - 1,), page),
            "turns": Cursor(store, _TURNS, before, page),
            "calls": Cursor(store, _CALLS, before, page),
            "components": Cursor(store, _COMPONENTS, (first - 1, "\U0010ffff", ""), min(page, PAGE_COMPONENTS)),
        }
