"""Reads off one kernel what is open and who has it: its resources, and the slots of its toolboxes, which are some too."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from agentos.clock import Clock
from agentos.components import Access, CallConfig, ConversationConfig, Pattern, ToolboxSharing
from agentos.ids import Kind, LogId, Micros, Name, ResourceId, call_id, hashed_id
from agentos.kernel.limiting import PROGRAM, Limiting
from agentos.kernel.lsof import OpenResource, ResourceUser
from agentos.kernel.services import LiveServices
from agentos.kernel.top import ResourceUse
from agentos.resources import Slots, SlotStatistics
from agentos.resources.account import Account, Place, setting_of
from agentos.resources.borrowing import Borrowing, Caller
from agentos.resources.bounds import KIND, BoundUse, Ledger
from agentos.resources.fairness import Party
from agentos.resources.registry import Resources
from agentos.resources.rows import ResourceRow
from agentos.world import World

SLOTS = "slots"
"""The kind of resource that the slots of a toolbox are."""
SLOT, RESOURCE, BOUND = "slot", "resource", "bound"
"""What a place in line is for."""
_PATTERNS = {
    ToolboxSharing.READ_WRITE: Pattern.READ_WRITE,
    ToolboxSharing.POOL: Pattern.POOL,
    ToolboxSharing.STATELESS: Pattern.STATELESS,
}
_WHOLE = frozenset({ToolboxSharing.EXCLUSIVE, ToolboxSharing.READ_WRITE, ToolboxSharing.POOL})
"""Sharings with one room for all; a stateless toolbox has none, and nobody counts who is in it."""


class OpenResources:
    """Reads them off what lives in one kernel, and knows since when each call has its slot, or waits for it."""

    def __init__(
        self,
        world: World,
        resources: Resources,
        slots: Slots,
        services: LiveServices,
        limiting: Limiting,
        clock: Clock,
    ) -> None:
        self._world, self._resources, self._slots = world, resources, slots
        self._services, self._limiting, self._clock = services, limiting, clock
        self.ledger: Ledger | None = None
        """Where what resources take is bounded."""
        self._slot_times: dict[Caller, tuple[bool, float]] = {}

    def slot_changed(self, caller: Caller) -> None:
        """A call came in, stands in line, or is gone."""
        holds = self._slots.holds(caller)
        if not holds and not self._slots.waits_for(caller):
            self._slot_times.pop(caller, None)
            return
        known = self._slot_times.get(caller)
        if known is None or known[0] is not holds:
            self._slot_times[caller] = (holds, self._clock.monotonic())

    def all(self) -> list[OpenResource]:
        """Every one that is open, the slots last, and the bounds of what all these take that are in use."""
        bounds = self.ledger.uses() if self.ledger is not None else ()
        return [*map(self._of_row, self._resources.rows()), *self.of_slots(), *map(self._of_bound, bounds)]

    def uses(self) -> list[ResourceUse]:
        """How much of each is in use; it costs nothing for each user."""
        return [*map(_use_of_row, self._resources.rows()), *map(_use_of_slots, self._slot_rooms())]

    def in_line(self) -> Iterator[tuple[str, str]]:
        """The conversation of each that waits, empty for the program, and whether for a slot or another resource."""
        for room in self._slots.statistics():
            yield from ((log, SLOT) for log, _ in room.waiters)
        for used in self.ledger.uses() if self.ledger is not None else ():
            yield from ((place.caller[0] if place.caller is not None else "", BOUND) for place in used.waiters)
        for row in self._resources.rows():
            yield from ((one.by.caller[0] if one.by.caller is not None else "", RESOURCE) for one in row.waiters)

    def one(self, id_: ResourceId) -> OpenResource | None:
        """A resource that is none of slots; None when it is open no more."""
        row = self._resources.row(id_)
        return self._of_row(row) if row is not None else None

    def of_slots(self) -> list[OpenResource]:
        """The slots of every open toolbox that has a bound; of one that has a room for each agent or conversation, the
        rooms that are used."""
        return [self._of_used(room) for room in self._slot_rooms()]

    def _slot_rooms(self) -> list[SlotStatistics]:
        used = self._slots.statistics()
        named = {room.toolbox for room in used}
        free = [
            SlotStatistics(name, sharing, size, (), ())
            for name, (sharing, size) in sorted(self._slots.toolboxes().items())
            if name not in named and sharing in _WHOLE
        ]
        return [*used, *free]

    def _of_row(self, row: ResourceRow) -> OpenResource:
        return OpenResource(
            id=row.id,
            kind=row.kind,
            name=row.name,
            scope=row.scope,
            pattern=row.pattern,
            size=row.size,
            since=row.since,
            holders=tuple(self._borrower(one) for one in row.holders),
            waiters=tuple(self._borrower(one) for one in row.waiters),
            handles=row.handles,
            takes=row.takes,
        )

    def _of_used(self, used: SlotStatistics) -> OpenResource:
        return msgspec.structs.replace(
            _slots_of(used.toolbox, used.key, used.sharing, used.size),
            holders=tuple(self._caller(one, used) for one in used.holders),
            waiters=tuple(self._caller(one, used) for one in used.waiters),
        )

    def _of_bound(self, used: BoundUse) -> OpenResource:
        """A bound, with those that count against it, and those that wait to."""
        setting = setting_of(used.scope, used.what)
        return OpenResource(
            id=ResourceId(hashed_id(Kind.RESOURCE, KIND, setting, used.name)),
            kind=KIND,
            name=setting,
            scope=("program", *([used.name] if used.name else [])),
            pattern=Pattern.POOL,
            size=used.size,
            holders=tuple(self._counted(place, place.asked.account) for place in used.holders),
            waiters=tuple(self._counted(place, place.asked.asker) for place in used.waiters),
            handles=used.held,
        )

    def _counted(self, place: Place, whose: Account) -> ResourceUser:
        """What has a place is that of its scope; who waits is whoever asked."""
        for_s = self._clock.monotonic() - place.since_s
        return self._user(whose.frames, place.asked.asker.party, Access.WRITE, for_s)

    def _borrower(self, one: Borrowing) -> ResourceUser:
        frames = tuple(frame.entity_id for frame in one.by.frames)
        party = self._limiting.party_of(LogId(one.by.caller[0])) if one.by.caller is not None else PROGRAM
        return self._user(frames, party, one.access, one.for_ms / 1_000)

    def _caller(self, caller: Caller, used: SlotStatistics) -> ResourceUser:
        log, call = LogId(caller[0]), caller[1]
        slice_ = self._world.slice(log)
        config = slice_.get(call, CallConfig) if slice_ is not None else None
        frames = self._services.lineage(log, config.turn, call).frames if config is not None else ()
        now = self._clock.monotonic()
        _, since_s = self._slot_times.get(caller, (False, now))
        ids = tuple(frame.entity_id for frame in frames) or (call_id(log, call),)
        access = Access.READ if caller in used.reads else Access.WRITE
        return self._user(ids, self._limiting.party_of(log), access, now - since_s)

    def _user(self, frames: tuple[str, ...], party: Party, access: Access, for_s: float) -> ResourceUser:
        weights = self._limiting.weights
        return ResourceUser(
            frames=frames,
            agents=tuple(self._agents(frames)),
            access=access,
            since=Micros(self._clock.now() - round(for_s * 1e6)),
            for_ms=round(1_000 * for_s, 3),
            tenant=Name(party.tenant) if party.tenant else None,
            weight=weights.agent(party.agent),
            tenant_weight=weights.tenant(party.tenant),
        )

    def _agents(self, frames: tuple[str, ...]) -> Iterator[Name]:
        for frame in frames:
            config = self._world.get(frame, ConversationConfig)
            if config is not None:
                yield config.slug


def _slots_of(toolbox: Name, key: str, sharing: ToolboxSharing, size: int) -> OpenResource:
    bound = max(1, size) if sharing is ToolboxSharing.POOL else 1
    return OpenResource(
        id=ResourceId(hashed_id(Kind.RESOURCE, SLOTS, toolbox, key)),
        kind=SLOTS,
        name=toolbox,
        scope=("program", toolbox, *([key] if key else [])),
        pattern=_PATTERNS.get(sharing, Pattern.EXCLUSIVE),
        size=0 if sharing is ToolboxSharing.READ_WRITE else bound,
        toolbox=toolbox,
    )


def _use_of_row(row: ResourceRow) -> ResourceUse:
    return ResourceUse(
        kind=row.kind,
        name=row.name,
        pattern=row.pattern,
        size=row.size,
        held=len(row.holders),
        waiting=len(row.waiters),
    )


def _use_of_slots(room: SlotStatistics) -> ResourceUse:
    one = _slots_of(room.toolbox, room.key, room.sharing, room.size)
    return ResourceUse(
        kind=one.kind,
        name=one.name,
        pattern=one.pattern,
        size=one.size,
        held=len(room.holders),
        waiting=len(room.waiters),
    )
