"""Slots against a model that works out anew, for each step, who may be inside."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentos.components import Access, ToolboxSharing
from agentos.ids import Name
from agentos.resources import Slots

CALLERS = [(f"log{log}", call) for log in range(3) for call in range(3)]
AGENT = {"log0": "ann", "log1": "ann", "log2": "bob"}
BOX = Name("box")
Caller = tuple[str, int]


class Line:
    """One bound: all who asked and did not give back, in the order in which they came; the first that fit are inside."""

    def __init__(self, size: int, read_write: bool) -> None:
        self.size, self.read_write = size, read_write
        self.inside: list[tuple[Caller, bool]] = []
        self.waiting: list[tuple[Caller, bool]] = []

    def fits(self, reads: bool) -> bool:
        if not self.read_write:
            return len(self.inside) < self.size
        return not self.inside or (reads and all(other for _, other in self.inside))

    def come(self, caller: Caller, reads: bool) -> None:
        if all(caller != known for known, _ in (*self.inside, *self.waiting)):
            self.waiting.append((caller, reads))

    def leave(self, caller: Caller) -> None:
        self.inside = [pair for pair in self.inside if pair[0] != caller]
        self.waiting = [pair for pair in self.waiting if pair[0] != caller]

    def let_in(self) -> list[Caller]:
        let = []
        while self.waiting and self.fits(self.waiting[0][1]):
            self.inside.append(self.waiting.pop(0))
            let.append(self.inside[-1][0])
        return let


class SlotsOfOneToolbox(RuleBasedStateMachine):
    """Calls of three conversations of two agents come, wait, and go."""

    @initialize(sharing=st.sampled_from(ToolboxSharing), size=st.integers(1, 3))
    def begin(self, sharing: ToolboxSharing, size: int) -> None:
        self.granted: list[Caller] = []
        self.slots = Slots(lambda log, call: self.granted.append((log, call)))
        self.sharing, self.size = sharing, size
        self.slots.add(BOX, sharing, size)
        self.lines: dict[str, Line] = {}
        self.asked: set[Caller] = set()

    def line(self, caller: Caller) -> Line:
        key = {
            ToolboxSharing.PER_CONVERSATION: caller[0],
            ToolboxSharing.PER_AGENT: AGENT[caller[0]],
        }.get(self.sharing, "all")
        size = self.size if self.sharing is ToolboxSharing.POOL else 1
        return self.lines.setdefault(key, Line(size, self.sharing is ToolboxSharing.READ_WRITE))

    @rule(caller=st.sampled_from(CALLERS), access=st.sampled_from(Access))
    def take(self, caller: Caller, access: Access) -> None:
        found = self.slots.take(BOX, caller, AGENT[caller[0]], access)
        if self.sharing is ToolboxSharing.STATELESS:
            assert found
            return
        line = self.line(caller)
        line.come(caller, access is Access.READ)
        line.let_in()

        assert found == any(caller == inside for inside, _ in line.inside)
        assert self.granted == []  # who is let in at once is told by the answer alone

    @rule(caller=st.sampled_from(CALLERS))
    def give_back(self, caller: Caller) -> None:
        self.slots.give_back(caller)
        expected: list[Caller] = []
        if self.sharing is not ToolboxSharing.STATELESS:
            line = self.line(caller)
            line.leave(caller)
            expected = line.let_in()
        told, self.granted = self.granted, []

        assert told == expected

    @rule()
    def give_back_what_nobody_has(self) -> None:
        self.slots.give_back(("nobody", 1))

        assert self.granted == []

    @invariant()
    def both_tell_the_same(self) -> None:
        if not hasattr(self, "lines"):
            return
        used = [line for line in self.lines.values() if line.inside or line.waiting]
        shown = [(set(s.holders), s.waiters) for s in self.slots.statistics()]
        expected = [({c for c, _ in line.inside}, tuple(c for c, _ in line.waiting)) for line in used]
        assert sorted(shown, key=repr) == sorted(expected, key=repr)
        for caller in CALLERS:
            inside = any(caller == known for line in used for known, _ in line.inside)
            assert self.slots.holds(caller) == inside

    @invariant()
    def nothing_is_ever_over_its_bound(self) -> None:
        if not hasattr(self, "lines"):
            return
        for statistics in self.slots.statistics():
            if self.sharing is not ToolboxSharing.READ_WRITE:
                bound = self.size if self.sharing is ToolboxSharing.POOL else 1
                assert len(statistics.holders) <= bound


SlotsOfOneToolbox.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestSlotsAgainstAModel = SlotsOfOneToolbox.TestCase


def test_a_toolbox_that_nobody_knows_has_no_bound() -> None:
    slots = Slots(lambda log, call: None)

    assert all(slots.take(BOX, (f"log{n}", 1), "ann", Access.WRITE) for n in range(5))
    assert slots.take(None, ("log", 1), "ann", Access.WRITE)


def test_calls_inside_a_toolbox_that_is_removed_still_give_back() -> None:
    granted: list[tuple[str, int]] = []
    slots = Slots(lambda log, call: granted.append((log, call)))
    slots.add(BOX, ToolboxSharing.EXCLUSIVE)
    slots.take(BOX, ("a", 1), "ann", Access.WRITE)
    slots.take(BOX, ("b", 1), "ann", Access.WRITE)
    slots.remove(BOX)
    slots.give_back(("a", 1))
    slots.give_back(("b", 1))

    assert granted == [("b", 1)]
    assert slots.statistics() == []
