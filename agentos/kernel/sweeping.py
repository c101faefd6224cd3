"""Erases what has had its time by the retention rules: at a word, and from time to time while a kernel runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from agentos.clock import Clock
from agentos.errors import ConversationClosed, EraseRefused, StoreUnavailable
from agentos.ids import LogId, Name
from agentos.kernel.erase_plan import ErasePlan, erase_plan_of, target_of
from agentos.kernel.erasing import Erasing
from agentos.kernel.erasure import Erasure
from agentos.kernel.retention import Rested, Rules, Sweep, has_expired
from agentos.persistence.base import Store

_log = logging.getLogger(__name__)
BY, REASON = "agentos", Name("retention")
ERASED_MAX = 100
"""How many conversations a sweep erases that a kernel makes by itself."""
LOOKED_AT_MAX = 20_000
"""How many conversations such a sweep looks at; the next one goes on behind them."""

TellLeft = Callable[[LogId, str], None]
"""Told a conversation that has had its time and is left, and why."""


def log_left(log: LogId, why: str) -> None:
    _log.warning("%s has had its time and is left: %s", log, why)


class Sweeping:
    """The sweeps of one kernel."""

    def __init__(self, store: Store, erasing: Erasing, rules: Rules, clock: Clock) -> None:
        self._store, self._erasing, self._rules, self._clock = store, erasing, rules, clock

    async def expired(self, limit: int) -> list[Rested]:
        """Those that have had their time, the least recently updated first; nothing is erased."""
        found: list[Rested] = []
        async for rested in Sweep(self._store, self._rules).expired(self._clock.now()):
            found.append(rested)
            if len(found) >= limit:
                break
        return found

    async def erase_expired(self, limit: int, tell: TellLeft = log_left, sweep: Sweep | None = None) -> list[Erasure]:
        """See `Kernel.erase_expired`."""
        found: list[Erasure] = []
        sweep = sweep or Sweep(self._store, self._rules)
        async for rested in sweep.expired(self._clock.now()):
            erasure = await self._erase(rested, tell)
            if erasure is not None:
                found.append(erasure)
            if len(found) >= limit:
                break
        settled = await self._store.settle_erased() if found else True
        return [msgspec.structs.replace(erasure, settled=settled) for erasure in found]

    async def keep_sweeping(self, every_s: float) -> None:
        """A store that is out of reach is asked again the next time; whatever else goes wrong is told, and stops nothing."""
        sweep = Sweep(self._store, self._rules, LOOKED_AT_MAX)
        while True:
            await self._clock.sleep(every_s)
            try:
                await self.erase_expired(ERASED_MAX, log_left, sweep)
            except StoreUnavailable:
                continue
            except Exception as error:
                _log.error("the sweep of expired conversations failed: %s: %s", type(error).__name__, error)

    async def _erase(self, rested: Rested, tell: TellLeft) -> Erasure | None:
        """One that has forks goes with them when these have expired too; else it is left, as is one that is at work."""
        try:
            plan = await erase_plan_of(self._store, rested.log, forks=True)
            if plan.itself.erased_at is not None:  # with what it is a fork of, in this sweep
                return None
            fork = await self._living_on(plan)
            if fork is not None:
                tell(rested.log, f"its fork {fork} has not expired")
                return None
            return await self._erasing.erase_unsettled(rested.log, BY, REASON, forks=True)
        except (EraseRefused, ConversationClosed) as error:
            tell(rested.log, str(error))
            return None

    async def _living_on(self, plan: ErasePlan) -> LogId | None:
        """A fork that has not expired."""
        for fork in plan.forks:
            target = await target_of(self._store, fork)
            rule = await self._rules.of(target.agent, fork)
            if not has_expired(rule, target.updated_at, self._clock.now()):
                return fork
        return None
