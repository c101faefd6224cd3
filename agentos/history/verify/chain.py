"""The chain of one log, checked over raw stored bytes: seqs, units, digests, and the commitments to private bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agentos.errors import CodecError
from agentos.events.entry import Head, decode_head, seed_digest
from agentos.events.kinds import MESSAGE_ROLES, role_of
from agentos.history.report import Difference, Finder
from agentos.history.verify.values import NO_MESSAGE, RECEIPT, Values, bytes_of
from agentos.persistence.base import StoredEntry

Columns = Mapping[int, tuple[int, int, int]]
"""turn, call and at of each row of `entries`, by seq: what stands in the head too."""

UNKNOWN = b""
"""In the place of a digest that nobody can tell: after a gap."""

_sha256 = hashlib.sha256


class Chained(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of one chain found.

    erased_at is the time of the log's last receipt, in microseconds, None without one.
    """

    entries: int
    payloads: int
    erased_at: int | None
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        return not self.differences


def check_chain(
    log: str,
    entries: Iterable[StoredEntry],
    *,
    seq: int,
    digest: bytes,
    shared: int = 0,
    before: bytes | None = None,
    redacted: bool = False,
) -> Chained:
    """Checks the entries of one log from any source, as of a file, with no store and no tables beside them.

    entries are those that are the log's own, in order; each is looked at once and none is kept. seq and digest are the
    head that the log is said to have. A fork shares entries of another log: shared is the seq of the last of these, and
    before is its digest, as that other log has it.

    Found are missing, moved and exchanged entries, heads and digests that do not belong together, values that are not
    what a head commits to, values that are gone without a receipt (an entry `payload.erased` of the same log), and
    values that stand behind one. With redacted, a value without salt and body, or without a row, is no difference; one
    that is there is checked. Whether units can be folded is not looked at.

    Errors: none; what cannot be read at all is a difference.
    """
    finder = Finder(log)
    chain = Chain(shared, before if before is not None else seed_digest(log), finder, redacted=redacted)
    for stored in entries:
        chain.add((stored,), {})
        chain.messages.clear()
    chain.end(seq, digest)
    return Chained(
        entries=chain.entries,
        payloads=chain.values.count,
        erased_at=chain.values.erased_at,
        differences=tuple(finder.found),
    )


class Chain:
    """Takes the entries of one log in order.

    An edit is one difference: after an entry whose head and digest do not belong together, what the next one builds on
    tells which of the two was edited, and the chain goes on from there. messages collects role, turn and call of each
    entry that is one; gaps tells whether entries are missing. passed has the digests that stand at the wanted seqs.
    values are what the entries commit to; redacted is said of them there.
    """

    def __init__(
        self, seq: int, digest: bytes, finder: Finder, wanted: Collection[int] = (), *, redacted: bool = False
    ) -> None:
        self.seq, self.digest = seq, digest
        self.passed: dict[int, bytes] = {seq: digest} if seq in wanted else {}
        self._wanted = wanted
        self.entries = 0
        self.values = Values(finder, redacted=redacted)
        self.messages: dict[int, tuple[str, int, int]] = {}
        self.gaps = False
        self._finder = finder
        self._unit = 0
        self._computed: bytes | None = None

    def add(self, unit: Sequence[StoredEntry], columns: Columns) -> list[Head]:
        """Checks the next entries, and the columns beside their heads. Gives the heads of those that have one."""
        heads: list[Head] = []
        get, check, wanted = columns.get, self._check_head, self._wanted
        for stored in unit:
            seq = stored.seq
            if seq != self.seq + 1 and not self._skip_to(seq):
                continue
            text = stored.head
            head = text.encode() if type(text) is str else self._no_text(seq, text)
            if self._computed is None and _sha256(self.digest + head).digest() == stored.digest:
                self.digest = stored.digest  # as nearly always
            else:
                self._link(stored, head)
            self.seq = seq
            if wanted and seq in wanted:
                self.passed[seq] = self.digest
            try:
                decoded = decode_head(head)
            except CodecError:
                self._finder.differ(seq, "entries", "head", "not the head of an entry", "one")
                continue
            check(stored, decoded, get(seq))
            heads.append(decoded)
        self.entries += len(unit)
        return heads

    def end(self, seq: int, digest: bytes) -> None:
        """The row of the log names its last entry, and what is missing by now has no receipt."""
        self.values.end()
        if self._computed is not None:
            self._name_edit(edited_digest=digest == self._computed)
        if seq > self.seq:
            self._missing(self.seq + 1, seq)
        elif seq != self.seq:
            self._finder.differ(0, "logs", "seq", seq, self.seq)
        elif digest != self.digest and self.digest is not UNKNOWN:
            self._finder.differ(0, "logs", "digest", digest, self.digest)

    def _skip_to(self, seq: int) -> bool:
        """Whether entries are missing before this one; else it is one too many, and the chain goes on without it."""
        if type(seq) is not int or seq <= self.seq:
            self.gaps = True
            self._finder.differ(self.seq, "entries", "row", f"another one behind it, of seq {seq}", None)
            return False
        self._missing(self.seq + 1, seq - 1)
        self.digest, self._unit = UNKNOWN, 0
        return True

    def _no_text(self, seq: int, head: object) -> bytes:
        self._finder.differ(seq, "entries", "head", f"of type {type(head).__name__}", "text")
        return bytes_of(head)

    def _missing(self, first: int, last: int) -> None:
        self.gaps = True
        for seq in range(first, min(last, first + 9) + 1):
            self._finder.differ(seq, "entries", "row", None, "an entry")
        if last > first + 9:
            self._finder.differ(last, "entries", "row", None, f"entries from {first + 10} on")

    def _link(self, stored: StoredEntry, head: bytes) -> None:
        if self.digest is UNKNOWN:
            self.digest = bytes_of(stored.digest)
            return
        computed = _sha256(self.digest + head).digest()
        if self._computed is not None:
            other = _sha256(self._computed + head).digest()
            edited_digest = computed != stored.digest and other == stored.digest
            self._name_edit(edited_digest=edited_digest)
            computed = other if edited_digest else computed
        if computed != stored.digest:
            self._computed = computed
        self.digest = bytes_of(stored.digest)

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
        seq, unit, kind = stored.seq, decoded.unit, decoded.kind
        if decoded.seq != seq or unit != stored.unit or kind != stored.kind:
            self._check_columns(stored, ("seq", "unit", "kind"), (seq, stored.unit, stored.kind), decoded)
        if row is not None and row != (decoded.turn, decoded.call, decoded.at):
            self._check_columns(stored, ("turn", "call", "at"), row, decoded)
        if unit != self._unit:
            if self._unit and unit != seq:
                self._finder.differ(seq, "entries", "head", f"in unit {unit}", f"in {self._unit} or a new one")
            self._unit = unit
        role = role_of(kind, decoded.data) if kind in MESSAGE_ROLES else None
        if role is not None:
            self.messages[seq] = (role, decoded.turn, decoded.call)
        if decoded.commitments or stored.payloads:
            self.values.check(stored, decoded.commitments, 0 if role is not None else NO_MESSAGE)
        if kind == RECEIPT:
            self.values.receipt(seq, decoded.at, decoded.data)

    def _check_columns(self, stored: StoredEntry, names: Sequence[str], row: Sequence[Any], head: Any) -> None:
        for name, value in zip(names, row, strict=True):
            if value != getattr(head, name):
                self._finder.differ(stored.seq, "entries", name, value, getattr(head, name))
