"""What the tests of bounds share: a ledger whose accounts are made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentos.components import CycleCall
from agentos.resources.account import Account, Asked, Place, What
from agentos.resources.borrowing import Caller, Note
from agentos.resources.bounds import Ledger
from agentos.resources.cycle import call_alone
from agentos.resources.fairness import FairOrder, Party, Weights
from agentos.resources.places import Bound
from agentos.resources.wait_graph import Node, WaitGraph
from agentos.testing.clock import ManualClock


class Looks:
    """What is known of calls: which stand above which, as a test says it."""

    def __init__(self) -> None:
        self.graph = WaitGraph()
        self.notes: list[Note] = []
        self.bounds: list[Callable[[float], bool]] = []
        self.begun = False
        self.noted_to: Callable[[Note], None] = self.notes.append
        self.stands_above: dict[Caller, list[Node]] = {}
        self.above: Callable[[Caller], Iterable[Node]] = lambda caller: self.stands_above.get(caller, [])
        self.named: Callable[[Caller | None], CycleCall] = call_alone

    def begin(self) -> None:
        self.begun = True


class Counted:
    """A ledger, its clock, and accounts under a bound of the program and of conversations."""

    def __init__(self, program: int | None = None, conversation: int | None = None) -> None:
        self.clock, self.looks, self.weights = ManualClock(), Looks(), Weights()
        self.program, self.conversation = program, conversation
        self.ledger = Ledger(self.clock, self._order, self.looks)

    def _order(self) -> FairOrder[Place]:
        return FairOrder(lambda place: place.asked.asker.party, self.weights)

    def account(
        self, agent: str = "ann", log: str = "log", call: int | None = None, ends: Node | None = None
    ) -> Account:
        bounds = [Bound("conversation", log, self.conversation)] if self.conversation is not None else []
        bounds += [Bound("program", "", self.program)] if self.program is not None else []
        return Account(
            self.ledger,
            Party("", agent),
            {
                What.PROCESSES: tuple(bounds),
                What.HANDLES: tuple(bounds),
            },
            ends=ends,
            caller=(log, call) if call is not None else None,
        )

    def place(self, account: Account, what: What = What.PROCESSES, *, used: bool = True) -> Place:
        """used: it is in use until its task goes on; else it is kept."""
        asked = Asked(account, account)
        if not used:
            return Place(asked, what, "a thing")
        return Place(asked, what, "a thing", lambda place: (place.task,))

    @property
    def held(self) -> dict[tuple[str, str], int]:
        return {(one.scope, one.name): one.held for one in self.ledger.uses() if one.what is not What.BYTES}
