"""The table of what lives: every shared resource of a kernel, by the scope that it belongs to.

    shared = await kernel.resources.create(scope, "browser", "chrome", Factory(make=launch, close=quit_))

A resource is in the table once its factory has succeeded, and leaves it when its scope ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from agentos.clock import Clock
from agentos.components import CycleLink, Pattern
from agentos.errors import ReleaseFailed, ResourceNotFound, ResourceScopeInvalid
from agentos.ids import IdSource, Kind, Micros, ResourceId
from agentos.resources.account import Account
from agentos.resources.borrowing import Bounds, Factory, Note
from agentos.resources.lease import Lease
from agentos.resources.lookout import Lookout
from agentos.resources.room import Order
from agentos.resources.rows import ResourceRow, row_of
from agentos.resources.scope import Level, Scope
from agentos.resources.shared import Shared
from agentos.resources.wait_graph import WaitGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """A kind of resource that may be asked for by its name.

    factory: makes the Factory of one resource from the options it is asked with; level: the scope it lives in unless the
    asker says otherwise. told_name_and_clock: whether its factory takes `name`, that of the resource, and `clock`, that of
    the kernel, where the options do not say them.
    """

    name: str
    factory: Callable[..., Factory[Any]]
    pattern: Pattern = Pattern.EXCLUSIVE
    size: int = 1
    bounds: Bounds = field(default_factory=Bounds)
    level: Level = Level.CALL
    told_name_and_clock: bool = False


@dataclass(slots=True)
class _Living:
    id: ResourceId
    scope: Scope
    shared: Shared[Any]
    since: Micros
    number: int = 0
    """That of its release in its scope."""
    adopted: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Resources:
    """Every shared resource that lives, and what is told of them.

    hold_warn_s, wait_warn_s: after how many seconds a holder or a waiter is noted, once each. lookout knows what is worth a
    note; on_change hears the id of each resource that comes, goes, or has other holders or waiters than before.
    """

    def __init__(
        self, clock: Clock, ids: IdSource, *, hold_warn_s: float, wait_warn_s: float, graph: WaitGraph | None = None
    ) -> None:
        self._clock, self._ids = clock, ids
        self.lookout = Lookout(clock, hold_warn_s, wait_warn_s, self._all, graph or WaitGraph())
        self.kinds: dict[str, ResourceKind] = {}
        self.on_change: list[Callable[[ResourceId], None]] = []
        self._living: dict[ResourceId, _Living] = {}
        self._names: dict[tuple[str, ...], dict[str, _Living]] = {}
        self._of: dict[int, ResourceId] = {}
        self._making: WeakValueDictionary[tuple[tuple[str, ...], str], asyncio.Lock] = WeakValueDictionary()
        self.order: Callable[[], Order[Lease[Any]]] | None = None
        """Makes the order of the line of one resource; without it, all are first come, first served."""
        self.account_of: Callable[[Scope], Account | None] | None = None
        """On whose account stands what lives in a scope, where what resources take is bounded."""

    # What lives

    def register(self, kind: ResourceKind) -> None:
        """Makes a kind known. Raises ValueError when another has its name."""
        if self.kinds.get(kind.name, kind) is not kind:
            raise ValueError(f"another kind of resource is named {kind.name!r}")
        self.kinds[kind.name] = kind

    async def create(
        self,
        scope: Scope,
        kind: str,
        name: str,
        factory: Factory[Any],
        *,
        pattern: Pattern = Pattern.EXCLUSIVE,
        size: int = 1,
        bounds: Bounds | None = None,
    ) -> Shared[Any]:
        """Makes a resource, and its first handle; it is released when the scope ends, what was made last first.

        Errors: ResourceScopeInvalid when the scope has ended, also meanwhile, or has one of this name; what the factory
        raises. Nothing is left of it then.
        """
        self._check(scope, name)
        order = self.order() if self.order is not None else None
        shared: Shared[Any] = Shared(
            name, kind, pattern, factory, size=size, bounds=bounds, clock=self._clock, ties=self, order=order
        )
        shared.scope = "/".join(scope.path)
        self._count(shared, scope)
        await shared.open()
        try:
            self._check(scope, name)
            self._put(scope, shared)
        except BaseException:
            await shared.close()
            raise
        return shared

    def adopt(self, scope: Scope, shared: Shared[Any]) -> None:
        """Takes up a resource that somebody else has made and opened, and that nobody has borrowed yet. It is closed when
        the scope ends, before what was there already. Raises ResourceScopeInvalid as `create` does."""
        self._check(scope, shared.name)
        order = self.order() if self.order is not None else None
        shared.join(self, self._clock, "/".join(scope.path), order)
        self._count(shared, scope)
        self._put(scope, shared, adopted=True)

    async def ensure(
        self, scope: Scope, kind: str | ResourceKind, name: str = "", options: Mapping[str, Any] | None = None
    ) -> Shared[Any]:
        """The resource of this kind and name in this very scope, made when there is none; who asks meanwhile waits, and so
        does who asks while the one before is about to end: what is exclusive is never there twice.

        Without a name it is that of its kind, which is a registered one or one that is given.

        Errors: ResourceNotFound for an unknown kind; ResourceScopeInvalid when another kind has the name; TypeError for
        options that its kind does not take; as `create`.
        """
        known = kind if isinstance(kind, ResourceKind) else self.kind(kind)
        name = name or known.name
        lock = self._making.setdefault((scope.path, name), asyncio.Lock())
        async with lock:
            while (found := self._names.get(scope.path, {}).get(name)) is not None and found.shared.closed:
                await found.ended.wait()
            if found is None:
                return await self.create(
                    scope,
                    known.name,
                    name,
                    self._factory(known, name, options or {}),
                    pattern=known.pattern,
                    size=known.size,
                    bounds=known.bounds,
                )
        if found.shared.kind != known.name:
            raise ResourceScopeInvalid(name, "/".join(scope.path), f"a {found.shared.kind} of this name lives there")
        return found.shared

    def kind(self, name: str) -> ResourceKind:
        """Raises ResourceNotFound."""
        known = self.kinds.get(name)
        if known is None:
            raise ResourceNotFound(name, "kinds", list(self.kinds), of="kind of resource")
        return known

    def find(self, name: str, *scopes: Scope) -> Shared[Any]:
        """The resource of this name in the first of these scopes, or around it, else in the next. Raises
        ResourceNotFound."""
        for scope in scopes:
            around: Scope | None = scope
            while around is not None:
                found = self._names.get(around.path, {}).get(name)
                if found is not None:
                    return found.shared
                around = around.parent
        where = " and ".join("/".join(scope.path) for scope in scopes)
        raise ResourceNotFound(name, where, self._known(scopes), is_kind=name in self.kinds)

    def get(self, id_: ResourceId) -> Shared[Any] | None:
        living = self._living.get(id_)
        return living.shared if living is not None else None

    async def close(self, id_: ResourceId) -> None:
        """Ends one before its scope does. Raises as its handles do when they cannot be closed."""
        living = self._living.get(id_)
        if living is not None and living.scope.take_back(living.number):
            await self._end(living)

    async def release(self, scope: Scope) -> int:
        """Gives back what was made in this very scope, newest first, while the scope goes on; what a toolbox has of its own
        stays. Says how many there were. Raises ReleaseFailed with all that failed, once every one was tried."""
        failures: list[tuple[str, BaseException]] = []
        made = [one for one in self._living.values() if one.scope is scope and not one.adopted]
        for living in reversed(made):
            try:
                await self.close(living.id)
            except Exception as error:
                failures.append((living.shared.name, error))
        if failures:
            raise ReleaseFailed("/".join(scope.path), failures)
        return len(made)

    def _all(self) -> list[Shared[Any]]:
        return [living.shared for living in self._living.values()]

    def __len__(self) -> int:
        return len(self._living)

    def rows(self) -> list[ResourceRow]:
        """All that lives, oldest first."""
        return [_row(living) for living in self._living.values()]

    def row(self, id_: ResourceId) -> ResourceRow | None:
        living = self._living.get(id_)
        return _row(living) if living is not None else None

    def _known(self, scopes: Iterable[Scope]) -> list[str]:
        found: set[str] = set()
        for scope in scopes:
            around: Scope | None = scope
            while around is not None:
                found.update(self._names.get(around.path, ()))
                around = around.parent
        return list(found)

    def _factory(self, kind: ResourceKind, name: str, options: Mapping[str, Any]) -> Factory[Any]:
        given = {"name": name, "clock": self._clock, **options} if kind.told_name_and_clock else options
        try:
            inspect.signature(kind.factory).bind(**given)
        except TypeError as error:
            raise TypeError(f"options of the kind {kind.name!r}: {error}") from None
        return kind.factory(**given)

    def _check(self, scope: Scope, name: str) -> None:
        path = "/".join(scope.path)
        if scope.closed:
            raise ResourceScopeInvalid(name, path, "it has ended")
        if name in self._names.get(scope.path, ()):
            raise ResourceScopeInvalid(name, path, "one of this name lives there")

    def _count(self, shared: Shared[Any], scope: Scope) -> None:
        if self.account_of is not None:
            shared.count_on(self.account_of(scope))

    def _put(self, scope: Scope, shared: Shared[Any], *, adopted: bool = False) -> None:
        id_ = ResourceId(self._ids.new(Kind.RESOURCE))
        living = _Living(id_, scope, shared, self._clock.now(), adopted=adopted)
        living.number = scope.push(f"{shared.kind} {shared.name}", lambda: self._end(living))
        self._living[id_] = living
        self._of[id(shared)] = id_
        self._names.setdefault(scope.path, {})[shared.name] = living
        self._tell(id_)

    async def _end(self, living: _Living) -> None:
        try:
            await living.shared.close()
        finally:
            del self._living[living.id], self._of[id(living.shared)]
            names = self._names[living.scope.path]
            del names[living.shared.name]
            if not names:
                del self._names[living.scope.path]
            living.ended.set()
            self._tell(living.id)

    # What the resources tell (see shared.Ties)

    def deadlock(self, shared: Shared[Any], lease: Lease[Any]) -> tuple[CycleLink, ...]:
        return self.lookout.deadlock(shared, lease)

    def entered(self, shared: Shared[Any], lease: Lease[Any]) -> None:
        self.lookout.entered(shared, lease)

    def left(self, shared: Shared[Any], lease: Lease[Any]) -> None:
        self.lookout.left(shared, lease)

    def noted(self, note: Note) -> None:
        self.lookout.noted_to(note)

    def used(self) -> None:
        self.lookout.begin()

    def changed(self, shared: Shared[Any]) -> None:
        if self.on_change:
            id_ = self._of.get(id(shared))
            if id_ is not None:
                self._tell(id_)

    def _tell(self, id_: ResourceId) -> None:
        for told in self.on_change:
            told(id_)

    def shut(self) -> None:
        """Looks at nothing any more."""
        self.lookout.stop()


def _row(living: _Living) -> ResourceRow:
    return row_of(living.id, living.scope, living.since, living.shared)
