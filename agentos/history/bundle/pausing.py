"""What an import adds of its own: one unit with which a conversation that has work left to do is paused.

The unit is decided by the systems as any other, so that replay finds it as it is. Together with `agentos.kernel.held` it
keeps every kernel from going on with what came from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentos.components import (
    AgentContext,
    CallConfig,
    ConversationState,
    ConversationStatus,
    Narrowing,
    TurnConfig,
    TurnState,
)
from agentos.errors import ImportRefused
from agentos.events.entry import Registry
from agentos.events.intake import Control, ControlItem, Item
from agentos.events.kinds import Snapshot
from agentos.history.bundle.answers import Answers
from agentos.history.verify.waiting import times_waited_for
from agentos.ids import CONVERSATION, AgentId, Digest, LogId, Micros, SaltSource
from agentos.journal import Head, Times, fold, seal
from agentos.kernel.held import IMPORTER
from agentos.persistence.base import LogRow, StoredEntry, Unit, WakeupRow
from agentos.settings import Settings
from agentos.systems import SCHEDULE, run_pass
from agentos.world import Slice, View

Pinned = Callable[[Digest], AgentContext]


class Pausing:
    """Pauses conversations. pinned gives contexts by their digest; writer is the number of this process in the store;
    answers has what a conversation that waits for its children is to find in its inbox."""

    def __init__(
        self,
        path: str,
        writer: int,
        now: Micros,
        pinned: Pinned,
        registry: Registry,
        salts: SaltSource,
        settings: Settings,
        answers: Answers,
    ) -> None:
        self._path, self._writer, self._now, self._pinned = path, writer, now, pinned
        self._registry, self._salts, self._settings, self._answers = registry, salts, settings, answers

    def unit(self, row: LogRow, entries: Sequence[StoredEntry]) -> Unit | None:
        """The unit that comes behind all these, those included which a fork shares; None when nothing is left to do.

        row is that of the log at its last entry. Raises ImportRefused.
        """
        slice_, times = fold(row.id, entries, self._registry)
        state = slice_.get(CONVERSATION, ConversationState)
        if state is None or not (state.open_turn or state.waiting):
            return None
        if state.status is ConversationStatus.CLOSED:
            if not state.open_turn:
                return None
            raise ImportRefused(
                self._path, f"{row.id} is closed with an open turn, and cannot be paused; export it when that has ended"
            )
        unit = self._sealed(row, slice_, times, state.status, _last_snapshot(entries))
        unit.wakeups = _times_of(row.id, slice_, state.open_turn)
        unit.posts = self._answers.waited_for(row.id, slice_)
        return unit

    def _sealed(self, row: LogRow, slice_: Slice, times: Times, status: ConversationStatus, snapshot: int) -> Unit:
        """A pass that is told to pause, and decides nothing else. One that was paused before is paused anew, by import."""
        told = (Control.UNPAUSE, Control.PAUSE) if status is ConversationStatus.PAUSED else (Control.PAUSE,)
        intake: list[Item] = [ControlItem(control=control, by=IMPORTER) for control in told]
        view = View(slice_, row.seq, self._now, intake, _Asleep(self._pinned))
        for failure in run_pass(view, SCHEDULE, self._settings.pass_decisions_max):
            raise failure.error
        if view.intake or view.posts or view.alarms or len(view.drafts) != len(told):
            raise ImportRefused(self._path, f"{row.id} does not stand still: its last unit left something undecided")
        head = Head(row=row, snapshot=snapshot)
        return seal(view, head, self._writer, times, self._salts, self._settings.snapshot_entries).unit


class _Asleep:
    """What a pass may ask, answered so that nothing begins."""

    def __init__(self, pinned: Pinned) -> None:
        self._pinned = pinned

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return False

    def deadlock(self, view: View, call: int) -> None:
        return None

    def begins(self, view: View) -> bool:
        return False

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        raise AssertionError("no turn begins in a conversation that is paused")

    def pinned(self, digest: Digest) -> AgentContext:
        return self._pinned(digest)


def _times_of(log: LogId, slice_: Slice, turn: int) -> list[WakeupRow]:
    """The times that the open turn waits for, made of the log: those of a bundle's store are not taken."""
    config, state = slice_.get(turn, TurnConfig), slice_.get(turn, TurnState)
    if config is None or state is None:
        return []
    due = times_waited_for(state.phase, state.retry_at, config.deadline_at)
    return [WakeupRow(log=log, reason=reason, turn=turn, call=0, due_at=due_at) for reason, due_at in due.items()]


def _last_snapshot(entries: Sequence[StoredEntry]) -> int:
    return next((entry.seq for entry in reversed(entries) if entry.kind == Snapshot.kind), 0)
