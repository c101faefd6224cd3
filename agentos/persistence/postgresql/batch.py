"""From units to the values of one statement: what several units do to one row is folded into one value for it.

A statement of PostgreSQL sees the tables as they were at its start and may change a row once, so the order that units of
one batch have among themselves is worked out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from agentos.persistence.base import Unit
from agentos.persistence.postgresql import statements
from agentos.persistence.postgresql.keys import stored_key
from agentos.persistence.rows import CALL, CONVERSATION, SET_APART, SET_ONCE, TURN

Row = tuple[Any, ...]
Placed = Sequence[tuple[int, Unit]]
"""Units with the places of their logs."""

_encode = msgspec.json.Encoder().encode


def _struct(name: str, *columns: str) -> Callable[..., msgspec.Struct]:
    """An object of the JSON text for a table. The types of its fields only matter to a reader, and there is none."""
    return msgspec.defstruct(name, [(column, Any) for column in columns], gc=False)


_Head = _struct("Head", "id", "seq", "digest", "owner", "epoch")
_Move = _struct("Move", "i", "to_seq", "to_digest")
_Log = _struct(
    "Log",
    *("id", "tenant", "kind", "owner", "epoch", "seq", "digest", "parent_call", "root", "forked_from", "upto"),
)
_Entry = _struct("Entry", "i", "seq", "unit", "kind", "turn", "call", "at", "head", "digest")
_Payload = _struct("Payload", "i", "seq", "ordinal", "name", "salt", "body")
_Message = _struct("Message", "i", "seq", "role", "turn", "call", "salt", "text")
_Definition = _struct("Definition", "digest", "kind", "body")
_Conversation = _struct("Conversation", "i", *CONVERSATION)
_Turn = _struct("Turn", "i", *TURN)
_Call = _struct("Call", "i", *CALL, *SET_APART["calls"])
_Resolved = _struct("Resolved", "i", "seq", *SET_APART["calls"])
_Component = _struct("Component", "i", "entity", "type", "body")
_Post = _struct("Post", "log", "key", "kind", "salt", "body", "seq")
_Taken = _struct("Taken", "seq", "log", "key")
_Woken = _struct("Woken", "log", "reason", "turn", "call")
_Wakeup = _struct("Wakeup", "log", "reason", "turn", "call", "due_at")

_CONVERSATION_ONCE = tuple(CONVERSATION.index(name) + 1 for name in SET_ONCE["conversations"])
_TURN_ONCE = tuple(TURN.index(name) + 1 for name in SET_ONCE["turns"])
_CALL_ONCE = tuple(CALL.index(name) + 1 for name in SET_ONCE["calls"])
"""Where the columns stand that keep their first value, in a row behind the place of its log."""


class Batch:
    """One statement and its values."""

    __slots__ = ("arguments", "sql")

    def __init__(self, units: Sequence[Unit]) -> None:
        """Units of one log stand in order, each on the one before; see `follow_each_other`.

        Errors: ValueError for a text that has no UTF-8.
        """
        heads, moves, logs, places = _heads(units)
        self.arguments: list[Any] = []
        if heads:
            self.arguments += (_json(heads), len(heads), _json(moves))
        if logs:
            self.arguments.append(_json(logs))
        kinds: list[str] = []
        for kind, rows in _rows(units, places):
            if rows:
                kinds.append(kind)
                self.arguments.append(_json(rows))
        self.sql = statements.append_statement(bool(heads), bool(logs), tuple(kinds))


def _json(rows: object) -> str:
    return _encode(rows).decode()


def follow_each_other(units: Sequence[Unit]) -> bool:
    """Whether all units of each log build on each other, so that all of them fit as soon as the first does."""
    if len(units) == 1:
        return True
    ends: dict[str, tuple[int, bytes, int, int]] = {}
    for unit in units:
        before = ends.get(unit.log)
        if before is not None and (
            unit.create is not None or before != (unit.previous_seq, unit.previous, unit.owner, unit.epoch)
        ):
            return False
        owner, epoch = (unit.owner, unit.epoch) if unit.create is None else (unit.create.owner, unit.create.epoch)
        ends[unit.log] = (unit.seq, unit.digest, owner, epoch)
    return True


def _heads(units: Sequence[Unit]) -> tuple[list[Any], list[Any], list[Any], dict[str, int]]:
    """Heads as they have to be, where they move, logs that begin, and the place of each log."""
    first: dict[str, Unit] = {}
    last: dict[str, Unit] = {}
    for unit in units:
        first.setdefault(unit.log, unit)
        last[unit.log] = unit
    there = sorted(log for log, unit in first.items() if unit.create is None)
    begun = [log for log, unit in first.items() if unit.create is not None]
    places = {log: i for i, log in enumerate([*there, *sorted(begun)], 1)}
    moves = [_Move(places[log], last[log].seq, last[log].digest) for log in there]
    return [_head(first[log]) for log in there], moves, [_log(first[log], last[log]) for log in begun], places


def _head(unit: Unit) -> msgspec.Struct:
    return _Head(unit.log, unit.previous_seq, unit.previous, unit.owner, unit.epoch)


def _log(first: Unit, last: Unit) -> msgspec.Struct:
    row = first.create
    assert row is not None
    begun = row.id, row.tenant, row.kind, row.owner, row.epoch, last.seq, last.digest
    return _Log(*begun, row.parent_call, row.root, row.forked_from, row.upto)


def _rows(units: Sequence[Unit], places: dict[str, int]) -> Iterator[tuple[str, list[Any]]]:
    """The rows of each kind in `statements.ROWS`, in its order."""
    placed = [(places[unit.log], unit) for unit in units]
    yield "entries", [_Entry(i, *row) for i, unit in placed for row in unit.entries]
    yield "payloads", [_Payload(i, *row) for i, unit in placed for row in unit.payloads]
    yield "messages", [_Message(i, *row) for i, unit in placed for row in unit.messages]
    yield "definitions", _definitions(units)
    yield "conversations", _conversations(placed)
    yield "turns", [_Turn(*row) for row in _folded(_turns(placed), 2, _TURN_ONCE)]
    calls, resolved = _calls(placed)
    yield "calls", calls
    yield "resolved", resolved
    yield "components", [_Component(*row) for row in _folded(_components(placed), 3, ())]
    posts, taken = _posts(units)
    yield "posts", posts
    yield "taken", taken
    woken, wakeups = _wakeups(units)
    yield "woken", woken
    yield "wakeups", wakeups


def _folded(rows: list[Row], key: int, once: tuple[int, ...]) -> Iterable[Row]:
    """One row for each key, which is the first columns: the last one, with the first values of the columns `once`."""
    if len(rows) < 2:
        return rows
    folded: dict[Row, Row] = {}
    for row in rows:
        before = folded.get(row[:key])
        if before is not None and once:
            row = tuple(before[i] if i in once else value for i, value in enumerate(row))
        folded[row[:key]] = row
    return folded.values()


def _turns(placed: Placed) -> list[Row]:
    return [(i, *row) for i, unit in placed for row in unit.turns]


def _components(placed: Placed) -> list[Row]:
    return [(i, *row) for i, unit in placed for row in unit.components]


def _conversations(placed: Placed) -> list[Any]:
    rows = [(i, *unit.conversation) for i, unit in placed if unit.conversation is not None]
    return [_Conversation(*row) for row in _folded(rows, 1, _CONVERSATION_ONCE)]


def _definitions(units: Sequence[Unit]) -> list[Any]:
    """The first one of each digest, in one order for all processes, so that no two wait for each other."""
    first: dict[str, Row] = {}
    for unit in units:
        for row in unit.definitions:
            first.setdefault(row[0], row)
    return [_Definition(*first[digest]) for digest in sorted(first)]


def _calls(placed: Placed) -> tuple[list[Any], list[Any]]:
    """Rows of calls with their resolutions, and resolutions of calls that no unit here has a row for."""
    resolutions = {(i, call): what for i, unit in placed for call, what in unit.resolved}
    rows = _folded([(i, *row) for i, unit in placed for row in unit.calls], 2, _CALL_ONCE)
    calls = [_Call(*row, resolutions.pop(row[:2], None)) for row in rows]
    return calls, [_Resolved(*key, what) for key, what in resolutions.items()]


def _posts(units: Sequence[Unit]) -> tuple[list[Any], list[Any]]:
    """What is posted, some of it as taken already, and what is taken of earlier posts."""
    posts: dict[tuple[str, str], Row] = {}
    taken: dict[tuple[str, str], int] = {}
    for unit in units:
        for post in unit.posts:
            posts.setdefault((post.log, stored_key(post.key)), (post.kind, post.salt, post.body, None))
        for key in unit.taken:
            taken.setdefault((unit.log, stored_key(key)), unit.seq)
    for place in posts.keys() & taken.keys():
        posts[place] = (posts[place][0], None, None, taken.pop(place))
    return [_Post(*place, *row) for place, row in posts.items()], [_Taken(seq, *key) for key, seq in taken.items()]


def _wakeups(units: Sequence[Unit]) -> tuple[list[Any], list[Any]]:
    """Wake-ups that end, and those that are set, which stay when the same one also ends."""
    due: dict[Row, int] = {}
    over: dict[Row, None] = {}
    for unit in units:
        for row in unit.woken:
            over[row.log, row.reason, row.turn, row.call] = None
        for row in unit.wakeups:
            due[row.log, row.reason, row.turn, row.call] = row.due_at
    return [_Woken(*key) for key in over if key not in due], [_Wakeup(*key, at) for key, at in due.items()]
