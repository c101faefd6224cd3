"""A conversation with all its children decided again, each by itself, and what ties them compared.

The end of a delegated call names the head of the child's log as it was then: the digest of the unit in which the child's
turn ended. A child that was edited, cut off, exchanged or lost since has no such unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import CallState
from agentos.events.entry import Registry, decode_head
from agentos.events.kinds import CallFinished, ChildLate
from agentos.history.reading import Contexts, conversation_row, stored_units
from agentos.history.replay.deciding import Deciding, Rules, rules_of
from agentos.history.replay.results import Divergence, Replayed
from agentos.ids import Kind, LogId, log_and_seq
from agentos.persistence.base import LogRow, Store, StoredEntry
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule

_ENDS = frozenset({CallFinished.kind, ChildLate.kind})


class Tie(msgspec.Struct, frozen=True):
    """What an entry of a parent says of a child: the head that the child's log had, 64 hexadecimal digits."""

    seq: int
    kind: str
    call: int
    head: str


async def replay_family(
    store: Store,
    conversation: str,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> list[Replayed]:
    """The results of a conversation and all below it, parents before their children.

    A parent that is identical but for a head which its child does not have is a Divergence at `data.child_head`.
    Errors: UnknownConversation, StoreUnavailable.
    """
    rules, contexts = rules_of(schedule, registry, settings), Contexts(store)
    decided = [await _decided(store, row, contexts, rules) for row in await family_of(store, conversation)]
    ends = {one.row.id: one.ends for one in decided}
    return [one.result if isinstance(one.result, Divergence) else _tied(one, ends) for one in decided]


async def family_of(store: Store, conversation: str) -> list[LogRow]:
    """A conversation and all that were begun below it, parents before their children. Raises UnknownConversation."""
    first = await conversation_row(store, conversation)
    below: dict[str, list[LogRow]] = {}
    for row in await store.logs(Kind.CONVERSATION.value):
        if row.parent_call is not None and row.forked_from is None:
            below.setdefault(log_and_seq(row.parent_call)[0], []).append(row)
    found, seen = [first], {first.id}
    for row in found:
        children = [child for child in below.get(row.id, ()) if child.id not in seen]
        found += children
        seen.update(child.id for child in children)
    return found


class _Decided(msgspec.Struct):
    """One log of the family: its result, the digests at the ends of its units, and what it says of its children."""

    row: LogRow
    result: Replayed
    ends: set[str]
    ties: list[tuple[LogId | None, Tie]]


async def _decided(store: Store, row: LogRow, contexts: Contexts, rules: Rules) -> _Decided:
    deciding = Deciding(row, contexts, rules)
    ends: set[str] = set()
    ties: list[tuple[LogId | None, Tie]] = []
    async for stored in stored_units(store, row.id, upto=row.seq):
        divergence = await deciding.unit(stored)
        if divergence is not None:
            return _Decided(row, divergence, ends, ties)
        ends.add(stored[-1].digest.hex())
        if row.forked_from is None or stored[0].seq > row.upto:
            ties += _ties_in(stored)
    return _Decided(row, deciding.identical(), ends, ties)


def _ties_in(stored: Sequence[StoredEntry]) -> list[tuple[LogId | None, Tie]]:
    """The ends of children in a unit, each with the child where the entry names it."""
    ties: list[tuple[LogId | None, Tie]] = []
    for one in stored:
        if one.kind in _ENDS:
            head = decode_head(one.head)
            said = (head.data or {}).get("child_head")
            if said:
                child = _child_in(head.changes)
                ties.append((child, Tie(one.seq, one.kind, head.call, str(said))))
    return ties


def _child_in(changes: Sequence[tuple[int, str, Any]]) -> LogId | None:
    found = next((value.get("child") for _, name, value in changes if name == CallState.component), None)
    return LogId(found) if found else None


def _tied(one: _Decided, ends: dict[LogId, set[str]]) -> Replayed:
    """The result, or the first child that has not the head which this log names. A late end does not name its child."""
    for child, tie in one.ties:
        candidates = [child] if child is not None else [*ends]
        if not any(tie.head in ends.get(candidate, ()) for candidate in candidates):
            return _cut(one, child, tie, there=child is None or child in ends)
    return one.result


def _cut(one: _Decided, child: LogId | None, tie: Tie, *, there: bool) -> Divergence:
    name = child or "a child"
    why = f"{name} has no unit that ends with it" if there else f"{name} is not there"
    return Divergence(
        log=one.row.id,
        seq=tie.seq,
        kind=tie.kind,
        field="data.child_head",
        stored={"data.child_head": tie.head},
        produced={"data.child_head": why},
        other_rules=getattr(one.result, "other_rules", ()),
    )
