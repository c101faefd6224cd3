"""What a database does to the tables beside one log when these are made anew: the same statements for SQLite and PostgreSQL.

Entries and heads are not touched. Of private bodies, only those go that nothing commits to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from agentos.persistence.base import ComponentRow, WakeupRow


class LogTables(msgspec.Struct, kw_only=True):
    """All that should stand beside one log. Rows are in the order of `agentos.persistence.rows`; calls have resolution too.

    messages are (seq, role, turn, call) of the rows that are there; their texts stay. woken are wake-ups that nothing waits
    for. orphans are payloads (seq, i), and orphan_messages messages by seq, that no entry commits to.
    """

    conversation: tuple[Any, ...] | None = None
    turns: Sequence[tuple[Any, ...]] = ()
    calls: Sequence[tuple[Any, ...]] = ()
    components: Sequence[ComponentRow] = ()
    messages: Sequence[tuple[int, str, int, int]] = ()
    wakeups: Sequence[WakeupRow] = ()
    woken: Sequence[WakeupRow] = ()
    orphans: Sequence[tuple[int, int]] = ()
    orphan_messages: Sequence[int] = ()


@runtime_checkable
class Mendable(Protocol):
    """A store whose tables stand beside the entries, so that they may come to differ. Others make them of the entries."""

    async def mend(self, log: str, seq: int, digest: bytes, tables: LogTables) -> bool:
        """Puts these in the place of what stands beside the log, in one transaction, beside whoever writes; also lets go of
        bodies that inbox items kept after they were taken.

        False, and nothing is changed, when the head of the log is no longer that. Raises StoreUnavailable.
        """


HEAD = "select n from logs where id = ? and seq = ? and digest = ?"

_CLEAR = (
    "delete from conversations where n = ?",
    "delete from turns where n = ?",
    "delete from calls where n = ?",
    "delete from components where n = ?",
)
_PUT_CONVERSATION = (
    "insert into conversations (n, id, agent, state, depth, parent, root, open_turn, turns, steps, calls, input_tokens,"
    " output_tokens, started_at, updated_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PUT_TURN = (
    "insert into turns (n, seq, state, outcome, outcome_name, steps, calls, input_tokens, output_tokens, started_at,"
    " finished_at, context) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PUT_CALL = (
    "insert into calls (n, seq, turn, step, ordinal, tool, toolbox, effect, status, kind, attempt, child, started_at,"
    " finished_at, arguments_seq, arguments_i, result_seq, parent, resolution)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PUT_COMPONENT = "insert into components (n, entity, type, body) values (?, ?, ?, ?)"
_PUT_MESSAGE = "update messages set role = ?, turn = ?, call = ? where n = ? and seq = ?"
_DROP_MESSAGE = "delete from messages where n = ? and seq = ?"
_DROP_PAYLOAD = "delete from payloads where n = ? and seq = ? and i = ?"
_DROP_WAKEUP = "delete from wakeups where log = ? and reason = ? and turn = ? and call = ?"
_PUT_WAKEUP = "insert into wakeups (log, reason, turn, call, due_at) values (?, ?, ?, ?, ?)"
_LET_GO = "update inbox set salt = null, body = null where log = ? and seq is not null and body is not null"


def statements_of(n: int, log: str, tables: LogTables) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """What to run in order, each with the rows that it is run with; n is the number of the log."""
    for clear in _CLEAR:
        yield clear, [(n,)]
    yield _PUT_CONVERSATION, [(n, *tables.conversation)] if tables.conversation is not None else []
    yield _PUT_TURN, [(n, *row) for row in tables.turns]
    yield _PUT_CALL, [(n, *row) for row in tables.calls]
    yield _PUT_COMPONENT, [(n, *row) for row in tables.components]
    yield _PUT_MESSAGE, [(role, turn, call, n, seq) for seq, role, turn, call in tables.messages]
    yield _DROP_MESSAGE, [(n, seq) for seq in tables.orphan_messages]
    yield _DROP_PAYLOAD, [(n, seq, i) for seq, i in tables.orphans]
    gone = [*tables.woken, *tables.wakeups]
    yield _DROP_WAKEUP, [(row.log, row.reason, row.turn, row.call) for row in gone]
    yield _PUT_WAKEUP, [(row.log, row.reason, row.turn, row.call, row.due_at) for row in tables.wakeups]
    yield _LET_GO, [(log,)]
