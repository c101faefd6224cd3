"""What comes in between the look and the receipts: forks that begin, turns that go on, other erases, clocks that jump."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from agentos.definitions import AgentSpec
from agentos.errors import EraseTooEarly, EraseTurnOpen
from agentos.events.intake import Erase, Input
from agentos.history import search_store
from agentos.ids import LogId, Micros, Name
from agentos.kernel import Kernel
from agentos.kernel.erase_plan import target_of
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence import open_store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.search_index import SearchIndex
from agentos.settings import Settings
from agentos.testing.clock import START, ManualClock
from tests.erase.support import SECRET, check_whole, gone_from, logs_of, repeat, talker, texts_in
from tests.support import Lab, Mind, lab, until

HOUR: dict[str, Any] = {"retention": {"erase_after_s": 3600}}
BY_HAND: dict[str, Any] = {"settings": Settings(retention_sweep_s=0)}
SWEEPING: dict[str, Any] = {"settings": Settings(retention_sweep_s=600)}


async def talk(here: Lab) -> str:
    conversation = await here.start()
    await conversation.ask(SECRET)
    return conversation.id


def meanwhile(here: Lab, monkeypatch: pytest.MonkeyPatch, what: Any) -> None:
    """Does something once, right before the first log is erased: everything was looked at by then."""
    erasing = here.kernel._erasing
    erased, left = erasing._erased, [what]

    async def late(*given: Any) -> Any:
        if left:
            await left.pop()()
        return await erased(*given)

    monkeypatch.setattr(erasing, "_erased", late)


@pytest.mark.parametrize("forks", [True, False])
async def test_a_fork_that_begins_meanwhile_goes_too_or_is_named(forks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lab(talker(), [repeat]) as here:
        id_ = await talk(here)
        begun: list[str] = []

        async def fork() -> None:
            begun.append((await here.kernel.fork(id_, run=False)).id)

        meanwhile(here, monkeypatch, fork)
        erasure = await here.kernel.erase(id_, forks=forks)

        assert logs_of(erasure) == [id_, *begun] if forks else [id_]
        assert [str(log) for log in erasure.living_forks] == ([] if forks else begun)
        assert erasure.new == len(erasure.receipts)
        assert await gone_from(here.kernel.store, *logs_of(erasure))
        await check_whole(here.kernel.store)


async def test_a_fork_of_what_is_erased_is_refused_as_any_other() -> None:
    """A look that finds nothing standing in the root must not let the fork's own rules pass unread."""
    others = {"kept": (Mind(), {"retention": {"keep_s": 3600}})}
    async with lab(talker(), [repeat], others=others) as here:
        id_ = await talk(here)
        with pytest.MonkeyPatch.context() as patch:

            async def fork() -> None:
                await here.kernel.fork(id_, agent="kept", run=False)

            meanwhile(here, patch, fork)
            with pytest.raises(EraseTooEarly):
                await here.kernel.erase(id_, forks=True)
        with pytest.raises(EraseTooEarly):
            await here.kernel.erase(id_, forks=True)
        again = await here.kernel.erase(id_)
        (fork_id,) = again.living_forks

        assert again.new == 0
        assert await texts_in(here.kernel.store, fork_id) == []  # it has none of its own yet


async def test_one_that_is_talked_to_meanwhile_is_kept_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lab(Mind(), retention={"keep_s": 60}) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.advance(60.0)

        async def talk_on() -> None:
            await conversation.ask("more")

        meanwhile(here, monkeypatch, talk_on)
        with pytest.raises(EraseTooEarly):
            await here.kernel.erase(conversation.id)

        assert len(await texts_in(here.kernel.store, conversation.id)) == 4


async def test_a_sweep_leaves_one_that_is_talked_to_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.advance(3600.0)

        async def talk_on() -> None:
            await conversation.ask("more")

        meanwhile(here, monkeypatch, talk_on)
        left: list[tuple[str, str]] = []
        found = await here.kernel.erase_expired(tell=lambda log, why: left.append((log, why)))

        assert found == []
        assert [log for log, _ in left] == [conversation.id]
        assert len(await texts_in(here.kernel.store, conversation.id)) == 4


async def test_of_two_erases_at_once_one_has_done_it() -> None:
    async with lab(talker(), [repeat]) as here:
        id_ = await talk(here)
        both = await asyncio.gather(here.kernel.erase(id_), here.kernel.erase(id_))

        assert both[0].receipts == both[1].receipts
        assert sorted(erasure.new for erasure in both) == [0, 1]
        await check_whole(here.kernel.store)


async def test_what_is_posted_behind_the_receipt_goes_when_it_is_erased_again() -> None:
    store = MemoryStore()
    async with lab(talker(), [repeat], store=store) as here:
        id_ = await talk(here)
        await here.kernel.erase(id_)
    outside = MemoryStore(store)
    await outside.open("somebody who did not know")
    await outside.post(inbox_row(LogId(id_), "input:late", Input(text=SECRET)))
    async with Kernel(MemoryStore(store)) as kernel:
        waiting = await outside.inbox(id_)
        await kernel.erase(id_)

        assert [row.key for row in waiting] == ["input:late"]
        assert await outside.inbox(id_) == []
        assert (await kernel.query("select body from inbox where body is not null")).rows == []
        await check_whole(kernel.store)


