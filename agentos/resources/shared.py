"""A shared resource: handles under one access pattern, lent for the length of a block, and given back however it ends.

    async with shared.borrow(by, access=Access.READ, timeout_s=5) as handle:
        ...

Everything here runs on the loop. A handle that is free is lent without a task switch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from agentos.clock import Clock, SystemClock
from agentos.components import Access, Concern, CycleLink, Pattern
from agentos.errors import ResourceAccessTimeout, ResourceBusy, ResourceClosed, ResourceDeadlock, ResourceUpgradeRefused
from agentos.ids import Micros
from agentos.resources.account import Account
from agentos.resources.borrowing import PROGRAM, Borrower, Borrowing, Bounds, Factory, Note, SharedStatistics, Takes
from agentos.resources.common_handle import handles_of
from agentos.resources.cycle import NAMED_MAX, sentences
from agentos.resources.finishing import unheard
from agentos.resources.lease import Lease, LeaseNow
from agentos.resources.room import Order, Room
from agentos.resources.waited import attach_waiting

H = TypeVar("H")
NO_BOUND = 1 << 62


class Ties(Protocol):
    """What a resource knows of the others: `Resources` is one.

    deadlock: the cycle that this waiting closes, empty when it closes none. entered, left: somebody holds it from here on,
    or no more. noted: something worth an entry. used: it is lent or waited for, so somebody has to look after how long.
    changed: who holds and who waits is not as it was.
    """

    def deadlock(self, shared: Shared[Any], lease: Lease[Any]) -> tuple[CycleLink, ...]: ...
    def entered(self, shared: Shared[Any], lease: Lease[Any]) -> None: ...
    def left(self, shared: Shared[Any], lease: Lease[Any]) -> None: ...
    def noted(self, note: Note) -> None: ...
    def used(self) -> None: ...
    def changed(self, shared: Shared[Any]) -> None: ...


class Shared(Generic[H]):
    """A live resource with one access pattern. First come, first served, unless an order says otherwise.

    size: how many handles a pool has at most. Its other patterns have one handle.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        pattern: Pattern,
        factory: Factory[H],
        *,
        size: int = 1,
        bounds: Bounds | None = None,
        clock: Clock | None = None,
        ties: Ties | None = None,
        order: Order[Lease[Any]] | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"resource {name!r}: size is {size}; at least 1 is needed")
        self.name, self.kind = name, kind
        self.pattern = pattern = Pattern(pattern)  # a text may be given where no types are checked
        self.size = {Pattern.POOL: size, Pattern.EXCLUSIVE: 1}.get(pattern, 0)
        self.bounds = bounds or Bounds()
        self.clock = clock or SystemClock()
        self.scope = ""
        self.closed = False
        self._ties = ties
        self._room: Room[Lease[Any]] = Room(
            self.size or NO_BOUND, read_write=pattern is Pattern.READ_WRITE, order=order
        )
        self._handles = handles_of(name, pattern, factory, self.bounds, self.clock)
        self._handles.places.users = lambda: [lease.task for lease in self._room.holders]
        self._drained: asyncio.Future[None] | None = None
        self._borrowed = 0
        self._waited_s = 0.0

    def count_on(self, account: Account | None) -> None:
        """Has the handles that are made from here on count on this account."""
        self._handles.places.account = account

    async def open(self) -> None:
        """Makes the first handle, so that a factory which cannot make any is known at once. Raises what it raises."""
        with self._told_if_cancelled():
            self._handles.add(await self._handles.make())

    @contextmanager
    def _told_if_cancelled(self) -> Iterator[None]:
        """A call whose time is over in the block says what it waited for."""
        try:
            yield
        except asyncio.CancelledError as error:
            attach_waiting(error, f"a handle of resource {self.name!r}, to be made or looked at")
            raise

    def join(self, ties: Ties, clock: Clock, scope: str, order: Order[Lease[Any]] | None = None) -> None:
        """Ties one that was made alone to others, before anybody has borrowed it. An order of its own it keeps."""
        assert not self._room.holders and not self._room.line, "nobody has borrowed it yet"
        self._room.order = self._room.order or order
        self._ties, self.scope = ties, scope
        self.clock = self._handles.clock = clock

    def borrow(
        self, by: Borrower = PROGRAM, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> Lease[H]:
        """`async with` this to have a handle; access counts for a read-write resource alone.

        Errors: ResourceAccessTimeout when it is not free within timeout_s, seconds; ResourceClosed; ResourceDeadlock when
        it would never be free; ResourceUpgradeRefused when the same task reads it already and asks to write;
        ResourceBroken when no sound handle can be made; ResourceBusy when line_max wait already; what its factory raises.
        """
        return Lease(self, by, access, timeout_s)

    def borrow_nowait(self, by: Borrower = PROGRAM, *, access: Access = Access.WRITE) -> LeaseNow[H]:
        """`with` this to have a handle at once, or not at all.

        Errors: ResourceBusy (WouldBlock) when it would have to wait, be it for a handle to be made; ResourceClosed.
        """
        return LeaseNow(Lease(self, by, access, None))

    def discard(self, handle: H) -> None:
        """Says that a lent handle is broken: nobody gets it any more. Who has it gives it back all the same."""
        self._handles.drop(handle)

    def takes(self) -> list[Takes]:
        """What its handles take of the machine; of one whose `takes` fails, nothing is known."""
        return self._handles.takes()

    def statistics(self) -> SharedStatistics:
        return SharedStatistics(
            name=self.name,
            kind=self.kind,
            pattern=self.pattern,
            size=self.size,
            handles=self._handles.made,
            idle=self._handles.idle,
            holders=tuple(self._said(lease) for lease in self._room.holders),
            waiters=tuple(self._said(lease) for lease in self._room.line),
            borrowed=self._borrowed,
            waited_ms=1_000 * self._waited_s,
            broken=self._handles.broken,
        )

    @property
    def leases(self) -> tuple[list[Lease[Any]], list[Lease[Any]]]:
        """Those that hold it, and those in line, oldest first."""
        return list(self._room.holders), list(self._room.line)

    @property
    def is_waited_for(self) -> bool:
        return bool(self._room.line)

    @property
    def any_does(self) -> bool:
        """Whether those in line wait for any one of the holders, or for all of them."""
        return self._room.any_does

    async def close(self) -> None:
        """Ends it with its scope: who waits is refused, who holds it has drain_s to give it back, then all handles close.

        One that is held longer is a leak: it is noted, and its handle closed under it. Raises an ExceptionGroup of the
        handles that did not close. A second close does nothing.
        """
        if self.closed:
            return
        self.closed = True
        for lease in self._room.line:
            lease.refuse(ResourceClosed(self.name, self.scope))
        self._handles.places.refuse(ResourceClosed(self.name, self.scope))
        try:
            await self._drain()
        finally:
            for lease in self._room.holders:
                self.note(Concern.LEAK, lease)
            await self._handles.close()

    async def _drain(self) -> None:
        if not self._room.holders:
            return
        self._drained = asyncio.get_running_loop().create_future()
        timer = self.clock.call_later(self.bounds.drain_s, lambda: _done(self._drained))
        try:
            await self._drained
        finally:
            timer.cancel()

    def note(self, what: Concern, lease: Lease[Any], cycle: tuple[CycleLink, ...] = ()) -> None:
        if self._ties is not None:
            ms = round(1_000 * (self.clock.monotonic() - lease.at))
            self._ties.noted(Note(what=what, resource=self.name, kind=self.kind, by=lease.by, ms=ms, cycle=cycle))

    # What a lease does

    def enter(self, lease: Lease[Any]) -> bool:
        """Whether it is inside at once. Raises ResourceClosed."""
        if self.closed:
            raise ResourceClosed(self.name, self.scope)
        lease.at = self.clock.monotonic()
        if lease.timeout_s is not None:
            lease.until = lease.at + lease.timeout_s
        if not self._room.enter(lease, lease.reads):
            return False
        if self._ties is not None:
            self._ties.entered(self, lease)
        self._told()
        return True

    async def wait(self, lease: Lease[Any]) -> None:
        """Until it is inside. However the waiting ends, it leaves no trace: room that was granted and not taken goes on."""
        self._refuse_upgrade(lease)
        if len(self._room.line) >= self.bounds.line_max:
            raise ResourceBusy(self.name, self.size, self._holders())
        self._room.take(lease, lease.reads)
        self._told()
        lease.future = asyncio.get_running_loop().create_future()
        timer = None
        try:
            self.refuse_deadlock(lease)
            if lease.timeout_s is not None:
                timer = self.clock.call_later(lease.timeout_s, lambda: self._expire(lease))
            await lease.future
        except BaseException as error:
            if lease.future.done():  # who is cancelled and refused at once hears of the cancel alone
                unheard(lease.future)
            if isinstance(error, asyncio.CancelledError):
                held_by = ", ".join(self._holders()[:NAMED_MAX]) or "nobody"
                attach_waiting(error, f"resource {self.name!r}, held by {held_by}")
            self.leave(lease)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            now = self.clock.monotonic()
            self._waited_s += now - lease.at
            lease.at, lease.future, lease.warned = now, None, False

    def refuse_deadlock(self, lease: Lease[Any]) -> None:
        """Has a lease in line end, if it waits for ever."""
        if not lease.waits:
            return
        cycle = self._ties.deadlock(self, lease) if self._ties is not None else ()
        if cycle:
            self.note(Concern.DEADLOCK, lease, cycle)
            lease.refuse(ResourceDeadlock(self.name, sentences(cycle)))

    def _expire(self, lease: Lease[Any]) -> None:
        if lease in self._room.line:
            lease.refuse(ResourceAccessTimeout(self.name, lease.timeout_s or 0.0, self.size, self._holders()))

    def _refuse_upgrade(self, lease: Lease[Any]) -> None:
        """Two readers that both asked to write would wait for each other."""
        if self.pattern is Pattern.READ_WRITE and not lease.reads:
            for other, reads in self._room.holders.items():
                if reads and other.task is lease.task:
                    raise ResourceUpgradeRefused(self.name, lease.by.name)

    def leave(self, lease: Lease[Any]) -> None:
        if self._ties is not None and lease in self._room.holders:
            self._ties.left(self, lease)
        for came in self._room.leave(lease):
            if self._ties is not None:
                self._ties.entered(self, came)
            _done(came.future)
        if self._drained is not None and not self._room.holders:
            _done(self._drained)
        self._told()

    async def take(self, lease: Lease[H]) -> H:
        """A handle for a lease that is inside."""
        handles = self._handles
        if handles.ready:
            handle = handles.take_ready()
        else:
            with self._told_if_cancelled():
                handle = await handles.take(lambda: self.note(Concern.BROKEN, lease), lease.until)
        self._borrowed += 1
        return handle

    def take_nowait(self) -> H:
        if not self._handles.ready:
            raise ResourceBusy(self.name, self.size, [])
        self._borrowed += 1
        return self._handles.take_ready()

    def busy(self) -> ResourceBusy:
        return ResourceBusy(self.name, self.size, self._holders())

    def back(self, handle: H, lease: Lease[H]) -> None:
        self._handles.give_back(handle)
        self.leave(lease)

    def _told(self) -> None:
        if self._ties is not None:
            self._ties.used()
            self._ties.changed(self)

    def _holders(self) -> list[str]:
        return [lease.by.name for lease in self._room.holders]

    def _said(self, lease: Lease[Any]) -> Borrowing:
        for_s = self.clock.monotonic() - lease.at
        return Borrowing(lease.by, lease.access, Micros(self.clock.now() - round(for_s * 1e6)), 1_000 * for_s)


def _done(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
