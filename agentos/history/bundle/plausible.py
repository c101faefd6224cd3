"""Whether the entries of a bundle say what a kernel can have written: of the right form, with no text where none belongs.

All digests of a stranger's bundle may fit and its folds may work, and yet a time of the year 148108 would end every list
that shows it, a name with control signs would reach terminals, a count beyond all bounds would break the sums of a whole
store, and a body of another form would fail whoever opens it, long after the import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from agentos import codec
from agentos.errors import CodecError, ImportRefused
from agentos.events.entry import Head, decode_head
from agentos.events.kinds import JSON_PAYLOADS
from agentos.history.verify.tables import COLUMNS
from agentos.ids import is_name
from agentos.persistence.base import StoredEntry, Unit

AHEAD_S = 24 * 60 * 60
"""How far an entry may be ahead of this machine's clock: beyond that, retention would keep it for ever."""
COUNT_MAX = 10**12
"""Of tokens, steps and the like in one row: the sum over a million of them is still a number to every store."""
TIME_MAX_US = 253_402_300_799_999_999
"""The end of the year 9999, the last that can be shown; no number in a head is beyond."""
_COMMITTED = re.compile(r"[a-z_]{1,64}")

_encode = msgspec.json.Encoder(order="sorted").encode


class Plausible:
    """Looks at what is to be stored of one bundle. now is in microseconds, UTC."""

    def __init__(self, path: str, now: int) -> None:
        self._path, self._latest = path, now + AHEAD_S * 1_000_000

    def check(self, log: str, stored: StoredEntry) -> None:
        """One entry. Raises ImportRefused, which names log, seq and field; CodecError for a head that is none."""
        head = decode_head(stored.head)
        for field, fits in self._fields(stored, head):
            if not fits:
                raise ImportRefused(self._path, f"{log} seq {stored.seq}: {field} is not as a kernel writes it")
        if head.at > self._latest:
            raise ImportRefused(
                self._path,
                f"{log} seq {stored.seq} is of a time more than {AHEAD_S // 3_600} hours ahead (AHEAD_S) of this"
                " machine's clock; set that right, or leave the bundle out",
            )

    def check_rows(self, log: str, unit: Unit) -> None:
        """The rows that the entries of a unit come to. Raises ImportRefused."""
        rows = {
            "conversations": [unit.conversation] if unit.conversation else [],
            "turns": unit.turns,
            "calls": unit.calls,
        }
        for table, found in rows.items():
            for row in found:
                for column, value in zip(COLUMNS[table], row, strict=False):
                    if not _fits_column(column, value):
                        reason = f"{log} seq {unit.seq}: {table}.{column} is not as a kernel writes it"
                        raise ImportRefused(self._path, reason)

    def _fields(self, stored: StoredEntry, head: Head) -> Iterator[tuple[str, bool]]:
        yield "its head", _encode(head) == stored.head.encode()
        yield "at", 0 <= head.at <= TIME_MAX_US
        yield "turn", 0 <= head.turn <= head.seq
        yield "call", 0 <= head.call <= head.seq
        yield "writer", 0 <= head.writer <= COUNT_MAX
        yield "kind", is_name(head.kind)
        yield "by", not head.by or is_name(head.by)
        yield "cause", head.cause is None or is_name(head.cause)
        yield "data", _is_plain(head.data)
        yield "changes", _is_plain(head.changes)
        yield "commitments", all(_COMMITTED.fullmatch(name) for name, _ in head.commitments)
        for i, name, _, body in stored.payloads:
            yield f"value {i}, {name[:64]!a},", body is None or _is_body(name, body)


def _is_plain(value: Any) -> bool:
    """No text stands in a head: every string is a word, an id or a digest; and every number can be stored and shown."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if one and not is_name(one):
                return False
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, Sequence):
            waiting += one
        elif isinstance(one, int) and abs(one) > TIME_MAX_US:
            return False
    return True


def _is_body(name: str, body: str) -> bool:
    """Whether a body can be opened, and is the one form of its value."""
    try:
        if name in JSON_PAYLOADS:
            return codec.encode_json(codec.decode_json(body)) == body
        return codec.encode_body(codec.decode_text(body)) == body
    except CodecError:
        return False


def _fits_column(column: str, value: Any) -> bool:
    if isinstance(value, str):
        return not value or is_name(value)
    if isinstance(value, int):
        return 0 <= value <= (TIME_MAX_US if column.endswith("_at") else COUNT_MAX)
    return value is None
