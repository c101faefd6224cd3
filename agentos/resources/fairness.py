"""Fair shares: of those in line, who comes in next, so that nobody's many hold up another's one.

Whoever stands in line belongs to a party: a tenant, and an agent of it. Tenants share a room by their weights, the agents
of a tenant share what falls to it by theirs, and within an agent it is first come, first served. One that has nobody in
line saves nothing up: when it comes again it stands beside the others, not before them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from agentos.errors import InputRefused

K = TypeVar("K", bound=Hashable)

WEIGHT = 1.0
"""The weight of an agent or tenant that nobody has given one."""
WEIGHT_MIN, WEIGHT_MAX = 0.001, 1_000.0
"""Bounds of a weight: one of the least still gets a place for every million of one that has the most."""


class Party(NamedTuple):
    """On whose account somebody stands in line. The tenant is empty where there is none."""

    tenant: str
    agent: str


class Weights:
    """The weights of agents and of tenants, as they are now; a change counts from the next that comes in."""

    def __init__(self) -> None:
        self.agents: dict[str, float] = {}
        self.tenants: dict[str, float] = {}

    def agent(self, name: str) -> float:
        return self.agents.get(name, WEIGHT)

    def tenant(self, name: str) -> float:
        return self.tenants.get(name, WEIGHT)


def check_weight(name: str, weight: float) -> None:
    """Raises InputRefused for one that is out of bounds, or is no number."""
    if not WEIGHT_MIN <= weight <= WEIGHT_MAX:
        raise InputRefused(f"weight {weight:g} of {name}: it lies between {WEIGHT_MIN:g} and {WEIGHT_MAX:g}")


class _Shares:
    """Self-clocked fair queueing over names, each step of length 1.

    A name that has somebody in line has the tag at which its next begins: what it ends with, 1 / weight later, is what all
    are compared by, and the end of the last one is the time. Nothing is known of names with nobody in line.
    Source: S. J. Golestani, A Self-Clocked Fair Queueing Scheme for Broadband Applications, INFOCOM 1994.
    """

    __slots__ = ("_begins", "_now", "_weight")

    def __init__(self, weight: Callable[[str], float]) -> None:
        self._weight = weight
        self._now = 0.0
        self._begins: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether anybody is in line."""
        return bool(self._begins)

    def join(self, name: str) -> None:
        self._begins.setdefault(name, self._now)

    def leave(self, name: str) -> None:
        del self._begins[name]

    def first(self) -> str:
        """Of equals the one that has been in line longest."""
        return min(self._begins, key=self._end)

    def serve(self, name: str) -> None:
        self._now = self._begins[name] = self._end(name)

    def _end(self, name: str) -> float:
        return self._begins[name] + 1.0 / self._weight(name)


class FairOrder(Generic[K]):
    """The order of one room's line; see `agentos.resources.room.Order`.

    A step costs as much as there are tenants in line, and agents of one of them, however many wait. party_of is asked once
    for each, as it joins. Of those that are not in line nothing is kept, but for the shares of a tenant in line.
    """

    def __init__(self, party_of: Callable[[K], Party], weights: Weights) -> None:
        self._party_of, self._weights = party_of, weights
        self._tenants = _Shares(weights.tenant)
        self._agents: dict[str, _Shares] = {}
        self._queues: dict[Party, dict[K, None]] = {}
        self._parties: dict[K, Party] = {}

    def joined(self, who: K) -> None:
        party = self._parties[who] = self._party_of(who)
        self._tenants.join(party.tenant)
        if party.tenant not in self._agents:
            self._agents[party.tenant] = _Shares(self._weights.agent)
        self._agents[party.tenant].join(party.agent)
        self._queues.setdefault(party, {})[who] = None

    def entered(self, who: K) -> None:
        tenant, agent = self._parties[who]
        self._tenants.serve(tenant)
        self._agents[tenant].serve(agent)
        self.left(who)

    def left(self, who: K) -> None:
        party = self._parties.pop(who)
        queue = self._queues[party]
        del queue[who]
        if queue:
            return
        del self._queues[party]
        agents = self._agents[party.tenant]
        agents.leave(party.agent)
        if not agents:
            del self._agents[party.tenant]
            self._tenants.leave(party.tenant)

    def next(self) -> K:
        tenant = self._tenants.first()
        return next(iter(self._queues[Party(tenant, self._agents[tenant].first())]))
