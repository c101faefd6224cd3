"""What becomes of each log of a bundle in a store: it is new, it goes on, or it is there; or it cannot come in at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from agentos.errors import ImportRefused
from agentos.history.bundle.manifest import NOBODY, LogPart
from agentos.persistence.base import LogRow, Store, StoredEntry


class Place(Enum):
    """new: the store has no such log. goes_on: it has a beginning of it, of nobody. there: it has all of it, or more."""

    NEW = "new"
    GOES_ON = "goes on"
    THERE = "there"


class Placed(NamedTuple):
    """A log with its place, and its row in the store, None when it is new."""

    part: LogPart
    place: Place
    row: LogRow | None


async def place_of(store: Store, path: str, part: LogPart, entries: Sequence[StoredEntry]) -> Placed:
    """entries are those of the log itself, as the bundle has them. Raises ImportRefused, StoreError."""
    row = await store.log(part.id)
    if row is None:
        return Placed(part, Place.NEW, None)
    if (row.forked_from, row.upto) != (part.forked_from, part.upto):
        raise _other(store, path, part, row.upto)
    if row.seq >= part.seq:
        await _check_has(store, path, part)
        return Placed(part, Place.THERE, row)
    _check_goes_on(store, path, part, row, {entry.seq: entry.digest for entry in entries})
    if row.owner != NOBODY:
        raise ImportRefused(
            path,
            f"{part.id} was worked with in {store.url}, where it is at seq {row.seq} and here at {part.seq};"
            " import into a new store (--store)",
        )
    return Placed(part, Place.GOES_ON, row)


async def _check_has(store: Store, path: str, part: LogPart) -> None:
    """The store's log is this one up to its end here."""
    for there in await store.entries(part.id, part.seq - 1, part.seq):
        if there.digest.hex() == part.digest:
            return
    raise _other(store, path, part, part.seq)


def _check_goes_on(store: Store, path: str, part: LogPart, row: LogRow, digests: Mapping[int, bytes]) -> None:
    if digests.get(row.seq) != row.digest:
        raise _other(store, path, part, row.seq)


def _other(store: Store, path: str, part: LogPart, seq: int) -> ImportRefused:
    return ImportRefused(
        path,
        f"{store.url} has another {part.id}: they differ at seq {seq}, or before; import into a new store (--store)",
    )
