"""A deadlock in names: what its entry keeps, and the words that the one it ends hears."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentos.components import CycleCall, CycleLink
from agentos.ids import Name, call_id, name_of
from agentos.resources.borrowing import Caller
from agentos.resources.wait_graph import Wait

NAMED_MAX = 10
"""How many of those who hold a resource one link names."""


def link_of(wait: Wait, named: Callable[[Caller | None], CycleCall]) -> CycleLink:
    """One wait of a cycle; named says which agent and turn a call belongs to."""
    holders = tuple(named(holder) for holder in wait.holders[:NAMED_MAX])
    return CycleLink(waiter=named(wait.caller), resource=name_of(wait.resource), holders=holders)


def call_alone(caller: Caller | None) -> CycleCall:
    """A call by its id, where nobody knows whose it is."""
    return CycleCall(agent=Name("program"), call=call_id(*caller) if caller is not None else None)


def sentences(cycle: Sequence[CycleLink]) -> list[str]:
    """One for each wait: who waits, in which turn, for what, and who has it."""
    return [f"{_who(link.waiter)} waits for {link.resource}, which {_holders(link)}" for link in cycle]


def _holders(link: CycleLink) -> str:
    names = [_who(holder) for holder in link.holders]
    return f"{' and '.join(names) or 'somebody'} {'hold' if len(names) > 1 else 'holds'}"


def _who(call: CycleCall) -> str:
    where = " in ".join(id_ for id_ in (call.call, call.turn) if id_ is not None)
    return f"agent {call.agent} ({where})" if where else str(call.agent)
