"""What children of a bundle had answered when it was exported, for parents whose logs do not have it yet.

The end of a child's turn is posted to the inbox of the parent, and inboxes are in no bundle: a parent that was cut off before
it took the post would wait for ever. It is made again from the child's log, where all of it stands, and lies in the inbox
of a parent that is paused: nothing runs by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from agentos import codec
from agentos.components import (
    CallState,
    CallStatus,
    ConversationConfig,
    ConversationState,
    Outcome,
    TurnConfig,
    TurnState,
)
from agentos.events.entry import ERASED, Entry, Registry
from agentos.events.intake import POST_KIND, ChildEnded
from agentos.events.kinds import TurnCancelling, TurnFinished
from agentos.ids import CONVERSATION, CallId, LogId, Name, SaltSource, call_id
from agentos.journal import decode_units
from agentos.persistence.base import InboxRow, StoredEntry
from agentos.world import Slice

C = TypeVar("C")
EntriesOf = Callable[[str], Sequence[StoredEntry]]
"""The entries of a log of the bundle, shared ones included; none of one that is not in it."""


class Answers:
    """Makes the posts anew that a parent still waits for."""

    def __init__(self, entries_of: EntriesOf, registry: Registry, salts: SaltSource) -> None:
        self._entries_of, self._registry, self._salts = entries_of, registry, salts

    def waited_for(self, log: LogId, slice_: Slice) -> list[InboxRow]:
        """The ends of children that open calls of a log began. slice_ is the log at its end. Raises CodecError."""
        found: list[InboxRow] = []
        for call, components in sorted(slice_.rows.items()):
            state = components.get(CallState)
            if isinstance(state, CallState) and state.status is CallStatus.STARTED and state.child:
                end = self._end(state.child, call_id(log, call))
                found += [self._row(log, end)] if end is not None else []
        return found

    def _end(self, child: str, cause: CallId) -> ChildEnded | None:
        """How the child answered this call; None while it did not."""
        entries = self._entries_of(child)
        known: dict[int, Entry] = {}
        for unit, stored in _with_stored(LogId(child), entries, self._registry):
            known |= {entry.seq: entry for entry in unit}
            for entry in unit:
                end = _end_in(entry, known, cause)
                if end is not None:
                    return msgspec.structs.replace(end, child_head=Name(stored.digest.hex()))
        return None

    def _row(self, log: LogId, end: ChildEnded) -> InboxRow:
        body = codec.encode_body(msgspec.to_builtins(end))
        return InboxRow(log=log, key=f"end:{end.call}", kind=POST_KIND[ChildEnded], salt=self._salts.salt(), body=body)


def _with_stored(
    log: LogId, entries: Sequence[StoredEntry], registry: Registry
) -> list[tuple[list[Entry], StoredEntry]]:
    """Units, each with its last entry as it is stored."""
    by_seq = {entry.seq: entry for entry in entries}
    return [(unit, by_seq[unit[-1].seq]) for unit in decode_units(log, entries, registry)]


def _end_in(entry: Entry, known: dict[int, Entry], cause: CallId) -> ChildEnded | None:
    """What an entry tells this call, as `settle` and `admit` have it told."""
    if isinstance(entry.data, TurnCancelling) and str(entry.data.call or "") == str(cause):
        return ChildEnded(call=cause, outcome=Outcome.CANCELLED, outcome_name=entry.data.reason, text="cancelled")
    if (
        not isinstance(entry.data, TurnFinished)
        or cause not in _changed(known[entry.turn], entry.turn, TurnConfig).causes
    ):
        return None
    config = next(value for one in known.values() for _, value in one.changes if isinstance(value, ConversationConfig))
    state = _changed(entry, entry.turn, TurnState)
    assert state.outcome is not None
    used = _changed(entry, CONVERSATION, ConversationState).children_used
    return ChildEnded(
        call=cause,
        outcome=state.outcome,
        outcome_name=state.outcome_name,
        text=_answer(state, known, config.slug),
        children_used=used + 1 if config.parent_call == cause else 0,
    )


def _answer(state: TurnState, known: dict[int, Entry], slug: str) -> str:
    if state.answer:
        text = known[state.answer].private[0][1]
        return "(erased)" if text is ERASED else str(text)
    assert state.outcome is not None
    name = f"({state.outcome_name})" if state.outcome_name else ""
    return f"agent {slug} ended without an answer: {state.outcome.value}{name}"


def _changed(entry: Entry, entity: int, type_: type[C]) -> C:
    return next(value for one, value in entry.changes if one == entity and isinstance(value, type_))
