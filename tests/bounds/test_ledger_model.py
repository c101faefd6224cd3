"""The ledger against a naive model: places are asked for, given back, cancelled and refused in any order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentos.errors import ResourceAccessTimeout, ResourceLimitReached
from agentos.resources.account import Place
from tests.bounds.ledger import Counted

SPINS = 12


@dataclass
class Ask:
    """One that has a place, or waits at the bound of its conversation (stage 0) or of the program (stage 1)."""

    who: int
    log: str
    kept: bool
    until: float | None
    stage: int = 0

    @property
    def inside(self) -> bool:
        return self.stage == 2


class Model:
    """Goes through all that ask, in their order, again and again until nothing changes."""

    def __init__(self, conversation: int, program: int) -> None:
        self.sizes = (conversation, program)
        self.asks: list[Ask] = []
        self.arrived: list[Ask] = []
        self.refused: set[int] = set()

    def room(self, ask: Ask, stage: int) -> list[Ask]:
        """Those that have a place at the bound of a stage."""
        return [one for one in self.asks if one.stage > stage and (stage == 1 or one.log == ask.log)]

    def line(self, ask: Ask, stage: int) -> list[Ask]:
        """Those that wait there, in the order in which they came there."""
        return [one for one in self.arrived if one.stage == stage and (stage == 1 or one.log == ask.log)]

    def come(self, ask: Ask) -> None:
        self.asks.append(ask)
        self.arrived.append(ask)
        self.settle()

    def leave(self, who: int) -> None:
        self.asks = [one for one in self.asks if one.who != who]
        self.arrived = [one for one in self.arrived if one.who != who]
        self.settle()

    def settle(self) -> None:
        while self.step() or self.refuse():
            pass

    def step(self) -> bool:
        for ask in list(self.arrived):
            stage = ask.stage
            if stage < 2 and self.line(ask, stage)[0] is ask and len(self.room(ask, stage)) < self.sizes[stage]:
                ask.stage += 1
                self.arrived.remove(ask)
                self.arrived.append(ask)
                return True
        return False

    def refuse(self) -> bool:
        for ask in self.asks:
            if not ask.inside and all(one.inside and one.kept for one in self.room(ask, ask.stage)):
                self.refused.add(ask.who)
                self.asks.remove(ask)
                self.arrived.remove(ask)
                return True
        return False


class PlacesOfTwoBounds(RuleBasedStateMachine):
    """Tasks ask; the test says when each gives back or is cancelled."""

    @initialize(
        conversation=st.integers(1, 3),
        program=st.integers(1, 4),
        first=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=5),
    )
    def begin(self, conversation: int, program: int, first: list[tuple[str, bool]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.here = Counted(program=program, conversation=conversation)
        self.model = Model(conversation, program)
        self.tasks: dict[int, asyncio.Task[str]] = {}
        self.doors: dict[int, asyncio.Event] = {}
        self.expected: dict[int, str] = {}
        self.inside: set[int] = set()
        self.came = 0
        for log, kept in first:
            self.ask_for(log, kept, None)

    def run(self) -> None:
        async def spin() -> None:
            for _ in range(SPINS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(spin())

    async def use(self, who: int, log: str, kept: bool, timeout_s: float | None) -> str:
        place: Place = self.here.place(self.here.account(log=log), used=not kept)
        try:
            await place.take(timeout_s)
        except ResourceLimitReached:
            return "refused"
        except ResourceAccessTimeout:
            return "timeout"
        self.inside.add(who)
        try:
            await self.doors[who].wait()
        finally:
            self.inside.remove(who)
            place.give_back()
        return "done"

    @rule(log=st.sampled_from("ab"), kept=st.booleans(), timeout_s=st.sampled_from([None, None, 1.0, 3.0]))
    def ask(self, log: str, kept: bool, timeout_s: float | None) -> None:
        self.ask_for(log, kept, timeout_s)

    def ask_for(self, log: str, kept: bool, timeout_s: float | None) -> None:
        who = self.came = self.came + 1
        self.doors[who] = asyncio.Event()
        self.tasks[who] = self.loop.create_task(self.use(who, log, kept, timeout_s))
        until = None if timeout_s is None else self.here.clock.monotonic() + timeout_s
        self.run()
        self.model.come(Ask(who, log, kept, until))

    @rule(data=st.data())
    @precondition(lambda self: bool(getattr(self, "inside", None)))
    def give_back(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.inside)))
        self.doors[who].set()
        self.expected[who] = "done"
        self.run()
        self.model.leave(who)

    @rule(data=st.data())
    @precondition(lambda self: bool(self.open()))
    def cancel(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.open()))
        self.tasks[who].cancel()
        self.expected[who] = "cancelled"
        self.run()
        self.model.leave(who)

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0]))
    def time_passes(self, seconds: float) -> None:
        now = self.here.clock.monotonic() + seconds
        late = [one.who for one in self.model.asks if not one.inside and one.until is not None and one.until <= now]

        async def pass_time() -> None:
            self.here.clock.advance(seconds)

        self.loop.run_until_complete(pass_time())
        self.run()
        self.expected.update(dict.fromkeys(late, "timeout"))
        self.model.asks = [one for one in self.model.asks if one.who not in late]
        self.model.arrived = [one for one in self.model.arrived if one.who not in late]
        self.model.settle()

    def open(self) -> list[int]:
        return [who for who, task in getattr(self, "tasks", {}).items() if not task.done()]

    @invariant()
    def both_tell_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.inside == {one.who for one in self.model.asks if one.inside}
        assert set(self.open()) == {one.who for one in self.model.asks}
        for who, task in self.tasks.items():
            if task.done():
                expected = "refused" if who in self.model.refused else self.expected[who]
                assert ("cancelled" if task.cancelled() else task.result()) == expected

    @invariant()
    def no_bound_is_passed(self) -> None:
        if not hasattr(self, "model"):
            return
        for one in self.here.ledger.uses():
            assert one.held <= one.size
            assert one.held or not one.waiters

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        for task in self.tasks.values():
            task.cancel()
        self.run()
        left = self.here.ledger.uses()
        self.loop.close()
        assert left == []


PlacesOfTwoBounds.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestPlacesOfTwoBounds = PlacesOfTwoBounds.TestCase
