"""A store against its anchors: every log has to go on from where it was anchored.

What is found is what the store by itself cannot tell: logs that end earlier or are gone, chains made anew, and a whole
store put back to an earlier day. New logs, forks, and what was erased are no difference: digests are over heads alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from agentos.history.anchors.anchor import Anchors, Point, Record
from agentos.history.anchors.keys import AnchorKey
from agentos.history.heads import digest_of_heads
from agentos.history.report import Difference, Finder, Proof
from agentos.persistence.base import LogRow

FinderOf = Callable[[str], Finder]

STORE, ANCHORS = "store", "anchors"
"""The places of what no single log is to blame for."""


def check_log(row: LogRow, passed: Mapping[int, bytes], anchors: Anchors, finder: Finder) -> None:
    """One log. passed has the digests that stand at the anchored seqs, as far as there are any.

    The first anchor that the log has another digest at is named, since all behind it differ too.
    """
    points = anchors.points.get(row.id, ())
    for point in points:
        found = row.digest if point.seq == row.seq else passed.get(point.seq)
        if found is not None and found != point.digest:
            said = f"{point.digest.hex()[:16]}, by {anchors.named(point.n)}"
            finder.differ(point.seq, "entries", "digest", found.hex()[:16], said)
            break
    if not points:
        return
    if row.seq < points[-1].seq:
        first = next(point for point in points if point.seq > row.seq)
        said = f"{points[-1].seq} or more, by {anchors.named(points[-1].n)}; cut off since {anchors.named(first.n)}"
        finder.differ(row.seq + 1, "logs", "seq", row.seq, said)
    elif row.epoch < (epoch := anchors.heads[row.id].epoch):
        finder.differ(0, "logs", "epoch", row.epoch, f"{epoch} or more, by {anchors.named(points[-1].n)}")


def check_gone(there: Collection[str], anchors: Anchors, wanted: Iterable[str], finder_of: FinderOf) -> None:
    """Logs that were anchored and are not there."""
    for log in wanted:
        if log not in there:
            last = anchors.points[log][-1]
            finder_of(log).differ(last.seq, "logs", "row", None, f"a log, by {anchors.named(last.n)}")


def check_rolled_back(rows: Collection[LogRow], writer: int, anchors: Anchors, finder: Finder) -> None:
    """The whole store: whether it stands where an earlier anchor has it, or counts writers that came before.

    rows are all logs, writer the highest number of a writer.
    """
    last = anchors.last.anchor
    if writer < last.writer:
        finder.differ(0, "writers", "n", writer, f"{last.writer} or more, by {last}")
    if all(row.id in anchors.heads and row.seq <= anchors.heads[row.id].seq for row in rows):
        heads = digest_of_heads(rows)
        older = next((one.anchor for one in reversed(anchors.records) if one.anchor.heads == heads), None)
        if older is not None and heads != last.heads:
            finder.differ(0, "logs", "heads", f"rolled back to {older}", f"those of {last}, or later")


def wanted_seqs(log: str, anchors: Anchors | None) -> frozenset[int]:
    """The seqs at which a log was anchored."""
    points: Sequence[Point] = anchors.points.get(log, ()) if anchors is not None else ()
    return frozenset(point.seq for point in points)


def prove(anchors: Anchors, keys: Sequence[AnchorKey] = ()) -> Proof:
    """What the anchors prove with these keys, and what is wrong with their own proofs.

    A proof covers all anchors before it. So the last anchor has to carry one by a key that was given; and once one did,
    none may come without.
    """
    by_id = {key.id: key for key in keys}
    finder = Finder(ANCHORS)
    proven, keyed, broken = 0, 0, False
    for record in anchors.records:
        if record.mac is None:
            if keyed:
                finder.differ(record.anchor.n, "anchor", "mac", None, f"a proof, as anchor {keyed} has one")
            continue
        keyed = record.anchor.n
        key = by_id.get(record.anchor.key_id or "")
        if key is None:
            continue
        if key.proves(record.digest, record.mac):
            proven = record.anchor.n
        else:
            broken = True
            said = f"one by key {key.id}: its holder did not write this"
            finder.differ(record.anchor.n, "anchor", "mac", f"{record.mac[:16]}, no proof", said)
    last = anchors.last
    if keys and not broken and proven < last.anchor.n:
        stands = f"key {last.anchor.key_id}" if last.anchor.key_id else None
        finder.differ(last.anchor.n, "anchor", "key_id", stands, f"a key that is given: {', '.join(sorted(by_id))}")
    return _proof(last, proven, bool(keys), tuple(finder.found), _ids(anchors))


def _proof(last: Record, proven: int, given: bool, found: tuple[Difference, ...], ids: tuple[str, ...]) -> Proof:
    return Proof(
        anchor=last.anchor.n,
        at=last.anchor.at,
        named=str(last.anchor),
        digest=last.digest.hex(),
        logs=last.anchor.logs,
        entries=last.anchor.entries,
        proven=proven,
        key_given=given,
        key_ids=ids,
        differences=found,
    )


def _ids(anchors: Anchors) -> tuple[str, ...]:
    """The keys of the anchors, in the order in which they came."""
    return tuple(dict.fromkeys(one.anchor.key_id for one in anchors.records if one.anchor.key_id))
