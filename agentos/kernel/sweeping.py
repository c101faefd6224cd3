"""Erases what has had its time by the retention rules: at a word, and from time to time while a kernel runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Collection

import msgspec

from agentos.clock import Clock
from agentos.errors import ConversationClosed, EraseRefused, StoreUnavailable
from agentos.ids import LogId, Name
from agentos.kernel.erase_plan import ErasePlan, erase_plan_of, target_of
from agentos.kernel.erasing import Erasing
from agentos.kernel.erasure import Erasure, Receipt
from agentos.kernel.retention import Rested, Rules, Sweep, has_expired
from agentos.kernel.search_beside import forget_beside
from agentos.persistence.base import Store

_log = logging.getLogger(__name__)
BY, REASON = "agentos", Name("retention")
ERASED_MAX = 100
"""How many conversations a sweep erases that a kernel makes by itself."""
LOOKED_AT_MAX = 20_000
"""How many conversations such a sweep looks at; the next one goes on behind them."""
AGAIN_S = 60.0
"""How soon the next sweep comes after one that ended at one of these bounds."""
CLOCK_JUMP_S = 300.0
"""When the wall clock goes forward by so much more than time has passed since the last look, that sweep is left out."""

TellLeft = Callable[[LogId, str], None]
"""Told a conversation that has had its time and is left, and why."""


def log_left(log: LogId, why: str) -> None:
    _log.warning("%s has had its time and is left: %s", log, why)


class Sweeping:
    """The sweeps of one kernel."""

    def __init__(self, store: Store, erasing: Erasing, rules: Rules, clock: Clock) -> None:
        self._store, self._erasing, self._rules, self._clock = store, erasing, rules, clock

    async def expired(self, limit: int, tell: TellLeft = log_left) -> list[ErasePlan]:
        """See `Kernel.expired`."""
        return [plan async for plan in self._going(Sweep(self._store, self._rules), tell, limit=limit)]

    async def erase_expired(
        self,
        limit: int,
        tell: TellLeft = log_left,
        among: Collection[str] | None = None,
        sweep: Sweep | None = None,
    ) -> list[Erasure]:
        """See `Kernel.erase_expired`."""
        found: list[Erasure] = []
        gone: set[LogId] = set()
        try:
            async for plan in self._going(sweep or Sweep(self._store, self._rules), tell, among, limit=limit):
                erasure = await self._erase(plan, gone, tell)
                if erasure is not None:
                    found.append(erasure)
        finally:  # once for all: each time costs as much as the index is large
            index = await forget_beside(self._store.url, gone)
        settled = await self._store.settle_erased() if gone else True
        return [msgspec.structs.replace(erasure, index=index, settled=settled) for erasure in found]

    async def _erase(self, plan: ErasePlan, gone: set[LogId], tell: TellLeft) -> Erasure | None:
        """No fork that is newer, and nothing that goes on now."""
        receipts: dict[LogId, Receipt] = {}
        try:
            return await self._erasing.erase_planned(plan, BY, REASON, receipts, forks=False, tries=1)
        except (EraseRefused, ConversationClosed) as error:
            tell(plan.conversation, str(error))
            return None
        finally:
            gone.update(receipts)

    async def keep_sweeping(self, every_s: float) -> None:
        """A store that is out of reach is asked again the next time; whatever else goes wrong is told, and stops nothing."""
        sweep = Sweep(self._store, self._rules, LOOKED_AT_MAX)
        ahead_s, wait_s = self._ahead_s(), every_s
        while True:
            await self._clock.sleep(wait_s)
            wait_s = every_s
            before_s, ahead_s = ahead_s, self._ahead_s()
            if ahead_s - before_s > CLOCK_JUMP_S:
                _log.warning(_JUMPED, ahead_s - before_s, every_s)
                continue
            try:
                found = await self.erase_expired(ERASED_MAX, log_left, sweep=sweep)
                if len(found) >= ERASED_MAX or not sweep.is_through:
                    wait_s = min(every_s, AGAIN_S)
            except StoreUnavailable:
                continue
            except Exception as error:
                _log.error("the sweep of expired conversations failed: %s: %s", type(error).__name__, error)

    def _ahead_s(self) -> float:
        """The wall clock against the one that only counts; it moves when somebody sets the wall clock."""
        return self._clock.now() / 1e6 - self._clock.monotonic()

    async def _going(
        self, sweep: Sweep, tell: TellLeft, among: Collection[str] | None = None, *, limit: int
    ) -> AsyncIterator[ErasePlan]:
        """What goes with each that has had its time, and that nothing stands against; so many at most."""
        known: set[LogId] = set()
        count = 0
        if limit < 1:
            return
        async for rested in sweep.expired(self._clock.now()):
            if rested.log in known or (among is not None and rested.log not in among):
                continue
            plan = await self._plan(rested, tell)
            if plan is not None:
                known.update(target.log for target in plan.targets)
                yield plan
                count += 1
                if count >= limit:
                    return

    async def _plan(self, rested: Rested, tell: TellLeft) -> ErasePlan | None:
        """One that has forks goes with them when these have expired too; else it is left, as is one that is at work."""
        plan = await erase_plan_of(self._store, rested.log, forks=True)
        if plan.itself.erased_at is not None:
            return None
        fork = await self._living_on(plan)
        if fork is not None:
            tell(rested.log, f"its fork {fork} has not expired")
            return None
        try:
            await self._erasing.check(plan, forks=True)
        except EraseRefused as error:
            tell(rested.log, str(error))
            return None
        return plan

    async def _living_on(self, plan: ErasePlan) -> LogId | None:
        """A fork that has not expired."""
        for fork in plan.forks:
            target = await target_of(self._store, fork)
            rule = await self._rules.of(target.agent, fork)
            if not has_expired(rule, target.updated_at, self._clock.now()):
                return fork
        return None


_JUMPED = (
    "the clock went forward by %.0f s more than passed: it was set, or the machine slept. Nothing is erased by it now; the"
    " next sweep, in %g s, goes by it"
)
