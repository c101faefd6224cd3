"""On whose account what calls and resources take stands: the bounds of processes, handles and bytes around each of them.

Nothing of it is made in a kernel whose Settings have no such bound.
"""

from __future__ import annotations

from agentos.components import ConversationConfig
from agentos.ids import CONVERSATION, CallId, LogId, Name, log_and_seq
from agentos.kernel.limiting import PROGRAM, Limiting, bounds_named
from agentos.kernel.services import LiveServices
from agentos.resources import Level, Resources, Scope
from agentos.resources.account import SCOPES, Account, Place, What, setting_of
from agentos.resources.bounds import Ledger
from agentos.resources.fairness import FairOrder, Party
from agentos.resources.places import Bound
from agentos.resources.wait_graph import Node
from agentos.settings import Settings
from agentos.world import World

Names = dict[str, str]
"""The name of each scope around something, by the word for it; the program has none."""


def counts_what_resources_take(settings: Settings) -> bool:
    """Whether any bound of it is set."""
    return any(getattr(settings, setting_of(scope, what)) for scope in SCOPES for what in What)


class Accounts:
    """Makes the accounts of calls, of scopes, and of toolboxes that are about to be opened."""

    def __init__(
        self, world: World, services: LiveServices, limiting: Limiting, resources: Resources, settings: Settings
    ) -> None:
        self._world, self._services, self._limiting, self._settings = world, services, limiting, settings
        self.ledger = Ledger(services.clock, self._order, resources.lookout)
        resources.account_of = self.of_scope

    def _order(self) -> FairOrder[Place]:
        return FairOrder(lambda place: place.asked.asker.party, self._limiting.weights)

    def of_call(self, log: LogId, turn: int, call: int) -> Account:
        party = self._limiting.party_of(log)
        config, _ = self._services.call(log, call)
        names = {"conversation": log, "toolbox": config.toolbox or "", "agent": party.agent, "tenant": party.tenant}
        frames = tuple(frame.entity_id for frame in self._services.lineage(log, turn, call).frames)
        return Account(self.ledger, party, self._bounds(names), (log, call), frames, (log, call))

    def of_scope(self, scope: Scope) -> Account:
        """Of what lives there. A turn and a call end by themselves; of wider scopes nobody says when they do."""
        names: Names = {}
        around: Scope | None = scope
        while around is not None:
            if around.level is not Level.PROGRAM:
                names[around.level.name.lower()] = around.path[-1]
            around = around.parent
        if "toolbox" in names:
            # the scope of one that waits for another's end has more behind its name; see `installing`
            names["toolbox"] = names["toolbox"].partition("#")[0]
        party = Party(self._tenant(names.get("conversation")), names.get("agent") or PROGRAM.agent)
        bounds = self._bounds({**names, "tenant": party.tenant})
        return Account(self.ledger, party, bounds, _end_of(scope), scope.path[2:])

    def of_toolbox(self, name: Name, agent: Name | None) -> Account:
        """Of a toolbox, while it has no scope yet."""
        names = {"toolbox": str(name), "agent": agent or ""}
        return Account(self.ledger, Party("", agent or PROGRAM.agent), self._bounds(names))

    def _tenant(self, log: str | None) -> str:
        slice_ = self._world.slice(LogId(log)) if log is not None else None
        config = slice_.get(CONVERSATION, ConversationConfig) if slice_ is not None else None
        return config.tenant or "" if config is not None else ""

    def _bounds(self, names: Names) -> dict[What, tuple[Bound, ...]]:
        scopes = tuple((scope, names.get(scope, "")) for scope in SCOPES)
        return {
            what: tuple(bounds_named(scopes, tuple(getattr(self._settings, setting_of(s, what)) for s in SCOPES)))
            for what in What
        }


def _end_of(scope: Scope) -> Node | None:
    if scope.level is Level.CALL:
        return log_and_seq(CallId(scope.path[-1]))
    return scope.path[-1] if scope.level is Level.TURN else None
