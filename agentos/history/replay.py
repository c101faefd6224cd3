"""Strict replay: decides a log again from what it recorded, and compares unit by unit. No model and no tool is called.

Each unit's intake is rebuilt from its fed entries; slots, contexts and time are answered from the unit. What the
systems then decide has to be what is stored: kind, turn, call, by, cause, data, changes and private bodies, and at the
end of a unit the snapshot, if one was taken. Digests and commitments are left to `verify`. An erased body equals
anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import zip_longest

import msgspec

from agentos.components import AgentContext, CallConfig, ConversationState, ConversationStatus, Narrowing, TurnState
from agentos.errors import CodecError, StoreDamaged
from agentos.events.entry import ERASED, Draft, Entry, Registry
from agentos.events.kinds import CallFinished, CallSource, CallStarted, EntryData, Snapshot, TurnStarted
from agentos.history.compare import Leaves, differing, draft_leaves, entry_leaves, is_same
from agentos.history.intake import intake_of
from agentos.history.reading import Contexts, conversation_row, decoded, pinned_by, stored_units
from agentos.history.results import Divergence, Identical, Replayed, Skipped
from agentos.ids import CONVERSATION, AgentId, Digest, Kind, LogId
from agentos.journal import Times, fold_unit
from agentos.journal.seal import snapshot_of
from agentos.persistence.base import LogRow, Store, StoredEntry
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule, run_pass
from agentos.world import View, World


async def replay_all(
    store: Store,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[Replayed]:
    """Replays every log, oldest first; see `replay_log`. Logs of administration are skipped, and said to be."""
    rules = _rules(schedule, registry, settings)
    contexts, world = Contexts(store), World()
    for row in await store.logs():
        yield await _replay(store, row, world, contexts, rules)


async def replay_log(
    store: Store,
    log: str,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> Replayed:
    """Decides one log again. A kernel's own systems, components and pass_decisions_max have to be given here too.

    The entries that a fork shares are its parent's, and are replayed there.
    Errors: UnknownConversation, StoreUnavailable.
    """
    row = await conversation_row(store, log)
    return await _replay(store, row, World(), Contexts(store), _rules(schedule, registry, settings))


class _Rules(msgspec.Struct, frozen=True):
    """What decides, and its digest."""

    schedule: Schedule
    digest: Digest
    registry: Registry
    decisions_max: int


def _rules(schedule: Schedule, registry: Registry | None, settings: Settings | None) -> _Rules:
    settings = settings or Settings()
    return _Rules(schedule, schedule.digest(), registry or Registry(), settings.pass_decisions_max)


async def _replay(store: Store, row: LogRow, world: World, contexts: Contexts, rules: _Rules) -> Replayed:
    if row.kind != Kind.CONVERSATION.value:
        return Skipped(log=row.id, kind=row.kind)
    try:
        deciding = _Deciding(row, world, contexts, rules)
        async for stored in stored_units(store, row.id, upto=row.seq):
            divergence = await deciding.unit(stored)
            if divergence is not None:
                return divergence
        return deciding.identical()
    finally:
        world.unload(row.id)


class _Recorded:
    """Answers what a pass may ask from the unit that it once made."""

    def __init__(self, contexts: Contexts, entries: Sequence[Entry]) -> None:
        self._contexts = contexts
        self._started = {entry.call for entry in entries if type(entry.data) is CallStarted}
        self._deadlocked = {entry.call for entry in entries if _is_deadlock(entry.data)}
        self._pins = pinned_by(entries)
        self.asked_in_vain = False

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return call in self._started

    def deadlock(self, view: View, call: int) -> bool:
        return call in self._deadlocked

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        """Where none is recorded, none was to be had: asking for it raised then, and raises now."""
        if not self._pins:
            self.asked_in_vain = True
            raise LookupError("no context is recorded here")
        return self._pins.pop(0)

    def pinned(self, digest: Digest) -> AgentContext:
        return self._contexts[digest]


def _is_deadlock(data: EntryData) -> bool:
    return isinstance(data, CallFinished) and data.call_kind == "deadlock" and data.source is CallSource.DECIDED


class _Deciding:
    """One log, decided again: the state so far, and how much was compared."""

    def __init__(self, row: LogRow, world: World, contexts: Contexts, rules: _Rules) -> None:
        self._row, self._world, self._contexts, self._rules = row, world, contexts, rules
        self._slice, self._times = world.load(row.id), Times()
        self._head = self._entries = self._units = self._erased = 0
        self._any_erased = False
        self._other_rules: dict[Digest, None] = {}

    async def unit(self, stored: Sequence[StoredEntry]) -> Divergence | None:
        """Decides the next unit again and goes on to the state after it; None when it is the same."""
        try:
            entries = decoded(self._row.id, stored, self._rules.registry)
            for digest in pinned_by(entries):
                context = await self._contexts.learn(digest)
                if context.rules != self._rules.digest:
                    self._other_rules[context.rules] = None
        except (CodecError, StoreDamaged) as error:
            return self._broken(stored[0], error)
        return self._unit(stored, entries)

    def _unit(self, stored: Sequence[StoredEntry], entries: Sequence[Entry]) -> Divergence | None:
        self._any_erased = self._any_erased or _has_erased(entries)
        if self._row.forked_from is None or stored[0].seq > self._row.upto:
            divergence = self._compared(stored, entries)
            if divergence is not None and not self._rests_on_erased(entries):
                return divergence
            self._entries += len(stored)
            self._units += 1
            self._erased += divergence is not None
        self._head = stored[-1].seq
        try:
            fold_unit(self._world, self._slice, entries, self._times)
        except Exception as error:  # what is stored follows no rule
            return self._broken(stored[0], error)
        return None

    def identical(self) -> Identical:
        return Identical(
            log=self._row.id,
            entries=self._entries,
            units=self._units,
            other_rules=tuple(self._other_rules),
            erased=self._erased,
        )

    def _broken(self, stored: StoredEntry, error: Exception) -> Divergence:
        """What is stored cannot be read or taken up, or deciding it again breaks."""
        return self._divergence(stored.seq, stored.kind, {}, {"error": f"{type(error).__name__}: {error}"})

    def _compared(self, stored: Sequence[StoredEntry], entries: Sequence[Entry]) -> Divergence | None:
        oracle = _Recorded(self._contexts, entries)
        try:
            view = self._pass(entries, oracle)
        except Exception as error:  # a log that follows no rule may lead a pass anywhere
            return self._broken(stored[0], error)
        for seq, (entry, draft) in enumerate(zip_longest(stored, view.drafts), view.first):
            divergence = self._entry(seq, entry, draft)
            if divergence is not None:
                return divergence
        return self._turn_held_back(view) if oracle.asked_in_vain else None

    def _pass(self, entries: Sequence[Entry], oracle: _Recorded) -> View:
        conversation = self._slice.get(CONVERSATION, ConversationState)
        turn = conversation.open_turn if conversation is not None else 0
        state = self._slice.get(turn, TurnState) if turn else None
        intake = intake_of(entries, state.requested if state is not None else 0)
        view = View(self._slice, self._head, entries[0].at, intake, oracle)
        run_pass(view, self._rules.schedule, self._rules.decisions_max)
        if type(entries[-1].data) is Snapshot:
            view.add_snapshot(snapshot_of(view))
        return view

    def _entry(self, seq: int, stored: StoredEntry | None, draft: Draft | None) -> Divergence | None:
        if stored is None:
            assert draft is not None, "one side has an entry"
            return self._divergence(seq, draft.data.kind, {}, draft_leaves(draft))
        if draft is None:
            return self._divergence(stored.seq, stored.kind, entry_leaves(stored), {})
        if stored.seq != seq:
            return self._divergence(stored.seq, stored.kind, {"seq": stored.seq}, {"seq": seq}, "seq")
        if is_same(stored, draft):
            return None
        ignored = ("data.request",) if self._any_erased else ()
        was, is_ = differing(entry_leaves(stored), draft_leaves(draft), ignored)
        return self._divergence(seq, stored.kind, was, is_, next(iter({**was, **is_}))) if was or is_ else None

    def _turn_held_back(self, view: View) -> Divergence | None:
        """A turn would begin where none began. It is no divergence when inputs waited: there was no context to pin."""
        state = view.conversation
        if state is not None and state.waiting and not state.open_turn and state.status is ConversationStatus.OPEN:
            return None
        return self._divergence(view.next, TurnStarted.kind, {}, {"kind": TurnStarted.kind})

    def _divergence(self, seq: int, kind: str, stored: Leaves, produced: Leaves, field: str = "entry") -> Divergence:
        return Divergence(
            log=self._row.id,
            seq=seq,
            kind=kind,
            field=field,
            stored=stored,
            produced=produced,
            other_rules=tuple(self._other_rules),
        )

    def _rests_on_erased(self, entries: Sequence[Entry]) -> bool:
        return _has_erased(entries) or any(value is ERASED for value in self._slice.bodies.values())


def _has_erased(entries: Sequence[Entry]) -> bool:
    return any(value is ERASED for entry in entries for _, value in entry.private)
