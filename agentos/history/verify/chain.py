"""The chain of one log, checked over raw stored bytes: seqs, units, digests, and the commitments to private bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentos.errors import CodecError
from agentos.events.entry import Head, decode_head
from agentos.events.kinds import role_of
from agentos.history.report import Finder
from agentos.persistence.base import StoredEntry

Columns = Mapping[int, tuple[int, int, int]]
"""turn, call and at of each row of `entries`, by seq: what stands in the head too."""

UNKNOWN = b""
"""In the place of a digest that nobody can tell: after a gap."""

NO_MESSAGE = -1
"""The number of no value: none of an entry's values is a message."""

_sha256 = hashlib.sha256


class Chain:
    """Takes the entries of one log in order.

    An edit is one difference: after an entry whose head and digest do not belong together, what the next one builds on
    tells which of the two was edited, and the chain goes on from there. messages collects role, turn and call of each
    entry that is one; gaps tells whether entries are missing. passed has the digests that stand at the wanted seqs.
    """

    def __init__(self, seq: int, digest: bytes, finder: Finder, wanted: Collection[int] = ()) -> None:
        self.seq, self.digest = seq, digest
        self.passed: dict[int, bytes] = {seq: digest} if seq in wanted else {}
        self._wanted = wanted
        self.entries = self.payloads = 0
        self.messages: dict[int, tuple[str, int, int]] = {}
        self.gaps = False
        self._finder = finder
        self._unit = 0
        self._computed: bytes | None = None

    def add(self, unit: Sequence[StoredEntry], columns: Columns) -> list[Head]:
        """Checks the next entries, and the columns beside their heads. Gives the heads of those that have one."""
        heads: list[Head] = []
        for stored in unit:
            seq = stored.seq
            if seq != self.seq + 1:
                self._missing(self.seq + 1, seq - 1)
                self.digest, self._unit = UNKNOWN, 0
            head = _bytes(stored.head)
            if self._computed is None and _sha256(self.digest + head).digest() == stored.digest:
                self.digest = stored.digest  # as nearly always
            else:
                self._link(stored, head)
            self.seq = seq
            if seq in self._wanted:
                self.passed[seq] = self.digest
            try:
                decoded = decode_head(head)
            except CodecError:
                self._finder.differ(seq, "entries", "head", "not the head of an entry", "one")
                continue
            self._check_head(stored, decoded, columns.get(seq))
            heads.append(decoded)
        self.entries += len(unit)
        return heads

    def end(self, seq: int, digest: bytes) -> None:
        """The row of the log names its last entry."""
        if self._computed is not None:
            self._name_edit(edited_digest=digest == self._computed)
        if seq > self.seq:
            self._missing(self.seq + 1, seq)
        elif seq != self.seq:
            self._finder.differ(0, "logs", "seq", seq, self.seq)
        elif digest != self.digest and self.digest is not UNKNOWN:
            self._finder.differ(0, "logs", "digest", digest, self.digest)

    def _missing(self, first: int, last: int) -> None:
        self.gaps = True
        for seq in range(first, min(last, first + 9) + 1):
            self._finder.differ(seq, "entries", "row", None, "an entry")
        if last > first + 9:
            self._finder.differ(last, "entries", "row", None, f"entries from {first + 10} on")

    def _link(self, stored: StoredEntry, head: bytes) -> None:
        if self.digest is UNKNOWN:
            self.digest = _bytes(stored.digest)
            return
        computed = _sha256(self.digest + head).digest()
        if self._computed is not None:
            other = _sha256(self._computed + head).digest()
            edited_digest = computed != stored.digest and other == stored.digest
            self._name_edit(edited_digest=edited_digest)
            computed = other if edited_digest else computed
        if computed != stored.digest:
            self._computed = computed
        self.digest = _bytes(stored.digest)

    def _name_edit(self, *, edited_digest: bool) -> None:
        """Says what was edited in the last entry, and goes on from what is right."""
        computed, self._computed = self._computed, None
        assert computed is not None, "head and digest of the last entry do not belong together"
        if edited_digest:
            self._finder.differ(self.seq, "entries", "digest", self.digest, computed)
            self.digest = computed
        else:
            self._finder.differ(self.seq, "entries", "head", f"of digest {computed.hex()[:16]}", self.digest)

    def _check_head(self, stored: StoredEntry, decoded: Head, row: tuple[int, int, int] | None) -> None:
        if decoded.seq != stored.seq or decoded.unit != stored.unit or decoded.kind != stored.kind:
            self._check_columns(stored, ("seq", "unit", "kind"), (stored.seq, stored.unit, stored.kind), decoded)
        if row is not None and row != (decoded.turn, decoded.call, decoded.at):
            self._check_columns(stored, ("turn", "call", "at"), row, decoded)
        if decoded.unit not in (self._unit, stored.seq) and self._unit:
            self._finder.differ(
                stored.seq, "entries", "head", f"in unit {decoded.unit}", f"in {self._unit} or a new one"
            )
        self._unit = decoded.unit
        role = role_of(decoded.kind, decoded.data)
        if role is not None:
            self.messages[stored.seq] = (role, decoded.turn, decoded.call)
        if decoded.commitments or stored.payloads:
            self._check_bodies(stored, decoded.commitments, 0 if role is not None else NO_MESSAGE)

    def _check_columns(self, stored: StoredEntry, names: Sequence[str], row: Sequence[Any], head: Any) -> None:
        for name, value in zip(names, row, strict=True):
            if value != getattr(head, name):
                self._finder.differ(stored.seq, "entries", name, value, getattr(head, name))

    def _check_bodies(self, stored: StoredEntry, commitments: Sequence[tuple[str, bytes]], message: int) -> None:
        """Each commitment has its row and each row its commitment. message is the number of the value that is one."""
        self.payloads += len(stored.payloads)
        if self._all_fit(stored, commitments):
            return
        rows = {i: (name, salt, body) for i, name, salt, body in stored.payloads}
        for i, (name, expected) in enumerate(commitments):
            row = rows.pop(i, None)
            if row is None:
                self._finder.differ(stored.seq, _table(i, message), "row", None, f"value {i}, {name}")
                continue
            if row[0] != name and _table(i, message) == "payloads":
                self._finder.differ(stored.seq, "payloads", "name", row[0], name)
            self._check_body(stored, _table(i, message), i, (row[1], row[2]), expected)
        for i, (name, _, _) in rows.items():
            self._finder.differ(stored.seq, _table(i, message), "row", f"value {i}, {name}", None)

    def _all_fit(self, stored: StoredEntry, commitments: Sequence[tuple[str, bytes]]) -> bool:
        """Whether every value stands in its place as it was written: nearly always, and quickly seen."""
        if len(stored.payloads) != len(commitments):
            return False
        for n, ((i, name, salt, body), (expected_name, expected)) in enumerate(
            zip(stored.payloads, commitments, strict=True)
        ):
            if i != n or name != expected_name or type(salt) is not bytes or type(body) is not str:
                return False
            if _sha256(salt + body.encode("utf-8", "surrogatepass")).digest() != expected:
                return False
        return True

    def _check_body(
        self, stored: StoredEntry, table: str, i: int, row: tuple[bytes | None, str | None], expected: bytes
    ) -> None:
        """Salt and body fit the commitment, or both are erased."""
        salt, body = row
        if salt is None and body is None:
            return
        field = "text" if table == "messages" else "body"
        if salt is None or body is None:
            half = "without its salt" if salt is None else "erased but for its salt"
            self._finder.differ(stored.seq, table, field, f"value {i} {half}", expected)
            return
        found = _sha256(_bytes(salt) + _bytes(body)).digest()
        if found != expected:
            self._finder.differ(stored.seq, table, field, f"value {i} of commitment {found.hex()[:16]}", expected)


def _table(i: int, message: int) -> str:
    return "messages" if i == message else "payloads"


def _bytes(value: object) -> bytes:
    """The bytes of a column, whatever was put there."""
    if type(value) is bytes:
        return value
    return (value if type(value) is str else str(value)).encode("utf-8", "surrogatepass")
