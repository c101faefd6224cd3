"""A cache: what it keeps, for how long, and that one thing is made once for all who ask."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentos.errors import ResourceClosed, ResourceDeadlock
from agentos.resources.kinds.cache import Cache, CacheLimits, cache
from agentos.testing.clock import ManualClock

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_leaks")]


class Maker:
    """Makes a text of so many bytes as its key says, when it is let; counts how often."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0

    async def make(self, key: int) -> str:
        self.made.append(key)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if key < 0:
            raise ValueError(f"no {key}")
        return "x" * key


def cached(maker: Maker, clock: ManualClock | None = None, **limits: float | None) -> Cache[int, str]:
    return Cache("texts", maker.make, len, limits=CacheLimits(**limits), clock=clock or ManualClock())  # type: ignore[arg-type]


@pytest.fixture
def maker() -> Maker:
    return Maker()


async def test_a_value_is_made_once_until_its_time_is_over(maker: Maker) -> None:
    clock = ManualClock()
    texts = cached(maker, clock, ttl_s=10.0)
    assert [await texts.get(3), await texts.get(3)] == ["xxx", "xxx"]
    clock.advance(9.9)
    await texts.get(3)
    clock.advance(0.1)
    await texts.get(3)

    assert maker.made == [3, 3]
    assert (texts.statistics().hits, texts.statistics().misses) == (2, 2)


async def test_the_one_that_was_used_longest_ago_goes_first(maker: Maker) -> None:
    texts = cached(maker, entries_max=2)
    for key in (1, 2, 1, 3, 1, 2):
        await texts.get(key)

    assert maker.made == [1, 2, 3, 2]
    assert (texts.statistics().entries, texts.statistics().dropped) == (2, 2)


async def test_what_is_kept_stays_below_its_bytes_and_what_is_larger_is_not_kept(maker: Maker) -> None:
    texts = cached(maker, bytes_max=10)
    for key in (4, 5, 6, 11):
        assert await texts.get(key) == "x" * key

    assert (texts.statistics().entries, texts.statistics().bytes) == (1, 6)


async def test_all_who_ask_meanwhile_get_the_one_that_is_made(maker: Maker) -> None:
    texts = cached(maker)
    maker.gate.clear()
    asked = [asyncio.create_task(texts.get(5)) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    maker.gate.set()
    answers = await asyncio.gather(*asked)

    assert maker.made == [5]
    assert set(answers) == {"xxxxx"}


async def test_one_who_is_cancelled_leaves_the_others_waiting_and_the_last_one_ends_the_making(maker: Maker) -> None:
    texts = cached(maker)
    maker.gate.clear()
    first, second = (asyncio.create_task(texts.get(5)) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    went_on = (maker.cancelled, second.done())
    second.cancel()
    await asyncio.wait([second])
    ended = (maker.cancelled, texts.statistics().making)
    maker.gate.set()
    again = await texts.get(5)

    assert went_on == (0, False)
    assert ended == (1, 0)
    assert (again, maker.made) == ("xxxxx", [5, 5])


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancel_at_any_await_leaves_nothing(maker: Maker, turns: int) -> None:
    texts = cached(maker)
    asked = asyncio.create_task(texts.get(5))
    for _ in range(turns):
        await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])

    assert texts.statistics().making == 0
    assert await texts.get(5) == "xxxxx"


async def test_an_error_goes_to_all_who_wait_and_is_not_kept(maker: Maker) -> None:
    texts = cached(maker)
    asked = await asyncio.gather(*(texts.get(-1) for _ in range(3)), return_exceptions=True)
    again = await asyncio.gather(texts.get(-1), return_exceptions=True)

    assert [str(error) for error in [*asked, *again]] == ["no -1"] * 4
    assert maker.made == [-1, -1]
    assert texts.statistics().entries == 0


