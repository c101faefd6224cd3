"""Anchoring: the heads of a store written to a file of anchors, once they were found to go on from those before."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentos.clock import Clock, SystemClock
from agentos.errors import AnchorRefused
from agentos.history.anchors.anchor import FORMAT, Anchor, AnchoredHead, Anchors, moved_since
from agentos.history.anchors.check import STORE, check_gone, check_log, check_rolled_back, prove
from agentos.history.anchors.file import AnchorFile, anchor_file
from agentos.history.anchors.keys import AnchorKey
from agentos.history.heads import digest_of_heads
from agentos.history.report import Difference, Finder
from agentos.ids import LogId
from agentos.persistence.base import LogRow, Store

SHOWN_MAX = 3
"""How many differences a refusal names."""


class Anchored(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: the anchor, its digest as 64 hexadecimal digits, and how many heads of it moved.

    cut is how many bytes of an anchor that was never complete were taken from the end of the file.
    """

    anchor: Anchor
    digest: str
    moved: int
    cut: int = 0


async def anchor_store(
    store: Store, path: Path, *, key: AnchorKey | None = None, clock: Clock | None = None
) -> Anchored:
    """Appends where every log ends now. The store is only read, and may be at work.

    Errors: AnchorRefused when the store does not go on from the anchors that are there, when a proof among them is
    broken, and for an anchor without a key behind one with it; AnchorDamaged, which names the line; OSError; StoreError.
    """
    await store.writers()  # a store that cannot be read makes no file
    with anchor_file(path) as file:
        rows = {row.id: row for row in await store.logs()}
        writer = max((row.n for row in await store.writers()), default=0)
        if file.anchors.records:
            _check_proofs(file, key)
            await _check_goes_on(store, rows, writer, file)
        anchor = anchor_of(rows, writer, file.anchors, key, (clock or SystemClock()).now())
        file.append(anchor, key)
        digest = file.anchors.digest.hex()
        return Anchored(anchor=anchor, digest=digest, moved=len(anchor.moved), cut=file.cut)


def anchor_of(rows: Mapping[LogId, LogRow], writer: int, before: Anchors, key: AnchorKey | None, at: int) -> Anchor:
    """The next anchor behind these, of logs by their ids, as they are at a time in microseconds."""
    from agentos.persistence.sqlite.file import SCHEMA_VERSION  # all adapters have the same

    heads = [AnchoredHead(row.id, row.seq, row.digest.hex(), row.epoch) for row in rows.values()]
    return Anchor(
        n=len(before.records) + 1,
        format=FORMAT,
        at=at,
        schema=SCHEMA_VERSION,
        logs=len(rows),
        entries=sum(row.seq - (row.upto if row.forked_from is not None else 0) for row in rows.values()),
        heads=digest_of_heads(rows.values()),
        writer=writer,
        moved=tuple(moved_since(heads, before.heads)),
        key_id=key.id if key is not None else None,
    )


def _check_proofs(file: AnchorFile, key: AnchorKey | None) -> None:
    """Another key may follow, but not none; and what this key is said to have written, it has."""
    last = file.anchors.last.anchor
    if last.key_id is not None and key is None:
        raise AnchorRefused(
            f"{file.path}: {last} has a proof by key {last.key_id}, so the next one needs one: give --key"
        )
    proof = prove(file.anchors, [key] if key is not None else ())
    for difference in proof.differences:
        if difference.field == "mac":
            raise AnchorRefused(f"{file.path}: {difference}; 'agentos verify --anchor' tells more")


async def _check_goes_on(store: Store, rows: Mapping[LogId, LogRow], writer: int, file: AnchorFile) -> None:
    """No anchor is written on top of a store that was put back: the anchors so far would no longer tell of it."""
    found: list[Difference] = []
    for log, row in rows.items():
        finder, head = Finder(log), file.anchors.heads.get(log)
        if head is not None:
            check_log(row, await _passed(store, row, head), file.anchors, finder)
            found += finder.found
    gone: dict[str, Finder] = {}
    check_gone(rows, file.anchors, file.anchors.heads, lambda log: gone.setdefault(log, Finder(log)))
    whole = gone.setdefault(STORE, Finder(STORE))
    check_rolled_back(list(rows.values()), writer, file.anchors, whole)
    found += [difference for finder in gone.values() for difference in finder.found]
    if found:
        more = f"; and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        raise AnchorRefused(
            f"{store.url} does not go on from {file.anchors.last.anchor} in {file.path}:"
            f" {'; '.join(map(str, found[:SHOWN_MAX]))}{more}. 'agentos verify --anchor {file.path}' names all;"
            " if the store was put back on purpose, begin another file"
        )


async def _passed(store: Store, row: LogRow, head: AnchoredHead) -> dict[int, bytes]:
    """The digest at the last anchored seq of a log that went on."""
    if row.seq <= head.seq or not head.seq:
        return {}
    return {entry.seq: entry.digest for entry in await store.entries(row.id, head.seq - 1, head.seq)}
