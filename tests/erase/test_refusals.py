"""What is not erased, and what whoever asks for it is told: nothing is written then."""

from __future__ import annotations

import asyncio

import pytest

from agentos.errors import (
    EraseHasForks,
    EraseOfSubagent,
    EraseTooEarly,
    EraseTurnOpen,
    UnknownConversation,
)
from agentos.persistence.base import Store
from tests.erase.support import SECRET, below, check_whole, family, gone_from, logs_of, repeat, talker, texts_in
from tests.support import Mind, call, calls, lab, until


async def heads(store: Store) -> list[bytes]:
    return [row.digest for row in await store.logs()]


async def test_a_conversation_that_nobody_knows() -> None:
    async with lab() as here:
        for name in ("conversation_00000000000000000000000000", "nonsense"):
            with pytest.raises(UnknownConversation):
                await here.kernel.erase(name)


async def test_an_open_turn_in_it_or_below() -> None:
    door = asyncio.Event()

    async def wait(_: object) -> str:
        await door.wait()
        return "42"

    mind = Mind(calls(call("ask_child", task=SECRET)), "done")
    async with lab(mind, subagents=["child"], others={"child": (Mind(wait), {})}) as here:
        parent = await here.start()
        asked = asyncio.ensure_future(parent.ask("go"))
        await until(lambda: parent.state == "parked")
        (child,) = await below(here, parent)
        before = await heads(here.kernel.store)
        with pytest.raises(EraseTurnOpen, match=f"agentos cancel {child}.*agentos run --resume {child}") as refused:
            await here.kernel.erase(parent.id)
        after = await heads(here.kernel.store)
        door.set()
        await asked
        await here.kernel.erase(parent.id)

        assert refused.value.log == child
        assert before == after
        assert await gone_from(here.kernel.store, parent.id, child)


async def test_a_subagents_conversation_by_itself() -> None:
    async with family() as (here, parent):
        child = (await below(here, parent))[-1]
        with pytest.raises(EraseOfSubagent, match=f"erase {parent.id}"):
            await here.kernel.erase(child)

        assert await texts_in(here.kernel.store, child)


async def test_living_forks_unless_they_go_too() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id)
        of_fork = await here.kernel.fork(fork.id)
        before = await heads(here.kernel.store)
        with pytest.raises(EraseHasForks, match="with its forks") as refused:
            await here.kernel.erase(conversation.id)
        after = await heads(here.kernel.store)
        erasure = await here.kernel.erase(conversation.id, forks=True)

        assert set(refused.value.forks) == {fork.id, of_fork.id}
        assert before == after
        assert set(logs_of(erasure)) == {conversation.id, fork.id, of_fork.id}
        assert logs_of(erasure)[-1] == conversation.id
        assert await gone_from(here.kernel.store, conversation.id, fork.id, of_fork.id)
        assert await check_whole(here.kernel.store) > 0


async def test_an_open_turn_in_a_fork_that_would_go_too() -> None:
    door = asyncio.Event()

    async def wait(_: object) -> str:
        await door.wait()
        return "done"

    async with lab(Mind("one", wait)) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id)
        asked = asyncio.ensure_future(fork.ask("more"))
        await until(lambda: fork.state == "running")
        with pytest.raises(EraseTurnOpen) as refused:
            await here.kernel.erase(conversation.id, forks=True)
        door.set()
        await asked

        assert refused.value.log == fork.id


async def test_before_the_time_that_its_agent_keeps_it() -> None:
    async with lab(Mind("one"), retention={"keep_s": 3600}) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        with pytest.raises(EraseTooEarly, match=r"agent main keeps .* for 3600 s") as refused:
            await here.kernel.erase(conversation.id)
        await here.advance(3599.0)
        with pytest.raises(EraseTooEarly):
            await here.kernel.erase(conversation.id)
        await here.advance(1.0)
        await here.kernel.erase(conversation.id)

        assert (refused.value.agent, refused.value.keep_s) == ("main", 3600)
        assert await gone_from(here.kernel.store, conversation.id)


async def test_before_the_time_that_the_agent_of_a_child_keeps_it() -> None:
    mind = Mind(calls(call("ask_child", task=SECRET)), "done")
    others = {"child": (Mind("42"), {"retention": {"keep_s": 60}})}
    async with lab(mind, subagents=["child"], others=others) as here:
        parent = await here.start()
        await parent.ask("go")
        with pytest.raises(EraseTooEarly) as refused:
            await here.kernel.erase(parent.id)

        assert refused.value.agent == "child"
        assert await texts_in(here.kernel.store, parent.id)
