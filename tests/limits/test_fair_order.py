"""Who comes in next: shares by weight over tenants and their agents, by counts alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agentos.resources.fairness import FairOrder, Party, Weights
from agentos.resources.room import Room

Who = tuple[str, str, int]
"""A tenant, an agent, and a number."""


def room_of(size: int = 1, weights: Weights | None = None, *, read_write: bool = False) -> Room[Who]:
    order: FairOrder[Who] = FairOrder(lambda who: Party(*who[:2]), weights or Weights())
    return Room(size, read_write=read_write, order=order)


def many(agent: str, count: int, tenant: str = "") -> list[Who]:
    return [(tenant, agent, n) for n in range(count)]


def line_up(room: Room[Who], *who: Who) -> None:
    for one in who:
        room.take(one)


def served(room: Room[Who], count: int) -> list[Who]:
    """The next that come in, when one after the other leaves as soon as it is inside."""
    came: list[Who] = []
    while len(came) < count and room.holders:
        came += room.leave(next(iter(room.holders)))
    return came[:count]


def test_ten_thousand_waiting_calls_of_one_agent_delay_a_single_one_of_another_by_one() -> None:
    room = room_of()
    line_up(room, *many("noisy", 10_001), ("", "quiet", 0))

    assert served(room, 2) in ([("", "noisy", 1), ("", "quiet", 0)], [("", "quiet", 0), ("", "noisy", 1)])


def test_ten_thousand_come_in_in_the_order_in_which_they_came() -> None:
    room = room_of(8)
    everybody = many("noisy", 10_000)
    line_up(room, *everybody)

    assert served(room, 10_000) == everybody[8:]


def test_agents_share_by_their_weights() -> None:
    weights = Weights()
    weights.agents.update(three=3.0, half=0.5)
    room = room_of(1, weights)
    line_up(room, *many("one", 100), *many("three", 100), *many("half", 100))

    assert Counter(agent for _, agent, _ in served(room, 90)) == Counter(three=60, one=20, half=10)


def test_a_tenant_with_many_agents_has_no_more_than_one_with_a_single_agent() -> None:
    room = room_of()
    crowd = [("crowd", f"agent{n % 10}", n) for n in range(200)]
    line_up(room, *crowd, *many("alone", 100, tenant="small"))

    assert Counter(tenant for tenant, _, _ in served(room, 100)) == Counter(crowd=50, small=50)


def test_tenants_share_by_their_weights_whatever_those_of_their_agents() -> None:
    weights = Weights()
    weights.tenants["big"] = 4.0
    weights.agents["loud"] = 1_000.0
    room = room_of(1, weights)
    line_up(room, *many("calm", 100, "big"), *many("loud", 100, "small"))

    assert Counter(tenant for tenant, _, _ in served(room, 100)) == Counter(big=80, small=20)


def test_a_new_weight_counts_from_the_next_that_comes_in() -> None:
    weights = Weights()
    room = room_of(1, weights)
    line_up(room, *many("a", 200), *many("b", 200))
    before = Counter(agent for _, agent, _ in served(room, 20))
    weights.agents["b"] = 9.0
    after = Counter(agent for _, agent, _ in served(room, 100))

    assert before == Counter(a=10, b=10)
    assert abs(after["b"] - 90) <= 1


def test_who_had_nobody_in_line_has_saved_nothing_up() -> None:
    room = room_of()
    line_up(room, *many("busy", 1_000))
    served(room, 500)
    line_up(room, *many("late", 100))

    assert Counter(agent for _, agent, _ in served(room, 20)) == Counter(busy=10, late=10)


def test_one_that_goes_away_from_the_line_is_not_charged() -> None:
    room = room_of()
    line_up(room, *many("a", 10), *many("b", 10))
    for one in many("b", 9):
        room.leave(one)
    came = served(room, 10)

    assert came.index(("", "b", 9)) <= 1
    assert len(came) == 10


@given(
    st.lists(st.tuples(st.sampled_from(["", "t", "u"]), st.sampled_from("abc")), max_size=60),
    st.integers(1, 4),
    st.lists(st.integers(0, 200), max_size=60),
)
def test_nobody_is_lost_and_the_bound_holds(
    parties: Sequence[tuple[str, str]], size: int, leaving: Sequence[int]
) -> None:
    room = room_of(size)
    everybody = [(tenant, agent, n) for n, (tenant, agent) in enumerate(parties)]
    gone: set[Who] = set()
    for n, one in enumerate(everybody):
        room.take(one)
        if n < len(leaving):
            leaver = everybody[leaving[n] % (n + 1)]
            room.leave(leaver)
            gone.add(leaver)
        assert len(room.holders) <= size
        assert not room.line or len(room.holders) == size
    inside = [one for one in everybody if one in room.holders]
    came = served(room, len(everybody))

    assert sorted([*inside, *came]) == sorted(set(everybody) - gone)
    assert (room.line, room.holders) == ({}, {})


def test_a_stream_of_new_tenants_with_one_each_does_not_keep_one_that_waits_from_coming_in() -> None:
    room = room_of()
    line_up(room, *many("patient", 1_001))
    came: list[Who] = []
    for n in range(1_000):
        line_up(room, (f"tenant{n}", "new", n))
        came += served(room, 1)

    # it comes in as often as each of the tenants does that stand beside it, of which there is one more each time
    assert 40 <= Counter(agent for _, agent, _ in came)["patient"] <= 50