async def test_the_word_of_one_who_has_gone_cleans_the_search_index_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    index = SearchIndex.beside(url)
    assert index is not None
    async with Kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=Mind(f"it said {SECRET}"))
        conversation = await kernel.start("main")
        await conversation.ask(SECRET)
        assert (await search_store(kernel.store, "canary")).hits
        before = b"canary" in index.read_bytes()
        target = await target_of(kernel.store, conversation.id)
        outside = open_store(url)
        await outside.open("somebody who has gone since")
        item = Erase(upto=target.seq, bodies=target.bodies, reason=Name("asked"))
        await outside.post(inbox_row(target.log, "erase:x", item))
        await outside.close()

        async def is_gone() -> bool:
            await asyncio.sleep(0.01)
            return b"canary" not in index.read_bytes()

        await until(is_gone)
        assert before
        assert await gone_from(kernel.store, conversation.id)


async def test_only_what_was_shown_is_erased() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        shown = await talk(here)
        await here.advance(1.0)
        later = await talk(here)
        await here.advance(3599.0)
        plans = await here.kernel.expired()
        await here.advance(1.0)
        found = await here.kernel.erase_expired(among={plan.conversation for plan in plans})

        assert [one.conversation for one in found] == [shown]
        assert await texts_in(here.kernel.store, later)


async def test_what_would_go_is_what_goes_and_what_is_left_is_told_before() -> None:
    others = {"kept": (Mind(), {"retention": {"keep_s": 7200, "erase_after_s": 7200}})}
    async with lab(Mind(), others=others, options=BY_HAND, **HOUR) as here:
        forked, alone = await talk(here), await talk(here)
        fork = await here.kernel.fork(forked, agent="kept", run=False)
        await here.advance(3600.0)
        told: list[list[str]] = [[], []]
        plans = await here.kernel.expired(tell=lambda log, _: told[0].append(log))
        found = await here.kernel.erase_expired(tell=lambda log, _: told[1].append(log))

        assert told == [[forked], [forked]]
        assert [plan.conversation for plan in plans] == [alone] == [one.conversation for one in found]
        assert not await gone_from(here.kernel.store, fork.id)


class WrongClock(ManualClock):
    """Its wall clock is set by hand."""

    ahead_s = 0.0

    def now(self) -> Micros:
        return Micros(super().now() + round(self.ahead_s * 1e6))


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_clock_that_goes_forward_at_once_erases_nothing_at_the_next_sweep(
    comes_back: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = WrongClock()
    async with lab(Mind(), clock=clock, options=SWEEPING, **HOUR) as here:
        id_ = await talk(here)
        clock.ahead_s = 86_400.0

        async def is_told() -> bool:
            await here.advance(5.0)
            return "the clock went forward by 86400 s" in caplog.text

        await until(is_told)
        standing = await texts_in(here.kernel.store, id_)
        clock.ahead_s = 0.0 if comes_back else clock.ahead_s
        until_s = clock.monotonic() + 700.0

        async def is_over() -> bool:
            await here.advance(5.0)
            return await gone_from(here.kernel.store, id_) or (comes_back and clock.monotonic() >= until_s)

        await until(is_over)
        assert standing
        assert await gone_from(here.kernel.store, id_) is not comes_back


async def test_an_entry_of_the_future_is_not_erased_before_it() -> None:
    store = MemoryStore()
    async with lab(Mind(), store=store, clock=ManualClock(Micros(START + 10**12)), options=BY_HAND, **HOUR) as here:
        id_ = await talk(here)
    async with lab(Mind(), store=MemoryStore(store), options=BY_HAND, first_id=500, **HOUR) as here:
        await here.advance(7200.0)

        assert await here.kernel.erase_expired() == []
        assert await texts_in(store, id_)


async def test_sweeps_follow_soon_while_more_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.kernel.sweeping.ERASED_MAX", 1)
    async with lab(Mind(), options={"settings": Settings(retention_sweep_s=3600)}, **HOUR) as here:
        ids = [await talk(here) for _ in range(3)]
        await here.advance(3601.0)

        async def are_gone() -> bool:
            await here.advance(5.0)
            return await gone_from(here.kernel.store, *ids)

        await until(are_gone)
        assert here.clock.monotonic() < 2 * 3_600  # an hour between two sweeps would be three hours


async def test_a_turn_that_began_is_named_and_nothing_of_its_log_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = asyncio.Event()

    async def held(_: Any) -> str:
        await hold.wait()
        return "late"

    async with lab(Mind("first", held)) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)

        async def talk_on() -> None:
            await conversation.send("more")

        meanwhile(here, monkeypatch, talk_on)
        with pytest.raises(EraseTurnOpen) as refused:
            await here.kernel.erase(conversation.id)
        hold.set()
        await here.advance(0.0)

        assert refused.value.log == conversation.id
        assert len(await texts_in(here.kernel.store, conversation.id)) == 4


async def test_a_sweep_goes_over_the_search_index_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[set[str]] = []

    async def forget(_: str, logs: Collection[str]) -> None:
        forgotten.append(set(logs))

    monkeypatch.setattr("agentos.kernel.sweeping.forget_beside", forget)
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        ids = [await talk(here) for _ in range(3)]
        await here.advance(3600.0)
        await here.kernel.erase_expired()

    assert forgotten == [set(ids)]


async def test_of_none_at_most_none_goes() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        id_ = await talk(here)
        await here.advance(3600.0)

        assert await here.kernel.expired(0) == []
        assert await here.kernel.erase_expired(0) == []
        assert await texts_in(here.kernel.store, id_)