async def test_what_is_forgotten_is_made_anew_also_while_it_is_being_made(maker: Maker) -> None:
    texts = cached(maker)
    await texts.get(2)
    texts.forget(2)
    maker.gate.clear()
    old = asyncio.create_task(texts.get(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    texts.forget(2)
    maker.gate.set()
    await old
    kept = texts.statistics().entries
    await texts.get(2)

    assert kept == 0
    assert maker.made == [2, 2, 2]


async def test_closing_ends_the_making_and_whoever_waits_is_told(maker: Maker) -> None:
    texts = cached(maker)
    await texts.get(1)
    maker.gate.clear()
    asked = asyncio.create_task(texts.get(5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await texts.close()
    await asyncio.wait([asked])

    assert isinstance(asked.exception(), ResourceClosed)
    assert (texts.statistics().entries, texts.statistics().bytes, maker.cancelled) == (0, 0, 1)
    with pytest.raises(ResourceClosed):
        await texts.get(1)


async def test_closing_ends_the_making_of_what_was_forgotten_meanwhile_too(maker: Maker) -> None:
    texts = cached(maker)
    maker.gate.clear()
    asked = asyncio.create_task(texts.get(5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    texts.forget(5)
    await texts.close()
    await asyncio.wait([asked])

    assert isinstance(asked.exception(), ResourceClosed)
    assert maker.cancelled == 1


async def test_a_value_that_is_made_of_itself_is_refused_and_holds_nobody_up() -> None:
    async def make(key: int) -> str:
        return await texts.get(0)

    texts: Cache[int, str] = Cache("texts", make, len)
    with pytest.raises(ResourceDeadlock, match=r"'texts' .*asks for the value itself"):
        await texts.get(0)

    assert texts.statistics().making == 0
    await texts.close()


@pytest.mark.parametrize("how", ["by themselves", "by tasks that they begin", "asked for at once"])
async def test_values_of_two_caches_that_are_made_of_each_other_are_refused_and_hold_nobody_up(how: str) -> None:
    """Two makings that wait for each other end neither by themselves nor by being cancelled."""

    async def from_texts(key: int) -> bytes:
        if how == "asked for at once":
            await asyncio.sleep(0)
        if how == "by tasks that they begin":
            return (await asyncio.gather(texts.get(9), texts.get(key)))[1].encode()
        return (await texts.get(key)).encode()

    async def from_raw(key: int) -> str:
        return "nine" if key == 9 else (await raw.get(key)).decode()

    raw: Cache[int, bytes] = Cache("raw", from_texts, len)
    texts: Cache[int, str] = Cache("texts", from_raw, len)
    asking = [raw.get(0), texts.get(0)] if how == "asked for at once" else [raw.get(0)]
    found = await asyncio.gather(*asking, return_exceptions=True)
    making = raw.statistics().making + texts.statistics().making
    await raw.close()
    await texts.close()

    assert [type(one) for one in found] == [ResourceDeadlock] * len(asking)
    assert making == 0


async def test_values_that_are_made_of_others_are_no_circle() -> None:
    async def make(key: int) -> str:
        return "0" if key == 0 else "".join(await asyncio.gather(*(texts.get(key // part) for part in (2, 3, 4))))

    texts: Cache[int, str] = Cache("texts", make, len)
    found = await asyncio.gather(*(texts.get(key) for key in (27, 9, 4, 27)))
    await texts.close()

    assert found[0] == found[3]
    assert set(found[0]) == {"0"}


async def test_as_a_resource_it_tells_what_it_takes(maker: Maker) -> None:
    factory = cache(maker.make, len, clock=ManualClock())
    texts = await factory.make()
    await texts.get(7)
    assert factory.takes is not None
    assert factory.check is not None
    takes, sound = factory.takes(texts), factory.check(texts)
    await texts.close()

    assert (takes.bytes, sound, factory.check(texts)) == (7, True, False)


class CacheMachine(RuleBasedStateMachine):
    """Against a model of a few lines: an ordered dict of sizes with their times."""

    ENTRIES, BYTES, TTL_S = 3, 12, 10.0

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.maker = Maker()
        self.texts = cached(self.maker, self.clock, entries_max=self.ENTRIES, bytes_max=self.BYTES, ttl_s=self.TTL_S)
        self.model: OrderedDict[int, float] = OrderedDict()
        self.made: list[int] = []

    def teardown(self) -> None:
        self.runner.run(self.texts.close())
        self.runner.close()

    @rule(key=st.integers(0, 14))
    def get(self, key: int) -> None:
        assert self.runner.run(self.texts.get(key)) == "x" * key
        now = self.clock.monotonic()
        if key in self.model and now < self.model[key]:
            self.model.move_to_end(key)
            return
        self.made.append(key)
        self.model.pop(key, None)
        if key <= self.BYTES:
            self.model[key] = now + self.TTL_S
        while len(self.model) > self.ENTRIES or sum(self.model) > self.BYTES:
            self.model.popitem(last=False)

    @rule(key=st.integers(0, 14))
    def forget(self, key: int) -> None:
        self.texts.forget(key)
        self.model.pop(key, None)

    @rule(seconds=st.sampled_from([0.5, 4.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def agrees(self) -> None:
        found = self.texts.statistics()
        assert (found.entries, found.bytes, found.making) == (len(self.model), sum(self.model), 0)
        assert self.maker.made == self.made


TestCacheAgainstItsModel = CacheMachine.TestCase
