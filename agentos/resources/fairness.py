"""Fair shares: of those in line, who comes in next, so that nobody's many hold up another's one.

Whoever stands in line belongs to a party: a tenant, and an agent of it. Tenants share a room by their weights, the agents
of a tenant share what falls to it by theirs, and within an agent it is first come, first served. One that has nobody in
line saves nothing up: when it comes again it stands beside the others, not before them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)


class Party(NamedTuple):
    """On whose account somebody stands in line. The tenant is empty where there is none."""

    tenant: str
    agent: str


WEIGHT = 1.0
"""The weight of an agent or tenant that nobody has given one."""
WEIGHT_MIN, WEIGHT_MAX = 0.001, 1_000.0
"""Bounds of a weight: one of the least still gets a place for every million that one of the most gets."""


class Weights:
    """The weights of agents and of tenants, as they are now; a change counts from the next that comes in."""

    def __init__(self) -> None:
        self.agents: dict[str, float] = {}
        self.tenants: dict[str, float] = {}

    def agent(self, name: str) -> float:
        return self.agents.get(name, WEIGHT)

    def tenant(self, name: str) -> float:
        return self.tenants.get(name, WEIGHT)


class _Clock(Generic[P]):
    """Start-time fair queueing over names: each that comes in moves its own tag on by 1 / weight.

    now is the tag at which the last one began; a name without a tag, or with one that is past, begins now.
    Source: P. Goyal, H. Vin, H. Cheng, Start-Time Fair Queueing, SIGCOMM 1996, with all requests of length 1.
    """

    __slots__ = ("_tags", "now")

    def __init__(self, now: float = 0.0, tags: Mapping[P, float] | None = None) -> None:
        self.now = now
        self._tags: dict[P, float] = dict(tags or {})

    def start(self, name: P) -> float:
        return max(self.now, self._tags.get(name, 0.0))

    def first(self, names: Iterable[P]) -> P:
        """The one that begins first; of equals the one named first."""
        return min(names, key=self.start)

    def charge(self, name: P, weight: float) -> None:
        start = self.start(name)
        self.now = max(self.now, start)
        self._tags[name] = start + 1.0 / weight
        if len(self._tags) > 2 * TAGS_KEPT:
            self._tags = {name: tag for name, tag in self._tags.items() if tag > self.now}

    def copy(self) -> _Clock[P]:
        return _Clock(self.now, self._tags)


TAGS_KEPT = 1_000
"""After twice so many names, those whose tags are past are forgotten: they would begin now in any case."""


class FairOrder(Generic[K]):
    """The order of one room's line; see `agentos.resources.room.Order`.

    A step costs as much as there are parties in line, however many wait. A party is asked for once, as one joins.
    """

    def __init__(self, party_of: Callable[[K], Party], weights: Weights) -> None:
        self._party_of, self._weights = party_of, weights
        self._tenants: _Clock[str] = _Clock()
        self._agents: dict[str, _Clock[str]] = {}
        self._queues: dict[str, dict[str, dict[K, None]]] = {}
        self._parties: dict[K, Party] = {}

    def joined(self, who: K) -> None:
        party = self._parties[who] = self._party_of(who)
        self._queues.setdefault(party.tenant, {}).setdefault(party.agent, {})[who] = None

    def left(self, who: K) -> None:
        tenant, agent = self._parties.pop(who)
        agents = self._queues[tenant]
        del agents[agent][who]
        if not agents[agent]:
            del agents[agent]
        if not agents:
            del self._queues[tenant]

    def entered(self, who: K) -> None:
        tenant, agent = self._parties[who]
        self.left(who)
        self._tenants.charge(tenant, self._weights.tenant(tenant))
        self._agents_of(tenant).charge(agent, self._weights.agent(agent))
        if len(self._agents) > 2 * TAGS_KEPT:
            self._agents = {name: self._agents_of(name) for name in self._queues}

    def next(self) -> K:
        tenant = self._tenants.first(self._queues)
        agents = self._queues[tenant]
        return next(iter(agents[self._agents_of(tenant).first(agents)]))

    def copy(self) -> FairOrder[K]:
        twin = FairOrder(self._party_of, self._weights)
        twin._tenants = self._tenants.copy()
        twin._agents = {tenant: clock.copy() for tenant, clock in self._agents.items()}
        twin._queues = {t: {a: dict(queue) for a, queue in agents.items()} for t, agents in self._queues.items()}
        twin._parties = dict(self._parties)
        return twin

    def _agents_of(self, tenant: str) -> _Clock[str]:
        clock = self._agents.get(tenant)
        if clock is None:
            clock = self._agents[tenant] = _Clock()
        return clock
