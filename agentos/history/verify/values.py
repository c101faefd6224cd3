"""The private values of one log beside the commitments to them: each is as it was written, or gone with a receipt.

A receipt is an entry `payload.erased`: every value of the log's own entries up to its `upto` went with it. So a value
that is missing without a receipt was taken away, and one that stands behind a receipt was put back, or never went.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

from agentos.history.report import Finder
from agentos.persistence.base import StoredEntry

RECEIPT = "payload.erased"
"""The kind of entry with which values go."""
KEPT = "kept behind the receipt"
"""How what is found of a value that should be gone begins."""
NO_MESSAGE = -1
"""The number of no value: none of an entry's values is a message."""

_sha256 = hashlib.sha256


class Values:
    """Takes the values of the entries of one log in order.

    redacted: they come from a bundle that left values out on purpose, so that a missing one is no difference; one that
    is there is checked all the same. count has how many values there were, erased_at the time of the last receipt.
    """

    def __init__(self, finder: Finder, *, redacted: bool = False) -> None:
        self.count = 0
        self.erased_at: int | None = None
        self._finder, self._redacted = finder, redacted
        self._standing: deque[tuple[int, Sequence[str]]] = deque()
        self._missing: deque[tuple[int, str, int]] = deque()

    def check(self, stored: StoredEntry, commitments: Sequence[tuple[str, bytes]], message: int) -> None:
        """Each commitment has its row and each row its commitment. message is the number of the value that is one."""
        self.count += len(stored.payloads)
        if _all_fit(stored, commitments):
            self._standing.append((stored.seq, _ONE[message] if len(commitments) == 1 else _MANY[message]))
            return
        rows = {i: (name, salt, body) for i, name, salt, body in stored.payloads}
        for i, (name, expected) in enumerate(commitments):
            table = _table(i, message)
            row = rows.pop(i, None)
            if row is None:
                if not self._redacted:
                    self._finder.differ(stored.seq, table, "row", None, f"value {i}, {name}")
                continue
            if row[0] != name and table == "payloads":
                self._finder.differ(stored.seq, "payloads", "name", row[0], name)
            self._check_body(stored.seq, table, i, (row[1], row[2]), expected)
        for i, (name, _, _) in rows.items():
            self._finder.differ(stored.seq, _table(i, message), "row", f"value {i}, {name}", None)

    def receipt(self, seq: int, at: int, data: object) -> None:
        """An entry says up to where every value is gone, and with it why those that are missing are."""
        upto = data.get("upto") if isinstance(data, dict) else None
        if type(upto) is not int or not 0 <= upto < seq:
            self._finder.differ(seq, "entries", "head", "a receipt for no entries before it", "one for all before it")
            return
        self.erased_at = at
        while self._standing and self._standing[0][0] <= upto:  # in order, so that each is looked at once
            standing, tables = self._standing.popleft()
            for table in tables:
                self._finder.differ(standing, table, _FIELD[table], f"{KEPT} at seq {seq}", None)
        while self._missing and self._missing[0][0] <= upto:
            self._missing.popleft()

    def end(self) -> None:
        """What is missing by now has no receipt."""
        for seq, table, i in self._missing if not self._redacted else ():
            self._finder.differ(
                seq, table, _FIELD[table], f"value {i} is gone without a receipt", f"{RECEIPT} behind it"
            )

    def _check_body(self, seq: int, table: str, i: int, row: tuple[bytes | None, str | None], expected: bytes) -> None:
        """Salt and body fit the commitment, or both are gone."""
        salt, body = row
        if salt is None and body is None:
            self._missing.append((seq, table, i))
            return
        if salt is None or body is None:
            half = "without its salt" if salt is None else "erased but for its salt"
            self._finder.differ(seq, table, _FIELD[table], f"value {i} {half}", expected)
            return
        if type(salt) is not bytes or type(body) is not str:
            types = f"{type(salt).__name__} and {type(body).__name__}"
            self._finder.differ(seq, table, _FIELD[table], f"value {i} of salt and text of types {types}", expected)
            return
        self._standing.append((seq, (table,)))
        found = _sha256(bytes_of(salt) + bytes_of(body)).digest()
        if found != expected:
            self._finder.differ(seq, table, _FIELD[table], f"value {i} of commitment {found.hex()[:16]}", expected)


_FIELD = {"messages": "text", "payloads": "body"}
_ONE = {0: ("messages",), NO_MESSAGE: ("payloads",)}
_MANY = {0: ("messages", "payloads"), NO_MESSAGE: ("payloads",)}
"""The tables in which the values of an entry stand, by the number of the one that is a message."""


def _all_fit(stored: StoredEntry, commitments: Sequence[tuple[str, bytes]]) -> bool:
    """Whether every value stands in its place as it was written: nearly always, and quickly seen."""
    if len(stored.payloads) != len(commitments):
        return False
    n = 0
    for (i, name, salt, body), (expected_name, expected) in zip(stored.payloads, commitments, strict=True):
        if i != n or name != expected_name or type(salt) is not bytes or type(body) is not str:
            return False
        if _sha256(salt + body.encode("utf-8", "surrogatepass")).digest() != expected:
            return False
        n += 1
    return True


def _table(i: int, message: int) -> str:
    return "messages" if i == message else "payloads"


def bytes_of(value: object) -> bytes:
    """The bytes of a column, whatever was put there."""
    if type(value) is bytes:
        return value
    return (value if type(value) is str else str(value)).encode("utf-8", "surrogatepass")
