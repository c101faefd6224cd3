"""The doubles that tests are told to use keep the protocols they stand in for."""

from __future__ import annotations

import asyncio

import pytest

from agentos.errors import StoreUnavailable
from agentos.events.model import Message, Role, ToolCall
from agentos.ids import Kind, is_id
from agentos.persistence.base import Verdict
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from agentos.testing.faults import Fault, FaultPlan, FaultyStore
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.testing.log_units import LogUnits
from agentos.testing.pairing import unpaired

for part in ("store", "query", "sharing"):
    pytest.register_assert_rewrite(f"agentos.testing.{part}_contract")

from agentos.testing.store_contract import CONTRACT_SETTINGS, StoreContract, StoreFactory  # noqa: E402


class TestAFaultyStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        data = MemoryStore()
        return lambda: FaultyStore(MemoryStore(data, settings=CONTRACT_SETTINGS), FaultPlan())


@pytest.mark.parametrize(
    ("kind", "told", "stored"),
    [
        ("before", "unavailable", False),
        ("after", "unavailable", True),
        ("conflict", [Verdict.CONFLICT], False),
        ("later", [Verdict.STORED], True),
        ("later_before", "unavailable", False),
        ("later_after", "unavailable", True),
        ("crash_before", "unavailable", False),
        ("crash_after", "unavailable", True),
    ],
)
async def test_each_kind_of_fault_of_an_append(kind: str, told: object, stored: bool) -> None:
    data = MemoryStore()
    store = FaultyStore(data, FaultPlan([Fault("store.append", 2, kind)]))
    log = LogUnits("a", await store.open("x"))
    assert store.append([log.unit()]) == [Verdict.STORED]

    heard: object
    try:
        verdicts = store.append([log.unit()])
        heard = await verdicts if isinstance(verdicts, asyncio.Future) else verdicts
    except StoreUnavailable:
        heard = "unavailable"
    row = await data.log(log.id)

    assert heard == told
    assert row is not None
    assert (row.seq == 2) is stored
    assert store.is_gone is kind.startswith("crash")


async def test_a_store_that_is_gone_is_never_there_again() -> None:
    store = FaultyStore(MemoryStore(), FaultPlan([Fault("store.append", 1, "crash_after")]))
    log = LogUnits("a", await store.open("x"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.append([log.unit()])

    with pytest.raises(StoreUnavailable):
        await store.log(log.id)


def test_a_plan_of_one_seed_always_fails_at_the_same_visits() -> None:
    plans = [FaultPlan(seed=5, rates={"model": {"network": 0.2, "cut": 0.1}}) for _ in range(2)]
    once, again = ([plan.visit("model") for _ in range(200)] for plan in plans)

    assert once == again
    assert {None, "network", "cut"} == set(once)
    assert plans[0].counts() == {f"model {kind}": once.count(kind) for kind in ("network", "cut") if kind in once}


def test_a_quiet_plan_goes_on_counting_visits() -> None:
    plan = FaultPlan([Fault("tool", 2, "raise")])
    plan.quiet = True
    plan.visit("tool")
    plan.quiet = False

    assert plan.visit("tool") == "raise"


def test_timers_are_called_in_order_each_at_its_own_time() -> None:
    clock, seen = ManualClock(), list[tuple[str, float]]()
    clock.call_later(2, lambda: seen.append(("b", clock.monotonic())))
    clock.call_later(1, lambda: seen.append(("a", clock.monotonic())))
    clock.call_later(1, lambda: clock.call_later(0.5, lambda: seen.append(("a+", clock.monotonic()))))
    clock.call_later(1.2, lambda: seen.append(("never", 0))).cancel()
    clock.call_later(5, lambda: seen.append(("later", 0)))

    assert clock.next_due_s == 1
    assert clock.advance(3) == 4
    assert seen == [("a", 1), ("a+", 1.5), ("b", 2)]
    assert clock.monotonic() == 3
    assert clock.next_due_s == 2


def test_the_wall_clock_jumps_and_running_timers_do_not_care() -> None:
    clock, seen = ManualClock(), list[int]()
    before = clock.now()
    clock.call_later(1, lambda: seen.append(1))
    clock.set_back(10)

    assert clock.now() == before - 10_000_000
    assert clock.advance(1) == 1
    with pytest.raises(ValueError, match="not advanced by -1"):
        clock.advance(-1)


async def test_a_sleep_ends_when_its_time_has_come_and_a_cancelled_one_leaves_no_timer() -> None:
    clock = ManualClock()
    sleeping, cancelled = asyncio.ensure_future(clock.sleep(3)), asyncio.ensure_future(clock.sleep(9))
    await asyncio.sleep(0)
    clock.advance(2.9)
    await asyncio.sleep(0)
    early = sleeping.done()
    clock.advance(0.1)
    cancelled.cancel()
    await asyncio.wait([sleeping, cancelled])

    assert not early
    assert sleeping.done()
    assert clock.next_due_s is None


def test_a_clock_after_a_crash_has_the_time_and_no_timers() -> None:
    clock = ManualClock()
    clock.call_later(1, lambda: None)
    clock.advance(0.5)
    after = clock.after_a_crash()

    assert (after.now(), after.monotonic(), after.next_due_s) == (clock.now(), 0.5, None)


def test_sequential_ids_are_valid_and_sort_by_birth() -> None:
    ids = SequentialIds()
    made = [ids.new(Kind.CONVERSATION) for _ in range(100)]

    assert all(is_id(id_, Kind.CONVERSATION) for id_ in made)
    assert sorted(made) == made
    assert SequentialIds().new(Kind.CONVERSATION) == made[0]


def test_sequential_salts_are_all_different() -> None:
    salts = SequentialSalts()

    assert len({salts.salt() for _ in range(300)}) == 300


A, B = ToolCall("tool", {}, "a"), ToolCall("tool", {}, "b")


def asked(*calls: ToolCall) -> Message:
    return Message(Role.ASSISTANT, "", calls)


def result(call: ToolCall) -> Message:
    return Message(Role.TOOL, "it", (), call.id, call.name)


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([asked(A, B), result(A), result(B)], ""),
        ([asked(A, B), result(B), result(A)], "where that of ('a', 'tool') belongs"),
        ([asked(A, B), result(A)], "ends without the results of [('b', 'tool')]"),
        ([asked(A), Message(Role.USER, "and?"), result(A)], "comes before the results of"),
        ([Message(Role.USER, "go"), result(A)], "which nothing asked for"),
        ([asked(A), result(A), result(A)], "which nothing asked for"),
        ([asked(A), result(A), asked(A), result(A)], "two calls have the same id"),
    ],
)
def test_what_is_not_paired_is_told(messages: list[Message], wrong: str) -> None:
    found = unpaired(messages)

    assert any(wrong in what for what in found) if wrong else found == []
