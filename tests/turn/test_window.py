"""The context window of a long conversation: what a turn begins with is bounded, and moves rarely and by whole turns."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from agentos.components import ContextWindow, TurnLimits
from agentos.definitions import AgentSpec
from agentos.events.model import Message, Role
from agentos.history import Identical, replay_log, request_of, verify_store
from agentos.kernel import Conversation
from agentos.settings import Settings
from tests.support import Lab, Mind, call, calls, digests, entries_of, lab, settled

WINDOW = 10


async def work(text: str = "") -> str:
    return f"worked on {text}"


def mind(turns: int, calls_in_turn: int = 1) -> Mind:
    """Each turn asks for so many calls, one a step, and then answers."""
    replies: list[Any] = []
    for n in range(turns):
        replies += [calls(call("work", text=f"{n}.{step}")) for step in range(calls_in_turn)] + [f"did {n}"]
    return Mind(*replies)


async def turns(conversation: Conversation, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        await conversation.ask(f"turn {n}")


def beginnings(mind_: Mind) -> list[list[Message]]:
    """What each turn began with."""
    return [shown for shown in mind_.shown if shown[-1].role is Role.USER]


async def windows(conversation: Conversation) -> list[int]:
    """The turns at which the window began, as it moved."""
    changes = [change for entry in await entries_of(conversation, "turn.started") for change in entry.changes]
    return [value.first_turn for _, value in changes if isinstance(value, ContextWindow)]


async def test_a_turn_never_begins_with_more_messages_than_the_window() -> None:
    minded = mind(30)
    async with lab(minded, [work], window_messages=WINDOW) as here:
        await turns(await here.start(), 30)

    sizes = [len(shown) for shown in beginnings(minded)]
    assert len(sizes) == 30
    assert max(sizes) <= WINDOW
    assert all(size > WINDOW // 2 - 4 for size in sizes[3:])


async def test_it_moves_rarely_and_then_leaves_half_so_that_what_a_provider_caches_stays_good() -> None:
    minded = mind(40)
    async with lab(minded, [work], window_messages=40) as here:
        conversation = await here.start()
        await turns(conversation, 40)
        moves = await windows(conversation)

    begun = beginnings(minded)
    kept = [after[: len(before)] == before for before, after in pairwise(begun)]
    assert kept.count(False) == len(moves) == 5
    assert [len(after) for same, after in zip(kept, begun[1:], strict=True) if not same] == [17] * 5


async def test_it_begins_with_an_input_and_cuts_no_call_from_its_result() -> None:
    """The mind of the lab looks at every pairing; here at where it begins."""
    minded = mind(12, calls_in_turn=3)
    async with lab(minded, [work], window_messages=20) as here:
        await turns(await here.start(), 12)

    assert all(shown[0].role is Role.USER for shown in minded.shown)
    assert not minded.broken


async def test_the_present_turn_is_never_cut() -> None:
    minded = mind(3, calls_in_turn=9)
    async with lab(minded, [work], window_messages=6) as here:
        conversation = await here.start()
        await turns(conversation, 3)
        started = [entry.seq for entry in await entries_of(conversation, "turn.started")]
        moves = await windows(conversation)

    assert [len(shown) for shown in beginnings(minded)] == [1, 1, 1]
    assert [max(len(shown) for shown in minded.shown[n * 10 : n * 10 + 10]) for n in range(3)] == [19, 19, 19]
    assert moves == started[1:]


async def test_several_inputs_of_one_turn_count() -> None:
    minded = mind(3)
    async with lab(minded, [work], window_messages=9) as here:
        conversation = await here.start()
        await turns(conversation, 2)
        await conversation.pause()
        await conversation.send("also this")
        await conversation.send("and that")
        await conversation.unpause()
        await settled(here.kernel)
        moves = await windows(conversation)

    assert [message.text for message in beginnings(minded)[-1]] == ["also this", "and that"]
    assert len(moves) == 1


async def test_without_a_bound_nothing_is_left_out_and_nothing_is_stored_of_it() -> None:
    minded = mind(12)
    async with lab(minded, [work]) as here:
        conversation = await here.start()
        await turns(conversation, 12)
        moves = await windows(conversation)
        rows = (await here.kernel.query("select count(*) from components where type = 'context_window'")).rows

    assert len(minded.shown[-1]) == 12 * 4 - 1
    assert moves == []
    assert rows == [(0,)]


async def test_it_stays_where_it_is_when_the_bound_is_lifted() -> None:
    minded = mind(8)
    async with lab(minded, [work], window_messages=WINDOW) as here:
        conversation = await here.start()
        await turns(conversation, 5)
        before = await windows(conversation)
        await here.kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=minded)
        await turns(conversation, 3, first=5)
        after = await windows(conversation)

    assert before
    assert after == before
    assert len(minded.shown[-1]) > WINDOW


async def test_ephemeral_inputs_leave_it_as_they_leave_any_history() -> None:
    minded = mind(12)
    async with lab(minded, [work], window_messages=WINDOW) as here:
        conversation = await here.start()
        for n in range(12):
            await conversation.ask(f"turn {n}", ephemeral=bool(n % 2))
        result = await replay_log(here.kernel.store, conversation.id, schedule=here.kernel.schedule)

    asked = [message.text for message in minded.shown[-2] if message.role is Role.USER]
    assert asked[-1] == "turn 11"
    assert all(int(text.removeprefix("turn ")) % 2 == 0 for text in asked[:-1])
    assert isinstance(result, Identical), result


@pytest.mark.parametrize("snapshot_entries", [3, 10, 256])
async def test_a_conversation_that_was_away_makes_the_same_requests(snapshot_entries: int) -> None:
    told = []
    for most in (1, 10):
        settings = Settings(live_conversations_max=most, snapshot_entries=snapshot_entries)
        async with lab(mind(30), [work], window_messages=WINDOW, options={"settings": settings}) as here:
            conversations = [await here.start() for _ in range(3)]
            for n in range(10):
                for conversation in conversations:
                    await turns(conversation, 1, first=n)
            told.append([await digests(conversation) for conversation in conversations])

    assert told[0] == told[1]


async def test_its_log_is_decided_again_verified_and_its_requests_are_rebuilt() -> None:
    settings = Settings(snapshot_entries=20)
    async with lab(mind(20), [work], window_messages=WINDOW, options={"settings": settings}) as here:
        conversation = await here.start()
        await turns(conversation, 20)
        store = here.kernel.store
        result = await replay_log(store, conversation.id, schedule=here.kernel.schedule)
        report = await verify_store(store)
        asked = await entries_of(conversation, "model.requested")
        requests = [await request_of(store, conversation.id, entry.seq) for entry in asked]

    assert isinstance(result, Identical), result
    assert report.ok, [str(difference) for difference in report.differences]
    assert len(requests) == 40
    assert all(request.matches for request in requests)
    assert requests[-1].messages[0]["text"] != "turn 0"


async def test_a_turn_costs_as_many_bytes_at_the_end_of_a_long_conversation_as_at_its_beginning() -> None:
    async with lab(mind(200), [work], window_messages=20) as here:
        conversation = await here.start()
        await turns(conversation, 200)
        sizes = await bytes_of_turns(here, conversation)

    early, late = sizes[10:60], sizes[150:]
    assert sum(late) < sum(early) * 1.05


async def bytes_of_turns(here: Lab, conversation: Conversation) -> list[int]:
    sql = """select sum(length(e.head)) from entries e join logs l on l.n = e.n
             where l.id = ? and e.turn > 0 and e.kind <> 'snapshot' group by e.turn order by e.turn"""
    return [int(row[0]) for row in (await here.kernel.query(sql, (conversation.id,))).rows]


async def test_an_agent_that_says_nothing_of_it_keeps_the_digest_that_it_had() -> None:
    """Its contexts are encoded without what is not set, so a bound that nobody uses changes no older log."""
    async with lab() as here:
        await here.ask()
        ((body,),) = (await here.kernel.query("select body from definitions where kind = 'context'")).rows

    assert TurnLimits().window_messages is None
    assert "window_messages" not in json.loads(body).get("limits", {})
