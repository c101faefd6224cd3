"""Retention: the rule of an agent says how long its conversations are kept, and when they are erased."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.definitions import AgentSpec
from agentos.definitions.spec import Retention
from agentos.errors import EraseTooEarly
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from tests.erase.support import SECRET, below, check_whole, gone_from, logs_of, texts_in
from tests.support import Lab, Mind, call, calls, lab, until

HOUR: dict[str, Any] = {"retention": {"erase_after_s": 3600}}
BY_HAND: dict[str, Any] = {"settings": Settings(retention_sweep_s=0)}


async def talk(here: Lab, agent: str = "main") -> str:
    conversation = await here.start(agent)
    await conversation.ask(SECRET)
    return conversation.id


def test_what_is_kept_longer_than_it_stays_is_an_error() -> None:
    with pytest.raises(ValueError, match="keep_s"):
        AgentSpec(slug="main", retention=Retention(keep_s=60, erase_after_s=59))


def test_an_agent_without_a_rule_has_the_definition_that_it_had() -> None:
    assert "retention" not in AgentSpec(slug="main").model_dump(mode="json")
    given = AgentSpec(slug="main", retention=Retention(keep_s=60)).model_dump(mode="json")["retention"]
    assert given == {"keep_s": 60, "erase_after_s": None}


async def test_what_has_had_its_time_goes_the_oldest_first_and_a_bounded_number_at_once() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        ids = []
        for _ in range(3):
            ids.append(await talk(here))
            await here.advance(10.0)
        early = await here.kernel.erase_expired()
        await here.advance(3600.0 - 20.0)
        first = await here.kernel.erase_expired(limit=1)
        second = await here.kernel.erase_expired()
        await here.advance(10.0)
        third = await here.kernel.erase_expired()

        assert early == []
        assert [[one.conversation for one in found] for found in (first, second, third)] == [
            [ids[0]],
            [ids[1]],
            [ids[2]],
        ]
        assert {receipt.reason for receipt in first[0].receipts} == {"retention"}
        assert await gone_from(here.kernel.store, *ids)
        await check_whole(here.kernel.store)


async def test_a_conversation_that_is_talked_to_stays_and_one_at_work_too() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.advance(3000.0)
        await conversation.ask("more")
        await here.advance(3000.0)

        assert await here.kernel.erase_expired() == []
        assert await texts_in(here.kernel.store, conversation.id)


async def test_children_go_with_their_root_and_never_by_themselves() -> None:
    mind = Mind(calls(call("ask_child", task=SECRET)), "done")
    others = {"child": (Mind("42"), {"retention": {"erase_after_s": 60}})}
    async with lab(mind, subagents=["child"], others=others, options=BY_HAND, **HOUR) as here:
        parent = await here.start()
        await parent.ask("go")
        (child,) = await below(here, parent)
        await here.advance(100.0)
        early = await here.kernel.erase_expired()
        await here.advance(3600.0)
        found = await here.kernel.erase_expired()

        assert early == []
        assert [log for one in found for log in logs_of(one)] == [child, parent.id]


async def test_a_child_whose_agent_keeps_it_keeps_its_root_and_that_is_told() -> None:
    mind = Mind(calls(call("ask_child", task=SECRET)), "done")
    others = {"child": (Mind("42"), {"retention": {"keep_s": 7200}})}
    async with lab(mind, subagents=["child"], others=others, options=BY_HAND, **HOUR) as here:
        parent = await here.start()
        await parent.ask("go")
        await here.advance(3600.0)
        left: list[tuple[str, str]] = []
        found = await here.kernel.erase_expired(tell=lambda log, why: left.append((log, why)))

        assert found == []
        assert [log for log, _ in left] == [parent.id]
        assert "agent child keeps" in left[0][1]


async def test_forks_that_have_not_expired_hold_their_parent_and_others_go_with_it() -> None:
    others = {"other": (Mind(), {"retention": {"erase_after_s": 7200}})}
    async with lab(Mind(), others=others, options=BY_HAND, **HOUR) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id, agent="other")
        await here.advance(3600.0)
        left: list[tuple[str, str]] = []
        found = await here.kernel.erase_expired(tell=lambda log, why: left.append((log, why)))
        await here.advance(3600.0)
        later = await here.kernel.erase_expired()

        assert found == []
        assert left == [(conversation.id, f"its fork {fork.id} has not expired")]
        assert [log for one in later for log in logs_of(one)] == [fork.id, conversation.id]


async def test_the_rule_in_force_is_that_of_the_agent_as_it_is_now() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        id_ = await talk(here)
        await here.advance(3600.0)
        await here.kernel.install(AgentSpec(slug="main", retention=Retention(keep_s=7200, erase_after_s=7200)))
        found = await here.kernel.erase_expired()
        with pytest.raises(EraseTooEarly):
            await here.kernel.erase(id_)

        assert found == []


async def test_a_kernel_that_does_not_know_the_agent_goes_by_what_the_last_turn_pinned() -> None:
    store, clock = MemoryStore(), ManualClock()
    rule: dict[str, Any] = {"retention": {"keep_s": 60, "erase_after_s": 3600}}
    async with lab(Mind(), store=store, clock=clock, options=BY_HAND, **rule) as here:
        id_ = await talk(here)
        fork = await here.kernel.fork(id_, run=False)
    other = MemoryStore(store)
    async with Kernel(other, clock=clock) as kernel:
        for one in (id_, fork.id):
            with pytest.raises(EraseTooEarly, match="for 60 s"):
                await kernel.erase(one, forks=True)
        clock.advance(3600.0)
        expired = [target.log for plan in await kernel.expired() for target in plan.targets]
        found = await kernel.erase_expired()

        assert set(expired) == {id_, fork.id}
        assert [log for one in found for log in logs_of(one)] == [fork.id, id_]
        assert await gone_from(other, id_, fork.id)


async def test_a_kernel_that_is_told_a_rule_counts_with_it() -> None:
    store, clock = MemoryStore(), ManualClock()
    async with lab(Mind(), store=store, clock=clock) as here:
        id_ = await talk(here)
    other = MemoryStore(store)
    async with Kernel(other, clock=clock) as kernel:
        kernel.keep_to(AgentSpec(slug="main", retention=Retention(erase_after_s=5)))
        clock.advance(5.0)
        found = await kernel.erase_expired()

        assert [one.conversation for one in found] == [id_]


async def test_a_kernel_sweeps_by_itself_and_goes_on_with_its_turns() -> None:
    async with lab(Mind(), options={"settings": Settings(retention_sweep_s=600)}, **HOUR) as here:
        id_ = await talk(here)
        await here.advance(3599.0)
        early = await texts_in(here.kernel.store, id_)
        await here.advance(1.0)
        other = await talk(here)

        async def is_gone() -> bool:
            await here.advance(1.0)
            return await gone_from(here.kernel.store, id_)

        await until(is_gone)

        assert early
        assert here.clock.now() < 1_800_000_000_000_000 + 2 * 3_600_000_000
        assert await texts_in(here.kernel.store, other)


async def test_a_sweep_that_fails_is_told_and_the_next_one_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with lab(Mind(), options={"settings": Settings(retention_sweep_s=600)}, **HOUR) as here:
        id_ = await talk(here)
        rules, of = here.kernel._rules, here.kernel._rules.of

        async def failing(*_: object) -> object:
            raise RuntimeError("no rule today")

        async def is_told() -> bool:
            await here.advance(1.0)
            return "no rule today" in caplog.text

        async def is_gone() -> bool:
            await here.advance(1.0)
            return await gone_from(here.kernel.store, id_)

        rules.of = failing  # type: ignore[method-assign,assignment]
        await here.advance(3600.0)
        await until(is_told)
        left = await texts_in(here.kernel.store, id_)
        rules.of = of  # type: ignore[method-assign]
        await here.advance(600.0)
        await until(is_gone)

        assert left


async def test_without_the_setting_nothing_sweeps() -> None:
    async with lab(Mind(), options=BY_HAND, **HOUR) as here:
        id_ = await talk(here)
        for _ in range(5):
            await here.advance(3600.0)

        assert await texts_in(here.kernel.store, id_)
