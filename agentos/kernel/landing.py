"""What follows the verdict on a unit: it is applied and everybody hears of it, or its pass was as if it had not been."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agentos.components import CallStatus, TurnConfig
from agentos.errors import SystemRaised
from agentos.events.entry import Draft
from agentos.events.intake import Erase
from agentos.events.kinds import (
    ApprovalDecided,
    ApprovalRequested,
    CallDoubted,
    CallFinished,
    CallNested,
    CallResolved,
    CallStarted,
    ConversationClosed,
    InputReceived,
    PayloadErased,
    Snapshot,
    TurnFinished,
    TurnStarted,
)
from agentos.ids import Name
from agentos.journal import apply, posted_item
from agentos.kernel.alarms import Alarms
from agentos.kernel.flight import Host, InFlight, in_line
from agentos.kernel.loaded import Loaded
from agentos.kernel.raised import Raised
from agentos.kernel.waiters import Waiters
from agentos.world import View, World

_log = logging.getLogger(__name__)
TICK = Name("tick")
"""Stands for what follows the systems, where that raised."""


class Landing:
    """Brings units that were on their way to their end, each in one go: nothing waits in between.

    make_ready puts a conversation among those of the next tick. starting: effects begin; not so while the kernel closes.
    """

    def __init__(
        self,
        world: World,
        host: Host,
        alarms: Alarms,
        waiters: Waiters,
        raised: Raised,
        make_ready: Callable[[Loaded], None],
    ) -> None:
        self._world, self._host, self._alarms, self._waiters = world, host, alarms, waiters
        self._raised = raised
        self._make_ready = make_ready
        self.starting = True
        self.passed: Callable[[Loaded], None] | None = None
        """Hears of each unit that is no longer on its way, where turns are bounded."""
        self._on: dict[type, Callable[[Loaded, View, int, Draft], None]] = {
            InputReceived: self._input_stored,
            TurnStarted: self._turn_started,
            TurnFinished: self._turn_finished,
            CallNested: self._call_nested,
            CallStarted: self._call_started,
            CallFinished: self._call_finished,
            CallDoubted: self._call_doubted,
            CallResolved: self._person_heard,
            ApprovalRequested: self._person_awaited,
            ApprovalDecided: self._person_heard,
            ConversationClosed: self._conversation_closed,
            PayloadErased: self._payload_erased,
        }

    def stored(self, running: InFlight) -> None:
        """It is part of the log from here on: waiters, the World, and all others learn of it."""
        loaded, view, sealed = running.loaded, running.view, running.sealed
        row, unit = loaded.head.row, sealed.unit
        row.seq, row.digest, loaded.head.new = unit.seq, unit.digest, False
        if loaded.begun is not None:
            self._waiters.begun(loaded)
        if sealed.drafts and type(sealed.drafts[-1].data) is Snapshot:
            loaded.head.snapshot = unit.seq
        if view.intake:
            loaded.intake[:0] = view.intake
        seq, on = sealed.first, self._on
        for draft in sealed.drafts:
            tell = on.get(type(draft.data))
            if tell is not None:
                tell(loaded, view, seq, draft)
            seq += 1
        if loaded.inner is not None:
            loaded.inner.refused(view.taken)
        apply(self._world, loaded.slice, view, sealed, loaded.times)
        self._spread(running)
        self._down(loaded)
        if unit.erases:
            is_heard = any(type(draft.fed) is Erase and draft.fed.ticket for draft in sealed.drafts)
            self._host.erased(loaded, sealed.at, is_heard=is_heard)

    def _spread(self, running: InFlight) -> None:
        """What others have of a stored unit: slots, timers, watchers, other logs, effects, and who waits."""
        loaded, view, sealed = running.loaded, running.view, running.sealed
        unit = sealed.unit
        for call in view.slots:
            self._host.give_slot_back(view.log, call)
        if unit.woken or unit.wakeups:
            self._alarms.set(loaded, unit)
        self._host.landed(loaded, sealed.drafts, sealed.first, sealed.at)
        if view.posts:
            self._send(running)
        if self.starting:
            for effect in view.effects:
                self._host.start_effect(effect)
        if running.taken:
            self._host.taken(view.log, [key for _, key in running.taken])
        if self._waiters.tickets:
            self._waiters.dropped(view)
        if running.failures:
            self._raised.follow(loaded, view, running.failures)

    def _send(self, running: InFlight) -> None:
        """What it posted to other logs is stored there already; it arrives once."""
        for post in running.view.posts:
            self._host.route(post.log, posted_item(post, running.sealed.unit.digest), post.key)

    def _down(self, loaded: Loaded) -> None:
        """Its unit is no longer on its way."""
        loaded.flying = False
        if self.passed is not None:
            self.passed(loaded)
        if loaded.again:
            loaded.again = False
            self._make_ready(loaded)

    def broke(self, running: InFlight, error: Exception) -> None:
        """What is in memory may not be what the log says."""
        loaded = running.loaded
        _log.error("%s: what was stored of it could not be taken over: %s", loaded.log, type(error).__name__)
        self._waiters.fail(loaded, running.view.taken, SystemRaised(TICK, error))
        self._host.broke(loaded)
        self._send(running)

    def lost(self, running: InFlight) -> None:
        """Another writer owns the log: whatever we thought of it is void."""
        self._undo(running)
        self._host.lost(running.loaded)

    def not_stored(self, running: InFlight) -> None:
        """As if the pass had not been, but for the senders who were told that it failed."""
        self._undo(running)
        loaded = running.loaded
        if loaded.head.new and not loaded.intake:
            self._host.lost(loaded)
        else:
            self._make_ready(loaded)

    def _undo(self, running: InFlight) -> None:
        """Takes a pass back: its slots and places in line, and its intake but for what somebody was told of already."""
        loaded, view = running.loaded, running.view
        for call in (*view.slots, *in_line(view)):
            self._host.give_slot_back(view.log, call)
        items = [*view.taken, *view.intake]
        loaded.intake[:0] = [item for item in items if not self._waiters.is_told(loaded, item)]
        loaded.keys.update({id(item): key for item, key in running.taken})
        self._down(loaded)

    # Kinds that somebody hears of before they are applied

    def _input_stored(self, loaded: Loaded, view: View, seq: int, draft: Draft) -> None:
        self._waiters.input_stored(loaded, seq, draft)
        if view.turn and view.turn < seq:
            self._host.turn_awaited(view)

    def _conversation_closed(self, loaded: Loaded, _view: View, _seq: int, _draft: Draft) -> None:
        self._host.conversation_closed(loaded)

    def _payload_erased(self, _loaded: Loaded, _view: View, seq: int, draft: Draft) -> None:
        self._waiters.erased(seq, draft)

    def _turn_started(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        self._host.turn_started(view.get(draft.turn, TurnConfig).context)

    def _turn_finished(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        self._waiters.turn_finished(loaded, view, draft.turn)
        self._host.turn_finished(loaded, draft.turn)

    def _call_nested(self, loaded: Loaded, _view: View, seq: int, draft: Draft) -> None:
        if loaded.inner is not None:
            loaded.inner.nested(seq, draft)

    def _call_started(self, _loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        view.slots = [call for call in view.slots if call != draft.call]

    def _call_finished(self, loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        data = draft.data
        if loaded.inner is not None:
            loaded.inner.finished(draft)
        self._host.person_heard(view.log, draft.call)
        if type(data) is not CallFinished or data.status is not CallStatus.LOST:
            self._host.give_slot_back(view.log, draft.call)

    def _call_doubted(self, _loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        if isinstance(draft.data, CallDoubted) and draft.data.probed:
            self._host.person_awaited(view, draft.call)
        self._host.give_slot_back(view.log, draft.call)

    def _person_awaited(self, _loaded: Loaded, view: View, _seq: int, draft: Draft) -> None:
        self._host.person_awaited(view, draft.call)

    def _person_heard(self, loaded: Loaded, _view: View, _seq: int, draft: Draft) -> None:
        self._host.person_heard(loaded.log, draft.call)
