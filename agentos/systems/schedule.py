"""What a system is, the order they are asked in, and one pass.

A pass asks the first system that has something to decide, takes its decision over, and begins again, until none has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from agentos.components import Component, Outcome, Phase, TurnState
from agentos.errors import SystemRaised
from agentos.events.entry import Draft
from agentos.events.kinds import TurnCancelling
from agentos.ids import CONVERSATION, Digest, Name, name_of
from agentos.systems.ending import RAISED, settling, stopping
from agentos.systems.rules import rules_digest
from agentos.world import Decision, View
from agentos.world.view import NOTHING

Decide = Callable[[View, int], Decision]
"""A synchronous pure function of a View and the entity it is over: the open turn, or 0 for the conversation."""


class System(msgspec.Struct, frozen=True):
    """A named pure function. over says which component the entity has that it is asked about; phases, when it is over
    turns, in which phases; after names the system it comes right behind in the schedule. reports says that in an open
    turn it only answers what has arrived: it is not asked while the intake is empty."""

    name: Name
    decide: Decide
    over: type[Component]
    phases: frozenset[Phase] = frozenset()
    after: Name | None = None
    reports: bool = False

    def __call__(self, view: View, entity: int) -> Decision:
        return self.decide(view, entity)


def system(
    *,
    over: type[Component],
    phase: Phase | Sequence[Phase] = (),
    after: str | None = None,
    reports: bool = False,
) -> Callable[[Decide], System]:
    """Makes a system of a function. It must not wait, ask the time, draw randomly, or change what it sees."""
    phases = frozenset((phase,) if isinstance(phase, Phase) else phase)

    def make(decide: Decide) -> System:
        return System(name_of(decide.__name__), decide, over, phases, Name(after) if after else None, reports)

    return make


class Schedule:
    """Systems in the order in which they are asked. asked has those that may have something to decide while the open turn
    is in a phase (None when there is no open turn), without intake and with it."""

    def __init__(self, systems: Sequence[System]) -> None:
        self.systems = tuple(systems)
        self.asked: dict[Phase | None, tuple[tuple[System, ...], tuple[System, ...]]] = {
            phase: (self._asked(phase, reports=False), self._asked(phase, reports=True)) for phase in (None, *Phase)
        }

    def _asked(self, phase: Phase | None, *, reports: bool) -> tuple[System, ...]:
        return tuple(
            system
            for system in self.systems
            if (system.over is not TurnState or phase in system.phases)
            and (reports or not system.reports or phase is None)
        )

    def with_systems(self, added: Sequence[System]) -> Schedule:
        """With a user's systems, each right after the one it names, else before settle."""
        systems = list(self.systems)
        for new in added:
            names = [s.name for s in systems]
            if new.name in names:
                raise ValueError(f"a system named {new.name!r} is in the schedule already")
            behind = new.after if new.after is not None else names[-2]
            if behind not in names:
                raise ValueError(f"system {new.name!r} comes after {behind!r}, which is not in the schedule: {names}")
            systems.insert(names.index(behind) + 1, new)
        return Schedule(systems)

    def digest(self) -> Digest:
        """Names the rules: see `rules_digest`."""
        return rules_digest([(system.name, system.decide) for system in self.systems])


class PassFailure(msgspec.Struct, frozen=True):
    """A system that raised in a pass, and what."""

    system: Name
    error: SystemRaised


def run_pass(view: View, schedule: Schedule, decisions_max: int) -> list[PassFailure]:
    """Runs one pass to its end and says which systems raised; each of those fails the open turn, and nothing else."""
    failures: list[PassFailure] = []
    silenced: set[Name] = set()
    asked, intake = schedule.asked, view.intake
    for _ in range(decisions_max):
        for candidate in asked[view.phase][1 if intake else 0]:
            if silenced and candidate.name in silenced:
                continue
            try:
                decision = candidate.decide(view, view.turn if candidate.over is TurnState else CONVERSATION)
                if decision is NOTHING:
                    continue
                view.add(decision)
            except Exception as error:
                _fail(view, candidate.name, error, failures, silenced)
            break
        else:
            return failures
    _fail(view, Name("pass"), RuntimeError(f"over pass_decisions_max ({decisions_max})"), failures, silenced)
    return failures


def _fail(view: View, name: Name, error: Exception, failures: list[PassFailure], silenced: set[Name]) -> None:
    """The raising system is not asked again in this pass, and the open turn begins to settle as failed."""
    failures.append(PassFailure(name, SystemRaised(name, error)))
    silenced.add(name)
    turn = view.turn
    if not turn or view.phase is Phase.SETTLING:
        return
    why = Name(f"{RAISED}{name}")
    after = settling(view, Outcome.FAILED, why)
    draft = Draft(data=TurnCancelling(reason=why, decided=True), turn=turn, changes=((turn, after),))
    view.add(stopping(view, draft, view.pinned(turn).limits.cancel_grace_s))
