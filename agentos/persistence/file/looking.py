"""Answers from what the image knows and from the lines it points to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import cast

import msgspec

from agentos.persistence.base import LogRow, StoredEntry
from agentos.persistence.file.image import Image
from agentos.persistence.file.lines import Whole, decode_whole
from agentos.persistence.file.segments import Place
from agentos.persistence.file.units import stored_entries

Part = tuple[Place, int]
"""Where a unit stands, and the last seq of it that counts."""


def find_log(image: Image, log: str) -> LogRow | None:
    held = image.state.logs.get(log)
    return None if held is None else msgspec.structs.replace(held.row)


def find_parts(image: Image, log: str, after: int, upto: int, limit: int | None) -> list[Part]:
    """The units of a log that have entries with after < seq <= upto, the first of them up to limit. Raises StoreDamaged."""
    return list(islice(_parts(image, log, after, upto), limit))


def _parts(image: Image, log: str, after: int, upto: int) -> Iterator[Part]:
    for held, end in image.line(log, upto):
        for place in held.units(after, min(upto, end)):
            yield place, min(upto, end)


def read_entries(
    image: Image, parts: Iterable[Part], after: int, limit: int | None, kinds: Collection[str] | None
) -> list[StoredEntry]:
    """Raises StoreDamaged for a line that is not as it was written."""
    found: list[StoredEntry] = []
    for place, end in parts:
        if limit is not None and len(found) >= limit:
            break
        entries = _entries_of(image, place)
        found += [entry for entry in entries if after < entry.seq <= end and (kinds is None or entry.kind in kinds)]
    return found if limit is None else found[:limit]


def _entries_of(image: Image, place: Place) -> list[StoredEntry]:
    """Those of a unit; an erase counts as soon as its unit is read, whatever this line still says."""
    line = _read_unit(image, place)
    entries = stored_entries(line)
    erased_upto = image.state.logs[line.log].erased_upto
    for entry in entries:
        if entry.seq <= erased_upto:
            entry.payloads = [(i, name, None, None) for i, name, _, _ in entry.payloads]
    return entries


def last_snapshot(image: Image, log: str, upto: int) -> int:
    for held, end in reversed(image.state.line(log, image.url)):
        if seq := held.last_snapshot(min(upto, end)):
            return seq
    return 0


def find_digests(image: Image, after: str, limit: int) -> list[str]:
    return sorted(digest for digest in image.definitions if digest > after)[:limit]


def read_definitions(image: Image, digests: Sequence[str]) -> list[tuple[str, str, str]]:
    """digest, kind and body of those that are there, in order. A unit that brings many is read once."""
    known = image.definitions
    places = sorted((known[digest], digest) for digest in digests if digest in known)
    found: list[tuple[str, str, str]] = []
    for place, group in groupby(places, key=lambda item: item[0]):
        wanted = {digest for _, digest in group}
        found += [definition for definition in _read_unit(image, place).definitions if definition[0] in wanted]
    return sorted(found)


def _read_unit(image: Image, place: Place) -> Whole:
    return cast(Whole, decode_whole(image.read(place)))
