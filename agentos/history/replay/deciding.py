"""One log decided again: the intake of each unit from its fed entries, one pass, and what comes out beside what is stored.

Slots, contexts and time are answered from the unit. Where a pass gives byte for byte what is stored, what it saw in the end
is the state after it, as it was for the journal; else the entries are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import msgspec

from agentos.components import ConversationState, ConversationStatus, Narrowing, TurnState
from agentos.errors import CodecError, StoreDamaged
from agentos.events.entry import ERASED, Draft, Registry, decode_head
from agentos.events.kinds import ConversationForked, Snapshot, TurnStarted
from agentos.history.reading import Contexts, named_by, pinned_by
from agentos.history.replay.compare import Leaves, differing, draft_leaves, entry_leaves, is_same
from agentos.history.replay.intake import TOLD_BY, intake_of
from agentos.history.replay.recorded import Pinned, Recorded, Unit, decoded
from agentos.history.replay.results import Divergence, Identical
from agentos.ids import CONVERSATION, Digest, Micros
from agentos.journal import Times, fold_unit
from agentos.journal.apply import forget
from agentos.journal.seal import snapshot_of
from agentos.persistence.base import LogRow, StoredEntry
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule, run_pass
from agentos.world import APART, Slice, View


class Rules(msgspec.Struct, frozen=True):
    """What decides, and its digest."""

    schedule: Schedule
    digest: Digest
    registry: Registry
    decisions_max: int


def rules_of(
    schedule: Schedule = SCHEDULE, registry: Registry | None = None, settings: Settings | None = None
) -> Rules:
    """The rules of a kernel with these systems, components and settings."""
    settings = settings or Settings()
    return Rules(schedule, schedule.digest(), registry or Registry(), settings.pass_decisions_max)


_LOOKED_AT = TOLD_BY | {ConversationForked.kind, TurnStarted.kind}
"""The kinds of entries that are decoded: what a pass decides by itself is compared as bytes."""


class Deciding:
    """One log, decided again: the state so far, and how much was compared.

    asked is with what the last pass asked for the contexts of its turns: depth and narrowings, in the order of the pins.
    """

    def __init__(self, row: LogRow, contexts: Contexts, rules: Rules) -> None:
        self.row, self.contexts, self._rules = row, contexts, rules
        self.slice, self._times = Slice(row.id), Times()
        self._head = self._entries = self._units = self._erased = 0
        self._any_erased = False
        self.other_rules: dict[Digest, None] = {}
        self.asked: list[tuple[int, tuple[Narrowing, ...]]] = []

    async def unit(self, stored: Sequence[StoredEntry]) -> Divergence | None:
        """Decides the next unit again and goes on to the state after it; None when it is the same."""
        try:
            unit = await self.read(stored)
        except (CodecError, StoreDamaged) as error:
            return self._broken(stored[0], error)
        view: View | None = None
        if self.is_own(unit):
            divergence, view = self.decided(unit)
            if divergence is not None and not self.rests_on_erased(unit):
                return divergence
            self._entries += len(stored)
            self._units += 1
            self._erased += divergence is not None
        return self.go_on(unit, view)

    async def read(self, stored: Sequence[StoredEntry]) -> Unit:
        """The next unit with what its turns pinned. Raises CodecError, StoreDamaged."""
        log, registry = self.row.id, self._rules.registry
        heads = [decode_head(one.head) for one in stored]
        looked_at = [
            decoded(log, one, head, registry)
            for one, head in zip(stored, heads, strict=True)
            if head.kind in _LOOKED_AT
        ]
        named = named_by(looked_at)
        unit = Unit(stored, heads, looked_at, pinned_by(looked_at) if named else ())
        for digest in named:
            context = await self.contexts.learn(digest)
            if context.rules != self._rules.digest:
                self.other_rules[context.rules] = None
        self._any_erased = self._any_erased or unit.has_erased
        return unit

    def is_own(self, unit: Unit) -> bool:
        """Whether the unit is this log's: what a fork shares is decided again in its parent."""
        return self.row.forked_from is None or unit.stored[0].seq > self.row.upto

    def decided(self, unit: Unit, pinned: Pinned | None = None) -> tuple[Divergence | None, View | None]:
        """The first difference of a pass over the unit's intake; without any, its view when it gave the very bytes.

        pinned gives the configurations that turns pinned, in the place of those that are stored.
        """
        oracle = Recorded(unit, pinned or self.contexts.__getitem__)
        try:
            view = self._pass(unit, oracle)
        except Exception as error:  # a log that follows no rule may lead a pass anywhere
            return self._broken(unit.stored[0], error), None
        same = len(view.drafts) == len(unit.stored) and view.first == unit.stored[0].seq
        if not (same and all(map(is_same, unit.stored, unit.heads, view.drafts))):
            for seq, (entry, draft) in enumerate(zip_longest(unit.stored, view.drafts), view.first):
                divergence = self._entry(seq, entry, draft)
                if divergence is not None:
                    return divergence, None
            same = False
        self.asked = oracle.asked
        return (self._turn_held_back(view) if oracle.asked_in_vain else None), view if same else None

    def tolerated(self, unit: Unit, pinned: Pinned, is_tolerated: Callable[[str], bool]) -> Divergence | None:
        """Decides the unit under other configurations, and goes on to what that comes to, where it is a difference of
        tolerated paths at most; else gives the first other one."""
        try:
            view = self._pass(unit, Recorded(unit, pinned))
        except Exception as error:  # what is configured otherwise may break a system
            return self._broken(unit.stored[0], error)
        for seq, (entry, draft) in enumerate(zip_longest(unit.stored, view.drafts), view.first):
            divergence = self._entry(seq, entry, draft, is_tolerated)
            if divergence is not None:
                return divergence
        self._head = unit.stored[-1].seq
        self._take_over(view)
        return None

    def go_on(self, unit: Unit, view: View | None) -> Divergence | None:
        """To the state after the unit, by the view of a pass that gave its very bytes, else by its entries."""
        self._head = unit.stored[-1].seq
        if view is not None and not self._any_erased:
            self._take_over(view)
            return None
        try:
            fold_unit(APART, self.slice, unit.entries(self.row.id, self._rules.registry), self._times)
        except Exception as error:  # what is stored follows no rule
            return self._broken(unit.stored[0], error)
        return None

    def _take_over(self, view: View) -> None:
        """What `journal.apply` does with a pass whose drafts were stored."""
        slice_ = self.slice
        APART.put_rows(slice_, view.over)
        slice_.transcript = view.transcript
        slice_.bodies.update(view.overlay)
        if view.turned:
            forget(APART, slice_, view.drafts)

    def _pass(self, unit: Unit, oracle: Recorded) -> View:
        conversation = self.slice.get(CONVERSATION, ConversationState)
        turn = conversation.open_turn if conversation is not None else 0
        state = self.slice.get(turn, TurnState) if turn else None
        intake = intake_of(unit.looked_at, state.requested if state is not None else 0)
        view = View(self.slice, self._head, Micros(unit.heads[0].at), intake, oracle)
        run_pass(view, self._rules.schedule, self._rules.decisions_max)
        if unit.heads[-1].kind == Snapshot.kind:
            view.add_snapshot(snapshot_of(view))
        return view

    def identical(self) -> Identical:
        return Identical(
            log=self.row.id,
            entries=self._entries,
            units=self._units,
            other_rules=tuple(self.other_rules),
            erased=self._erased,
        )

    def _broken(self, stored: StoredEntry, error: Exception) -> Divergence:
        """What is stored cannot be read or taken up, or deciding it again breaks."""
        return self._divergence(stored.seq, stored.kind, {}, {"error": f"{type(error).__name__}: {error}"})

    def _entry(
        self,
        seq: int,
        stored: StoredEntry | None,
        draft: Draft | None,
        is_tolerated: Callable[[str], bool] | None = None,
    ) -> Divergence | None:
        if stored is None:
            assert draft is not None, "one side has an entry"
            return self._divergence(seq, draft.data.kind, {}, draft_leaves(draft))
        if draft is None:
            return self._divergence(stored.seq, stored.kind, entry_leaves(stored), {})
        if stored.seq != seq:
            return self._divergence(stored.seq, stored.kind, {"seq": stored.seq}, {"seq": seq}, "seq")
        ignored = ("data.request",) if self._any_erased else ()
        was, is_ = differing(entry_leaves(stored), draft_leaves(draft), ignored)
        if is_tolerated is not None:
            was, is_ = ({path: side[path] for path in side if not is_tolerated(path)} for side in (was, is_))
        return self._divergence(seq, stored.kind, was, is_, next(iter({**was, **is_}))) if was or is_ else None

    def _turn_held_back(self, view: View) -> Divergence | None:
        """A turn would begin where none began. It is no divergence when inputs waited: there was no context to pin, or no
        place among the turns at once."""
        state = view.conversation
        if (
            state is not None
            and state.waiting
            and not state.open_turn
            and state.status is not ConversationStatus.PAUSED
        ):
            return None
        return self._divergence(view.next, TurnStarted.kind, {}, {"kind": TurnStarted.kind})

    def _divergence(self, seq: int, kind: str, stored: Leaves, produced: Leaves, field: str = "entry") -> Divergence:
        return Divergence(
            log=self.row.id,
            seq=seq,
            kind=kind,
            field=field,
            stored=stored,
            produced=produced,
            other_rules=tuple(self.other_rules),
        )

    def rests_on_erased(self, unit: Unit) -> bool:
        """Whether what was decided may rest on a body that is gone."""
        return unit.has_erased or any(value is ERASED for value in self.slice.bodies.values())
