"""Erasing what others own: a living process takes the command from its inbox, a dead one is taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentos.definitions import AgentSpec
from agentos.errors import ConversationErased, EraseUnanswered, StoreUnavailable
from agentos.events.intake import Input
from agentos.kernel import Kernel
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence.base import Unit
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.erase.support import SECRET, below, check_whole, family, gone_from, logs_of, repeat, talker, texts_in
from tests.support import Life, Mind, crash, lab, until


class FullAfter(MemoryStore):
    """A memory store that is out of reach once so many erasing units were stored, until it is told to go on."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.left = units

    def append(self, units: Any) -> Any:
        erasing = [unit for unit in units if isinstance(unit, Unit) and unit.erases]
        if len(erasing) > self.left:
            raise StoreUnavailable(self.url, "it is full")
        self.left -= len(erasing)
        return super().append(units)


async def test_a_living_owner_takes_the_command_and_the_caller_has_the_receipts() -> None:
    store, clock = MemoryStore(), ManualClock()
    async with (
        family(store, clock=clock) as (owner, parent),
        lab(Mind(), store=MemoryStore(store), clock=clock, first_id=500) as other,
    ):
        children = await below(owner, parent)
        erasure = await owner.moving(other.kernel.erase(parent.id, by="ann"))
        loaded = dict(owner.kernel.ticker.loaded)
        with pytest.raises(ConversationErased):
            await parent.send("more")
        with pytest.raises(ConversationErased):
            await owner.moving((await other.kernel.get(parent.id)).send("more"))

        assert logs_of(erasure) == [*children, parent.id]
        assert {receipt.by for receipt in erasure.receipts} == {"ann"}
        assert await gone_from(store, parent.id, *children)
        assert not loaded
        assert await store.inbox() == []
        assert await check_whole(store) > 0


async def test_an_owner_that_takes_nothing_is_named_and_the_command_waits_for_it() -> None:
    store, clock = MemoryStore(), ManualClock()
    settings = Settings(inbox_wait_s=5.0)
    never = {"settings": Settings(inbox_poll_ms=10**9)}
    async with lab(talker(), [repeat], store=store, clock=clock, options=never) as owner:
        conversation = await owner.start()
        await conversation.ask(SECRET)
        other = Kernel(MemoryStore(store), clock=clock, settings=settings)
        async with other:
            with pytest.raises(EraseUnanswered, match="agentos writers") as refused:
                await owner.moving(other.erase(conversation.id))
            waiting = await store.inbox()
            await owner.kernel.logs.poll()
            await until(lambda: not owner.kernel.ticker.loaded)

        assert refused.value.log == conversation.id
        assert "writer 1" in refused.value.owner
        assert [row.kind for row in waiting] == ["erase"]
        assert await gone_from(store, conversation.id)


async def test_what_a_dead_process_owned_is_taken_over_with_what_waits_in_its_inbox() -> None:
    life = Life()
    async with life.open(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        crash(here)
    outside = MemoryStore(life.store)
    async with Kernel(outside, clock=life.clock) as sender:
        await outside.post(inbox_row(conversation.id, "input:late", Input(text=f"late: {SECRET}")))
        erasure = await sender.erase(conversation.id)

    assert len(erasure.receipts) == 1
    assert await gone_from(life.store, conversation.id)
    assert await life.store.inbox() == []
    await check_whole(life.store)
    await life.store.close()


async def test_an_input_that_waits_for_an_agent_which_is_not_there_holds_nothing_up() -> None:
    """As for the command, which runs no agents: no turn can begin that takes the input."""
    life = Life()
    async with life.open(Mind("one")) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await conversation.pause()
        await here.moving(conversation.send(f"waits: {SECRET}"))
        await conversation.unpause()
        crash(here)
    outside = MemoryStore(life.store)
    async with Kernel(outside, clock=life.clock) as kernel:
        for n in range(3):
            await outside.post(inbox_row(conversation.id, f"input:{n}", Input(text=f"late: {SECRET}")))
        erasure = await kernel.erase(conversation.id)

    assert erasure.new == 1
    assert await gone_from(life.store, conversation.id)
    assert await life.store.inbox() == []
    await check_whole(life.store)
    await life.store.close()


async def test_a_crash_between_two_logs_leaves_the_root_and_a_repetition_ends_it() -> None:
    store = FullAfter(1)
    clock = ManualClock()
    async with family(store, clock=clock) as (here, parent):
        children = await below(here, parent)
        with pytest.raises(StoreUnavailable):
            await here.moving(here.kernel.erase(parent.id))
        done = [await gone_from(store, log) for log in (*children, parent.id)]
        await check_whole(store)
        store.left = 100
        erasure = await here.moving(here.kernel.erase(parent.id))

        assert done == [True, False, False]
        assert await texts_in(store, parent.id) == []
        assert logs_of(erasure) == [*children, parent.id]
        assert await gone_from(store, parent.id, *children)
        assert await check_whole(store) > 0


async def test_a_process_that_dies_between_two_logs_of_a_file_leaves_it_to_the_next(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with Kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="leaf"))
        await kernel.install(AgentSpec(slug="main", subagents=["leaf"]))
        conversation = await kernel.start("main")
        await conversation.ask(f"ask_leaf task='{SECRET}'")
    async with Kernel(url) as kernel:
        append, erased = kernel.store.append, list[str]()

        def failing(units: Sequence[Unit]) -> Any:
            if erased and any(unit.erases for unit in units):
                raise StoreUnavailable(url, "the disk is gone")
            erased.extend(unit.log for unit in units if unit.erases)
            return append(units)

        kernel.store.append = failing  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await kernel.erase(conversation.id)
        kernel.store.append = append  # type: ignore[method-assign]
        await kernel.close(0)
    async with Kernel(url) as kernel:
        rows = {str(row.id): row.erased_at for row in await kernel.store.logs("conversation")}
        erasure = await kernel.erase(conversation.id)
        left = await gone_from(kernel.store, *rows)
        await check_whole(kernel.store)

        assert [log for log, at in rows.items() if at is not None] == erased
        assert conversation.id not in erased
        assert len(erasure.receipts) == len(rows) == 2
        assert left


async def test_two_who_erase_at_once_have_the_same_receipts() -> None:
    store, clock = MemoryStore(), ManualClock()
    async with (
        family(store, clock=clock) as (owner, parent),
        lab(Mind(), store=MemoryStore(store), clock=clock, first_id=500) as other,
    ):
        both = asyncio.gather(owner.kernel.erase(parent.id), other.kernel.erase(parent.id))
        first, second = await owner.moving(both)

        assert first.receipts == second.receipts
        assert await check_whole(store) > 0
