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


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a verification: how much was read, and what differs.

    differences are the first ones by log; more counts those beyond the limit.
    """

    logs: int
    entries: int
    payloads: int
    differences: tuple[Difference, ...] = ()
    more: int = 0

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
