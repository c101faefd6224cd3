"""Which logs go into a bundle, and how much of each: a conversation with all below it, and what a fork shares."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from agentos.errors import StoreDamaged, UnknownConversation
from agentos.events.kinds import CallStarted
from agentos.history.bundle.kinship import begun_in
from agentos.ids import Kind, log_and_seq
from agentos.persistence.base import LogRow, Store


class Chosen(NamedTuple):
    """A log whose entries go up to upto; prefix tells that it has more, which do not."""

    row: LogRow
    upto: int

    @property
    def prefix(self) -> bool:
        return self.upto < self.row.seq

    @property
    def shared(self) -> int:
        return self.row.upto if self.row.forked_from is not None else 0


async def choose_from(store: Store, rows: Mapping[str, LogRow], conversation: str | None) -> list[Chosen]:
    """As `choose`. Of a log that is cut, the entries tell which children were begun before the cut: a call that waited there,
    for a person or a slot, began its child later. Errors: those of choose; StoreError."""
    begun: dict[str, int] = {}
    looked_at: set[str] = set()
    while True:
        chosen = choose(rows, conversation, store.url, begun)
        cut = [one.row.id for one in chosen if one.prefix and one.row.id not in looked_at]
        if not cut:
            return chosen
        looked_at.update(cut)
        for log in cut:
            begun |= await _begun_at(store, log)


async def _begun_at(store: Store, log: str) -> dict[str, int]:
    """By child, the seq of the entry that began it first."""
    entries = await store.entries(log, kinds=(CallStarted.kind,))
    found = [(child, entry.seq) for entry in entries for child in frozenset[str]().union(*begun_in([entry]).values())]
    return dict(reversed(found))


def choose(
    rows: Mapping[str, LogRow], conversation: str | None, url: str, begun: Mapping[str, int] = MappingProxyType({})
) -> list[Chosen]:
    """The logs of a bundle, those that others go on from or hang below first. Without a conversation, all. begun tells of
    children at which seq of their parent they were begun, where that is known.

    With one: all that was begun below it, also below the entries that it shares as a fork, and of the logs that it shares
    them with so much as it does. An erased log goes whole, with the receipt at its end: no text is left in it.
    Errors: UnknownConversation; StoreDamaged for a log that is missing.
    """
    cuts = {log: row.seq for log, row in rows.items()}
    if conversation is not None:
        row = rows.get(conversation)
        if row is None or row.kind != Kind.CONVERSATION.value:
            raise UnknownConversation(conversation[:80])
        cuts = _cuts(rows, row, url, begun)
    return [Chosen(rows[log], cuts[log]) for log in _parents_first(rows, cuts, url)]


def _cuts(rows: Mapping[str, LogRow], first: LogRow, url: str, begun: Mapping[str, int]) -> dict[str, int]:
    """The last seq of each log that goes into the bundle."""
    below = _below(rows)
    cuts = {str(first.id): first.seq}
    waiting = [first]
    while waiting:
        row = waiting.pop()
        children = below.get(row.id, ())
        wanted = [(child, child.seq) for child in children if begun.get(child.id, _call_seq(child)) <= cuts[row.id]]
        if row.forked_from is not None:
            wanted.append(_shared_with(rows, row, url))
        for other, upto in wanted:
            if upto > cuts.get(other.id, -1):
                cuts[other.id] = upto
                waiting.append(other)
    return cuts


def _shared_with(rows: Mapping[str, LogRow], row: LogRow, url: str) -> tuple[LogRow, int]:
    parent = rows.get(row.forked_from or "")
    if parent is None:
        raise StoreDamaged(url, f"{row.id} forks from {row.forked_from}, which is not there")
    if parent.erased_at is not None:
        return parent, parent.seq
    return parent, max(row.upto, parent.upto if parent.forked_from is not None else 0)


def _below(rows: Mapping[str, LogRow]) -> dict[str, list[LogRow]]:
    """The conversations that were begun by a call of each."""
    below: dict[str, list[LogRow]] = {}
    for row in rows.values():
        if row.parent_call is not None and row.forked_from is None:
            below.setdefault(log_and_seq(row.parent_call)[0], []).append(row)
    return below


def _call_seq(child: LogRow) -> int:
    return log_and_seq(child.parent_call or "")[1]


def _parents_first(rows: Mapping[str, LogRow], cuts: Mapping[str, int], url: str) -> Sequence[str]:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for log in cuts:
        row = rows[log]
        above = [row.forked_from, log_and_seq(row.parent_call)[0] if row.parent_call is not None else None]
        if row.forked_from is not None and row.forked_from not in cuts:
            raise StoreDamaged(url, f"{log} forks from {row.forked_from}, which is not there")
        sorter.add(log, *(one for one in above if one is not None and one in cuts))
    try:
        return tuple(sorter.static_order())
    except graphlib.CycleError as error:
        raise StoreDamaged(url, f"{' and '.join(dict.fromkeys(error.args[1]))} hang below one another") from None
