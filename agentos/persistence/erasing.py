"""What the adapters share of erasing: where a batch is parted, and units without the texts that they once brought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from agentos.persistence.base import InboxRow, Unit


def parts_by_erasing(units: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    """The units in order, in parts of which only the last one may erase."""
    start = 0
    for end, unit in enumerate(units, 1):
        if unit.erases or end == len(units):
            yield units[start:end]
            start = end


def without_texts(unit: Unit, upto: int) -> Unit:
    """The unit as it reads once the values of entries up to this seq are erased; a copy."""
    return msgspec.structs.replace(
        unit,
        payloads=[(*row[:3], None, None) if row[0] <= upto else row for row in unit.payloads],
        messages=[(*row[:4], None, None) if row[0] <= upto else row for row in unit.messages],
    )


def without_posts(unit: Unit, log: str) -> Unit:
    """The unit with what it posts to this log emptied; a copy."""
    return msgspec.structs.replace(unit, posts=[emptied(row) if row.log == log else row for row in unit.posts])


def emptied(row: InboxRow) -> InboxRow:
    """An item of an inbox whose text is gone and whose key is remembered."""
    return msgspec.structs.replace(row, salt=b"", body="")
