"""Weights of agents and tenants where many wait: given while the kernel runs, stored, and in force again when it opens."""

from __future__ import annotations

from agentos.components import Share, Shares
from agentos.errors import UnknownAgent
from agentos.events.kinds import SharesChanged
from agentos.ids import Kind, LogId, Name, agent_id, hashed_id
from agentos.kernel.administration import Administration
from agentos.kernel.beginning import tenant_named
from agentos.kernel.catalog import Catalog
from agentos.persistence.base import Store
from agentos.resources.fairness import WEIGHT, Weights, check_weight

PROGRAM_LOG = LogId(hashed_id(Kind.PROGRAM, "program"))
"""The log of whatever holds for all that runs on a store."""


class LiveShares:
    """Changes weights, here and in the log."""

    def __init__(self, weights: Weights, administration: Administration, store: Store, catalog: Catalog) -> None:
        self._weights, self._administration = weights, administration
        self._store, self._catalog = store, catalog

    async def open(self) -> None:
        """Those that were given before are in force."""
        for component in await self._administration.told(PROGRAM_LOG):
            if isinstance(component, Shares):
                self._weights.agents.update({share.name: share.weight for share in component.agents})
                self._weights.tenants.update({share.name: share.weight for share in component.tenants})

    def now(self) -> Shares:
        """Those that are in force, but for the weight that everybody has."""
        return Shares(agents=_listed(self._weights.agents), tenants=_listed(self._weights.tenants))

    async def renice(self, name: str, weight: float, *, tenant: bool) -> bool:
        """See `Kernel.renice`."""
        check_weight(name, weight)
        if not tenant and not await self._is_known(name):
            raise UnknownAgent(name, list(self._catalog.agents))
        given = self._weights.tenants if tenant else self._weights.agents
        given[tenant_named(name) if tenant else Name(name)] = float(weight)
        return await self._administration.tell(PROGRAM_LOG, Kind.PROGRAM, SharesChanged(), self.now())

    async def _is_known(self, slug: str) -> bool:
        return Name(slug) in self._catalog.agents or await self._store.log(agent_id(slug)) is not None


def _listed(weights: dict[str, float]) -> tuple[Share, ...]:
    return tuple(Share(Name(name), weight) for name, weight in sorted(weights.items()) if weight != WEIGHT)
