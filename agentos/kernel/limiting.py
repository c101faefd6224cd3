"""Whom the bounds of a kernel hold, and on whose account: which turns and calls may be at once, by what Settings and agent
files say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentos.components import CallConfig, ConversationConfig, ConversationState, TurnConfig
from agentos.definitions import AgentSpec
from agentos.ids import CONVERSATION, CallId, LogId, Name, log_and_seq
from agentos.journal.projections import Find
from agentos.kernel.top import LimitUse
from agentos.resources import Lease, Slots
from agentos.resources.borrowing import Caller
from agentos.resources.bounds import Ledger
from agentos.resources.fairness import FairOrder, Party, Weights
from agentos.resources.places import Bound, Places, PlaceStatistics
from agentos.settings import Settings
from agentos.world import World

PROGRAM = Party("", "program")
"""On whose account the program itself borrows."""


class Limiting:
    """What places and lines need to know of conversations: their parties, and their bounds."""

    def __init__(self, world: World, agents: Mapping[Name, AgentSpec], settings: Settings, weights: Weights) -> None:
        self._world, self._agents, self._settings, self.weights = world, agents, settings, weights

    def turns(self, granted: Callable[[LogId], None]) -> Places[LogId]:
        """Places for turns, each by the log of its conversation."""
        return Places(self._turn_bounds, lambda: FairOrder(self.party_of, self.weights), granted)

    def calls(self, granted: Callable[[Caller], None]) -> Places[Caller]:
        return Places(self._call_bounds, self.order_of_calls, granted)

    def order_of_calls(self) -> FairOrder[Caller]:
        return FairOrder(lambda caller: self.party_of(LogId(caller[0])), self.weights)

    def order_of_leases(self) -> FairOrder[Lease[Any]]:
        return FairOrder(self._party_of_lease, self.weights)

    def party_of(self, log: LogId) -> Party:
        slice_ = self._world.slice(log)
        config = slice_.get(CONVERSATION, ConversationConfig) if slice_ is not None else None
        return Party(config.tenant or "", config.slug) if config is not None else Party("", "-")

    def _party_of_lease(self, lease: Lease[Any]) -> Party:
        caller = lease.by.caller
        return self.party_of(LogId(caller[0])) if caller is not None else PROGRAM

    def _turn_bounds(self, log: LogId) -> list[Bound]:
        party, said = self.party_of(log), self._settings
        spec = self._agents.get(Name(party.agent))
        own = spec.turns_at_once if spec is not None else None
        sizes = (own or said.agent_turns_max, said.tenant_turns_max, said.turns_max)
        return bounds_named((("agent", party.agent), ("tenant", party.tenant), ("program", "")), sizes)

    def _call_bounds(self, caller: Caller) -> list[Bound]:
        log, said = LogId(caller[0]), self._settings
        party = self.party_of(log)
        spec = self._agents.get(Name(party.agent))
        own = spec.calls_at_once if spec is not None else None
        sizes = (said.conversation_calls_max, own or said.agent_calls_max, said.tenant_calls_max, said.calls_max)
        scopes = (("conversation", log), ("agent", party.agent), ("tenant", party.tenant), ("program", ""))
        return bounds_named(scopes, sizes)

    def within_running_call(self, log: LogId, find: Find | None = None) -> bool:
        """Whether what this conversation works for was asked for within a call that runs, here or further up: that call
        waits for it with a place of its own, so it goes by that place, or nobody might ever go on. find is that of a view,
        which may be ahead of the World."""
        seen: set[LogId] = set()
        causes = causes_of(find) if find is not None else self._causes(log)
        while causes:
            above, call = log_and_seq(causes.pop())
            slice_ = self._world.slice(above)
            config = slice_.get(call, CallConfig) if slice_ is not None else None
            if config is None:
                continue
            if config.parent is not None:
                return True
            if above not in seen:
                seen.add(above)
                causes += self._causes(above)
        return False

    def _causes(self, log: LogId) -> list[CallId]:
        """The delegations that its open turn works for, and those whose tasks wait."""
        slice_ = self._world.slice(log)
        return causes_of(slice_.get) if slice_ is not None else []


class Bounded(Protocol):
    """What tells how much of its bounds is in use."""

    def statistics(self) -> list[PlaceStatistics]: ...


def limits_of(turns: Bounded | None, slots: Slots, ledger: Ledger | None = None) -> list[LimitUse]:
    """The bounds that something falls under now."""
    taken = [
        LimitUse(of=one.what, scope=one.scope, name=one.name, size=one.size, held=one.held, waiting=len(one.waiters))
        for one in (ledger.uses() if ledger is not None else ())
    ]
    places = (("turns", turns), ("calls", slots.at_once))
    return [
        LimitUse(of=of, scope=one.scope, name=one.name, size=one.size, held=one.held, waiting=one.waiting)
        for of, bounded in places
        if bounded is not None
        for one in bounded.statistics()
    ] + taken


def causes_of(find: Find) -> list[CallId]:
    state = find(CONVERSATION, ConversationState)
    if state is None:
        return []
    turn = find(state.open_turn, TurnConfig) if state.open_turn else None
    waiting = [input_.cause for input_ in state.waiting if input_.cause is not None]
    return [*(turn.causes if turn is not None else ()), *waiting]


def bounds_named(scopes: tuple[tuple[str, str], ...], sizes: tuple[int | None, ...]) -> list[Bound]:
    """The bounds that are set. What has no tenant falls under no bound of one, and so with every scope but the program."""
    named = zip(scopes, sizes, strict=True)
    return [Bound(scope, name, size) for (scope, name), size in named if size and (name or scope == "program")]
