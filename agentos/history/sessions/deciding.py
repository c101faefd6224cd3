"""Units decided from what a session recorded: the systems run as ever, and every question has its answer already."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentos import codec
from agentos.components import AgentContext, CallConfig, Component, Narrowing
from agentos.events.entry import digest_of_body, seed_digest
from agentos.events.intake import Item
from agentos.events.kinds import Snapshot
from agentos.history.copy.rebuilding import NOBODY
from agentos.ids import AgentId, Digest, Kind, LogId, Micros, SaltSource
from agentos.journal import Head, Times, apply, seal
from agentos.persistence.base import LogRow, Unit
from agentos.settings import Settings
from agentos.systems import SCHEDULE, run_pass
from agentos.world import APART, Slice, View


class Deciding:
    """A log that grows unit by unit, apart from any World. units are those so far, none of them stored.

    Effects lead nowhere: what they would bring is fed.
    """

    def __init__(self, log: LogId, writer: int, salts: SaltSource, settings: Settings) -> None:
        row = LogRow(
            id=log, kind=Kind.CONVERSATION.value, owner=NOBODY, epoch=1, seq=0, digest=seed_digest(log), root=log
        )
        self.units: list[Unit] = []
        self._context = Digest("")
        self._slice, self._head, self._times = Slice(log), Head(row=row, new=True), Times()
        self._writer, self._salts, self._settings = writer, salts, settings
        self._pinned: AgentContext | None = None
        self._contexts: dict[Digest, AgentContext] = {}
        self._bodies: dict[Digest, str] = {}
        self._defined: set[Digest] = set()

    def pin(self, context: AgentContext) -> None:
        """The next turn pins this."""
        if context is self._pinned:
            return
        body = codec.encode_body(msgspec.to_builtins(context))
        self._pinned, self._context = context, digest_of_body(body)
        self._contexts[self._context], self._bodies[self._context] = context, body

    def rows(self, entity: int) -> Mapping[type[Component], Component]:
        """The components of the conversation (0), of its open turn or of a call, by type."""
        return self._slice.rows.get(entity, {})

    def feed(self, at: Micros, *items: Item) -> None:
        """One unit with these items, all of which it has to take. Raises SystemRaised."""
        row = self._head.row
        view = View(self._slice, row.seq, at, list(items), self)
        for failure in run_pass(view, SCHEDULE, self._settings.pass_decisions_max):
            raise failure.error
        assert not view.intake and not view.posts and not view.alarms, "an import has no loose ends"
        sealed = seal(view, self._head, self._writer, self._times, self._salts, self._settings.snapshot_entries)
        unit = sealed.unit
        if unit.create is not None:
            unit.create = msgspec.structs.replace(row)
        if view.turned:
            self._define(unit)
        self.units.append(unit)
        row.seq, row.digest, self._head.new = unit.seq, unit.digest, False
        if type(sealed.drafts[-1].data) is Snapshot:
            self._head.snapshot = unit.seq
        apply(APART, self._slice, view, sealed, self._times)

    def _define(self, unit: Unit) -> None:
        """The context that the open turn pinned goes with the unit in which the first turn names it."""
        digest = self._context
        if digest not in self._defined:
            self._defined.add(digest)
            unit.definitions = [(digest, "context", self._bodies[digest])]

    # What a pass asks: see agentos.world.Oracle

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return True

    def deadlock(self, view: View, call: int) -> None:
        return None

    def begins(self, view: View) -> bool:
        return True

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        return self._context

    def pinned(self, digest: Digest) -> AgentContext:
        return self._contexts[digest]
