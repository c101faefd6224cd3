"""Each access pattern against a model: borrowers come, wait, are cancelled, time out, and give back in any order."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentos.components import Access, Pattern
from agentos.errors import ResourceAccessTimeout, ResourceBusy, ResourceClosed
from agentos.resources import Borrower, Bounds, Factory, Shared
from agentos.testing.clock import ManualClock

SPINS = 12
"""How often the loop goes round until all that follows from a step has happened."""


class Model:
    """Who is inside and who waits, worked out anew at each step; first come, first served, nobody overtakes."""

    def __init__(self, pattern: Pattern, size: int) -> None:
        self.pattern = pattern
        self.size = {Pattern.POOL: size, Pattern.STATELESS: 1_000}.get(pattern, 1)
        self.inside: dict[int, bool] = {}
        self.line: list[tuple[int, bool, float | None]] = []

    def fits(self, reads: bool) -> bool:
        if self.pattern is Pattern.READ_WRITE:
            return not self.inside or (reads and all(self.inside.values()))
        return len(self.inside) < self.size

    def come(self, who: int, reads: bool, until: float | None) -> None:
        self.line.append((who, reads, until))
        self.let_in()

    def leave(self, who: int) -> None:
        self.inside.pop(who, None)
        self.line = [one for one in self.line if one[0] != who]
        self.let_in()

    def expire(self, now: float) -> set[int]:
        """Those whose time is over while they wait. They leave together, however late it is seen: none is let in first."""
        gone = {who for who, _, until in self.line if until is not None and until <= now}
        self.line = [waiting for waiting in self.line if waiting[0] not in gone]
        self.let_in()
        return gone

    def let_in(self) -> None:
        while self.line and self.fits(self.line[0][1]):
            who, reads, _ = self.line.pop(0)
            self.inside[who] = reads


class Handle:
    """A handle that notices when two have it, or when it is used after its end."""

    def __init__(self, number: int) -> None:
        self.number, self.users, self.closed = number, 0, False


class BorrowersOfOneResource(RuleBasedStateMachine):
    """Tasks borrow; the test says when each gives back, is cancelled, or finds its handle broken."""

    @initialize(pattern=st.sampled_from(Pattern), size=st.integers(1, 3))
    def begin(self, pattern: Pattern, size: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.handles: list[Handle] = []
        self.broken: list[Handle] = []
        factory = Factory(self.make, close=self.end)
        self.shared: Shared[Handle] = Shared(
            "thing", "test", pattern, factory, size=size, clock=self.clock, bounds=Bounds(idle_s=50.0)
        )
        self.model = Model(pattern, size)
        self.tasks: dict[int, asyncio.Task[str]] = {}
        self.doors: dict[int, asyncio.Event] = {}
        self.inside: dict[int, Handle] = {}
        self.ended: dict[int, str] = {}
        self.expected: dict[int, str] = {}
        self.came = 0
        self.run(self.shared.open())

    async def make(self) -> Handle:
        await asyncio.sleep(0)
        self.handles.append(Handle(len(self.handles)))
        return self.handles[-1]

    async def end(self, handle: Handle) -> None:
        assert not handle.users, "a handle was closed under its user"
        assert not handle.closed, "a handle was closed twice"
        await asyncio.sleep(0)
        handle.closed = True

    def run(self, work: Any = None) -> None:
        async def spin() -> None:
            if work is not None:
                await work
            for _ in range(SPINS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(spin())

    async def use(self, who: int, access: Access, timeout_s: float | None) -> str:
        try:
            async with self.shared.borrow(Borrower(caller=("log", who)), access=access, timeout_s=timeout_s) as handle:
                assert not handle.closed
                handle.users += 1
                self.inside[who] = handle
                try:
                    await self.doors[who].wait()
                finally:
                    handle.users -= 1
                    del self.inside[who]
        except ResourceAccessTimeout:
            return "timeout"
        except ResourceClosed:
            return "closed"
        return "done"

    @rule(access=st.sampled_from(Access), timeout_s=st.sampled_from([None, None, 1.0, 3.0]))
    def borrow(self, access: Access, timeout_s: float | None) -> None:
        who = self.came = self.came + 1
        self.doors[who] = asyncio.Event()
        self.tasks[who] = self.loop.create_task(self.use(who, access, timeout_s))
        self.model.come(who, access is Access.READ, None if timeout_s is None else self.clock.monotonic() + timeout_s)
        self.run()

    @rule(access=st.sampled_from(Access))
    def borrow_at_once_or_not_at_all(self, access: Access) -> None:
        can = not self.model.line and self.model.fits(access is Access.READ)

        async def try_it() -> bool:
            try:
                with self.shared.borrow_nowait(access=access) as handle:
                    assert not handle.closed
            except ResourceBusy:
                return False
            return True

        sound = [handle for handle in self.handles if not handle.closed and handle not in self.broken]
        common = self.model.pattern in (Pattern.READ_WRITE, Pattern.STATELESS)
        ready = any(common or not handle.users for handle in sound)
        got = self.loop.run_until_complete(try_it())

        assert got == (can and ready)

    @rule(data=st.data())
    @precondition(lambda self: bool(getattr(self, "inside", None)))
    def give_back(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.inside)))
        self.doors[who].set()
        self.expected[who] = "done"
        self.model.leave(who)
        self.run()

    @rule(data=st.data())
    @precondition(lambda self: bool(getattr(self, "inside", None)))
    def find_it_broken(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.inside)))
        self.shared.discard(self.inside[who])
        self.broken.append(self.inside[who])
        self.doors[who].set()
        self.expected[who] = "done"
        self.model.leave(who)
        self.run()

    @rule(data=st.data())
    @precondition(lambda self: bool(self.open()))
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open()))
        self.tasks[who].cancel()
        self.expected[who] = "cancelled"
        self.model.leave(who)
        self.run()

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        for who in self.model.expire(self.clock.monotonic() + seconds):
            self.expected[who] = "timeout"
        self.run(self.pass_time(seconds))

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def open(self) -> list[int]:
        return [who for who, task in getattr(self, "tasks", {}).items() if not task.done()]

    @invariant()
    def both_tell_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        said = self.shared.statistics()
        holders = {borrowing.by.caller[1] for borrowing in said.holders if borrowing.by.caller}
        waiters = [borrowing.by.caller[1] for borrowing in said.waiters if borrowing.by.caller]
        assert holders == set(self.model.inside) == set(self.inside)
        assert waiters == [who for who, _, _ in self.model.line]
        for who, task in self.tasks.items():
            if task.done():
                assert ("cancelled" if task.cancelled() else task.result()) == self.expected[who]

    @invariant()
    def no_handle_is_lent_or_left_too_often(self) -> None:
        if not hasattr(self, "model"):
            return
        alive = [handle for handle in self.handles if not handle.closed]
        assert self.shared.statistics().handles == len(alive)
        if self.model.pattern in (Pattern.EXCLUSIVE, Pattern.POOL):
            assert all(handle.users <= 1 for handle in self.handles)
            assert len(alive) <= self.model.size

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.close_while_in_use([who for who, _, _ in self.model.line])
        finally:
            self.loop.close()

    def close_while_in_use(self, waiting: list[int]) -> None:
        closing = self.loop.create_task(self.shared.close())
        self.run()
        assert closing.done() == (not self.inside)
        assert all(self.tasks[who].result() == "closed" for who in waiting)
        for door in self.doors.values():
            door.set()
        self.run(closing)
        assert all(task.done() for task in self.tasks.values())
        assert all(handle.closed for handle in self.handles)


BorrowersOfOneResource.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestBorrowersAgainstAModel = BorrowersOfOneResource.TestCase
