"""The passes of one tick: each ready conversation decides over its own view, and what it decided is sealed as a unit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from agentos.components import ConversationState, TurnConfig
from agentos.events.intake import Item
from agentos.events.kinds import TurnStarted
from agentos.ids import CONVERSATION, LogId, Micros, Name, SaltSource
from agentos.journal import Sealed, seal
from agentos.kernel.alarms import Alarms
from agentos.kernel.flight import Host, InFlight, in_line
from agentos.kernel.loaded import Loaded
from agentos.kernel.raised import Raised
from agentos.kernel.waiters import Waiters
from agentos.settings import Settings
from agentos.systems import Schedule, run_pass
from agentos.world import Oracle, View

_log = logging.getLogger(__name__)
NO_FORM = Name("pass")
"""Stands for the systems of a pass whose decisions cannot be written down."""


class Passing:
    """Makes passes. It keeps nothing of them: what one took and did not decide on is the conversation's intake again."""

    def __init__(
        self,
        schedule: Schedule,
        settings: Settings,
        oracle: Oracle,
        host: Host,
        salts: SaltSource,
        alarms: Alarms,
        waiters: Waiters,
        raised: Raised,
    ) -> None:
        self._schedule, self._oracle, self._host = schedule, oracle, host
        self._salts, self._alarms, self._waiters, self._raised = salts, alarms, waiters, raised
        self._decisions_max, self._snapshot_entries = settings.pass_decisions_max, settings.snapshot_entries

    def run(self, ready: Mapping[LogId, Loaded], now: Micros, writer: int) -> list[InFlight]:
        """One pass for each; those that decided something are on their way."""
        flight: list[InFlight] = []
        for loaded in ready.values():
            running = self._pass(loaded, now, writer)
            if running is not None:
                flight.append(running)
        return flight

    def _pass(self, loaded: Loaded, now: Micros, writer: int) -> InFlight | None:
        intake, loaded.intake = loaded.intake, []
        view = View(loaded.slice, loaded.head.row.seq, now, intake, self._oracle)
        try:
            failures = run_pass(view, self._schedule, self._decisions_max)
        except Exception as error:  # not even that a system raised could be decided
            self._has_no_form(loaded, view, error, ())
            return None
        taken = [(item, key) for item in view.taken if (key := loaded.key_of(item)) is not None] if loaded.keys else []
        if not view.drafts and not view.posts and not taken:
            loaded.intake = view.intake
            loaded.tell_refused(view)
            self._waiters.dropped(view)
            if failures:
                self._raised.follow(loaded, view, failures)
                self._leave_unbegun(loaded)
            return None
        try:
            sealed = seal(view, loaded.head, writer, loaded.times, self._salts, self._snapshot_entries)
        except Exception as error:
            self._has_no_form(loaded, view, error, taken)
            return None
        sealed.unit.taken = [key for _, key in taken]
        if view.turned:
            self._define(sealed, view)
        if view.turned or loaded.alarms:
            self._alarms.complete(sealed, view, loaded)
        loaded.flying = True
        return InFlight(loaded, view, sealed, taken, failures)

    def _leave_unbegun(self, loaded: Loaded) -> None:
        """Of a conversation that could not begin nothing is left."""
        if loaded.head.new and not loaded.intake:
            self._host.lost(loaded)

    def _has_no_form(self, loaded: Loaded, view: View, error: Exception, taken: Sequence[tuple[Item, str]]) -> None:
        """A system decided what cannot be written down. Its conversation pays: what this pass took is dropped, and who
        waits is told; an open turn, which may have waited for just that, goes on as after a crash; the tick goes on."""
        _log.error("a unit of %s cannot be written: %s", loaded.log, type(error).__name__)
        for call in (*view.slots, *in_line(view)):
            self._host.give_slot_back(view.log, call)
        loaded.intake = view.intake
        loaded.tell_refused(view)
        self._waiters.fail(loaded, view.taken, error)
        state = loaded.slice.get(CONVERSATION, ConversationState)
        if state is not None and state.open_turn:
            loaded.keys.update({id(item): key for item, key in taken})  # they lie in the inbox, and come again
            self._host.broke(loaded)
        else:
            self._raised.never_began(loaded, view, NO_FORM)
            kept = {id(item) for item in loaded.intake}
            loaded.keys.update({id(item): key for item, key in taken if id(item) in kept})
            self._leave_unbegun(loaded)

    def _define(self, sealed: Sealed, view: View) -> None:
        """Definitions that this unit is the first to name."""
        unit = sealed.unit
        for draft in sealed.drafts:
            if type(draft.data) is TurnStarted:
                rows = self._host.definitions(view.get(draft.turn, TurnConfig).context)
                if rows:
                    unit.definitions = [*unit.definitions, *rows]
