"""Resources as entities: keeps the World's components of them true. Nothing of it is stored.

Who holds and who waits changes with every borrowing, and is looked at seldom. So a change is only noted, and the World
takes it up before it is read next.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentos.components import Awaited, Component, Held, Lending, ResourceState
from agentos.ids import ResourceId
from agentos.kernel.lsof import OpenResource, ResourceUser
from agentos.kernel.open_resources import OpenResources
from agentos.resources.borrowing import Caller
from agentos.world import World


class LiveResources:
    """Hears of changes, and tells the World."""

    def __init__(self, world: World, open_: OpenResources) -> None:
        self._world, self._open = world, open_
        self._changed: dict[ResourceId, None] = {}
        self._slots: frozenset[ResourceId] = frozenset()
        self._slots_changed = False

    def changed(self, id_: ResourceId) -> None:
        """A resource came, went, or has other holders or waiters."""
        self._changed[id_] = None
        self._world.stale = self._freshen

    def slot_changed(self, caller: Caller | None) -> None:
        """A call came in at its toolbox, stands in line, or is gone; None: a toolbox came or went."""
        if caller is not None:
            self._open.slot_changed(caller)
        self._slots_changed = True
        self._world.stale = self._freshen

    def _freshen(self) -> None:
        changed, self._changed = self._changed, {}
        for id_ in changed:
            self._tell(id_, self._open.one(id_))
        if self._slots_changed:
            self._slots_changed = False
            self._tell_slots()

    def _tell_slots(self) -> None:
        """Of all toolboxes: there are few, and who holds one says which others changed."""
        now = {one.id: one for one in self._open.of_slots()}
        for id_ in self._slots - now.keys():
            self._world.delete(id_)
        for id_, one in now.items():
            self._tell(id_, one)
        self._slots = frozenset(now)

    def _tell(self, id_: ResourceId, one: OpenResource | None) -> None:
        if one is None:
            self._world.delete(id_)
            return
        self._world.set(id_, _state(one))
        self._put(id_, Held, Held(holders=_lendings(one.holders)) if one.holders else None)
        self._put(id_, Awaited, Awaited(waiters=_lendings(one.waiters)) if one.waiters else None)

    def _put(self, id_: ResourceId, type_: type[Component], component: Component | None) -> None:
        if component is None:
            self._world.unset(id_, type_)
        else:
            self._world.set(id_, component)


def _state(one: OpenResource) -> ResourceState:
    return ResourceState(kind=one.kind, name=one.name, scope=one.scope, pattern=one.pattern, size=one.size)


def _lendings(users: Iterable[ResourceUser]) -> tuple[Lending, ...]:
    return tuple(Lending(user.frames, user.access, user.since) for user in users)
