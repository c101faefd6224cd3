"""What verify finds: differences that name log, seq, table and field, and counts of what was read."""

from __future__ import annotations

import hashlib

import msgspec

SHOWN_CHARS = 80

Shown = str | int | None
"""A value as a difference shows it: a number, a short word, or the digest of what may be private."""


class Difference(msgspec.Struct, frozen=True):
    """Something stored that is not what the log says.

    seq is that of the entry, turn or call, 0 where there is none. table and field name the column; field is `row` for a
    row that is missing, or that should not be there. No private text is shown: bodies stand as digests.
    """

    log: str
    seq: int
    table: str
    field: str
    stored: Shown
    expected: Shown

    def __str__(self) -> str:
        place = f"{self.log} seq {self.seq}" if self.seq else self.log
        return f"{place}: {self.table}.{self.field} is {_say(self.stored)}, should be {_say(self.expected)}"


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of anchors proves: the last anchor, with its digest, and up to which one a given key has proven it.

    named is the anchor for people; logs and entries are those of the store then. key_ids are the keys of all anchors, in
    the order in which they came. proven is 0 when no key was given, or none of these wrote an anchor.
    """

    anchor: int
    at: int
    named: str
    digest: str
    logs: int
    entries: int
    proven: int
    key_given: bool
    key_ids: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def keyed(self) -> bool:
        """Whether the last anchor, and so every one, was proven."""
        return self.proven == self.anchor and not self.differences

    def __str__(self) -> str:
        upto = f"anchored up to {self.named}: {self.entries} entries in {self.logs} logs, digest {self.digest[:16]}"
        if self.keyed:
            return f"{upto}; proven by key {self.key_ids[-1]}"
        if self.proven:
            return f"{upto}; proven up to anchor {self.proven} and no further"
        if self.key_given:
            return f"{upto}; not proven by any key that was given"
        if self.key_ids:
            return f"{upto}; unkeyed check only: give the key {self.key_ids[-1]} with --key"
        return f"{upto}; unkeyed check only: no anchor has a proof by a key"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a verification: how much was read, and what differs.

    differences are the first ones by log; more counts those beyond the limit. proof is what anchors prove, None without any.
    """

    logs: int
    entries: int
    payloads: int
    differences: tuple[Difference, ...] = ()
    more: int = 0
    proof: Proof | None = None

    @property
    def ok(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        read = f"{self.entries} entries and {self.payloads} payloads in {self.logs} logs"
        return f"ok: {read}" if self.ok else f"{len(self.differences) + self.more} differences in {read}"


class Finder:
    """Collects the differences of one log."""

    def __init__(self, log: str) -> None:
        self.log = log
        self.found: list[Difference] = []

    def differ(self, seq: int, table: str, field: str, stored: object, expected: object) -> None:
        self.found.append(Difference(self.log, seq, table, field, shown(stored), shown(expected)))


def shown(value: object) -> Shown:
    """A value in a form that is short and carries no control characters; bytes by the beginning of their digits."""
    if value is None or type(value) is int:
        return value
    if isinstance(value, bytes):
        return value.hex()[:16]
    text = str(value)
    if not text.isprintable():
        text = ascii(text)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def fingerprint(body: str | None) -> str | None:
    """Stands for a body that is not to be shown."""
    if body is None:
        return None
    return f"{len(body)} characters, sha256 {hashlib.sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _say(value: Shown) -> str:
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)
