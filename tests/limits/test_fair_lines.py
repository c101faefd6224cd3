"""Fairness in the line of a resource: an agent with a thousand that wait holds up another's one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentos.components import Pattern
from agentos.ids import LogId
from agentos.ports import CallContext
from agentos.resources import Borrower, Factory, Level, Resources, Scope
from agentos.resources.fairness import FairOrder, Party, Weights
from agentos.resources.shared import Shared
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialIds
from tests.limits.test_calls_at_once import asks
from tests.resources.lending import printer
from tests.support import Lab, Mind, call, calls, lab, settled

NOISY = 1_000
Others = dict[str, tuple[Mind, Mapping[str, Any]]]


@asynccontextmanager
async def line(pattern: Pattern, weights: Weights) -> AsyncIterator[Shared[Any]]:
    """One resource of a table whose lines are shared fairly; a borrower's party is said by its log: `tenant/agent`."""
    resources = Resources(ManualClock(), SequentialIds(1), hold_warn_s=60, wait_warn_s=60)

    def party_of(lease: Any) -> Party:
        tenant, _, agent = lease.by.caller[0].partition("/")
        return Party(tenant, agent)

    resources.order = lambda: FairOrder(party_of, weights)
    scope = Scope(Level.PROGRAM, "program", release_s=5)

    async def make() -> str:
        return "handle"

    yield await resources.create(scope, "device", "printer", Factory(make), pattern=pattern)
    await scope.close()


class Line:
    """Borrowers of one resource, on the account of a log each; served names them in their order."""

    def __init__(self, shared: Shared[Any]) -> None:
        self.shared, self.served = shared, list[str]()
        self._tasks: list[asyncio.Task[None]] = []
        self.at: dict[int, Callable[[], None]] = {}
        """What is done when so many have been served."""

    async def stand(self, log: str, count: int) -> None:
        self._tasks += [asyncio.create_task(self._borrow(log, n)) for n in range(count)]
        await asyncio.sleep(0)

    async def _borrow(self, log: str, n: int) -> None:
        async with self.shared.borrow(Borrower(caller=(LogId(log), n))):
            self.served.append(log)
            self.at.get(len(self.served), _nothing)()

    async def all(self) -> list[str]:
        await asyncio.gather(*self._tasks)
        return self.served


HOLDER = Borrower(caller=(LogId("/holder"), 0))


@pytest.mark.parametrize("pattern", [Pattern.EXCLUSIVE, Pattern.READ_WRITE, Pattern.POOL])
async def test_one_that_waits_beside_a_thousand_of_another_agent_is_served_after_one_of_them(pattern: Pattern) -> None:
    async with line(pattern, Weights()) as shared:
        them = Line(shared)
        async with shared.borrow(HOLDER):
            await them.stand("/noisy", NOISY)
            await them.stand("/quiet", 1)
            stood = len(shared.statistics().waiters)
        served = await them.all()

    assert (stood, len(served)) == (NOISY + 1, NOISY + 1)
    assert served.index("/quiet") == 1


async def test_a_tenant_with_a_hundred_agents_that_wait_has_no_more_of_a_resource_than_one_with_a_single_agent() -> (
    None
):
    async with line(Pattern.EXCLUSIVE, Weights()) as shared:
        them = Line(shared)
        async with shared.borrow(HOLDER):
            for n in range(100):
                await them.stand(f"big/agent{n}", 10)
            await them.stand("small/only", 50)
        served = await them.all()

    assert served[:100].count("small/only") == 50


async def test_a_weight_that_is_given_while_many_wait_counts_from_the_next_that_comes_in() -> None:
    weights = Weights()
    async with line(Pattern.EXCLUSIVE, weights) as shared:
        them = Line(shared)
        them.at[40] = lambda: weights.agents.update(heavy=3.0)
        async with shared.borrow(HOLDER):
            await them.stand("/light", 200)
            await them.stand("/heavy", 200)
        served = await them.all()

    assert served[:40].count("/heavy") == 20
    assert 74 <= served[40:140].count("/heavy") <= 76


class Press:
    """A tool that prints on the printer of the program, a page when it is told to."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._open: list[asyncio.Future[None]] = []

    async def work(self, who: str, context: CallContext) -> str:
        async with context.borrow("printer"):
            self.began.append(who)
            door: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._open.append(door)
            await door
        return "printed"

    def end_one(self) -> bool:
        if not self._open:
            return False
        self._open.pop(0).set_result(None)
        return True

    async def end_all(self, here: Lab, until: str | None = None) -> None:
        while until not in self.began and self.end_one():
            await settled(here.kernel)


async def test_an_agent_with_a_thousand_borrowing_calls_delays_the_one_of_another_by_one() -> None:
    """A stateless toolbox has no slots: all calls run, and stand in the line of the resource."""
    press = Press()
    conversations, each = 5, 200
    noisy = [calls(*(call("work", who=f"{n}-{i}") for i in range(each))) for n in range(conversations)]
    others: Others = {"quiet": (Mind(asks, "done"), {})}
    async with lab(Mind(*noisy), [press.work], others=others, call_limit=each) as here:
        await printer(here)
        asked = [asyncio.create_task((await here.start()).ask("go")) for _ in range(conversations)]
        await settled(here.kernel)
        (open_,) = await here.kernel.lsof("printer")
        asked.append(asyncio.create_task((await here.start("quiet")).ask("quiet")))
        await settled(here.kernel)
        before = len(press.began)
        await press.end_all(here, until="quiet")
        delayed = len(press.began) - 1 - before
        for task in asked:
            task.cancel()

    assert len(open_.waiters) == conversations * each - 1
    assert delayed <= 1


async def test_lsof_tells_the_weights_and_the_tenant_of_whoever_waits() -> None:
    press = Press()
    others: Others = {"heavy": (Mind(asks, "done"), {})}
    async with lab(Mind(asks, "done"), [press.work], others=others) as here:
        await printer(here)
        await here.kernel.renice("heavy", 2.5)
        await here.kernel.renice("acme", 4, tenant=True)
        asked = []
        for agent, tenant in (("main", None), ("heavy", "acme")):
            talk = await here.kernel.start(agent, tenant=tenant)
            asked.append(asyncio.create_task(talk.ask(agent)))
            await settled(here.kernel)
        (open_,) = await here.kernel.lsof("printer")
        await press.end_all(here)
        await asyncio.gather(*asked)

    (holder,), (waiter,) = open_.holders, open_.waiters
    assert (holder.tenant, holder.weight, holder.tenant_weight) == (None, 1.0, 1.0)
    assert (waiter.tenant, waiter.weight, waiter.tenant_weight) == ("acme", 2.5, 4.0)


def _nothing() -> None:
    return None
