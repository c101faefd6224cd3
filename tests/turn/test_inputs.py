"""What may be sent to a conversation, when it is refused, and what is promised when it is taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.errors import ConversationBusy, ConversationClosed, InputRefused, UnknownAgent, UnknownConversation
from agentos.kernel import Conversation
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from tests.support import Lab, Mind, entries_of, kinds, lab, settled, until


class Slow:
    """A model's reply that waits for its door."""

    def __init__(self) -> None:
        self.door = asyncio.Event()
        self.asked = 0

    async def __call__(self, _: object) -> str:
        self.asked += 1
        await self.door.wait()
        return "done"


async def running(here: Lab, slow: Slow) -> tuple[Conversation, asyncio.Task[Any]]:
    conversation = await here.start()
    asked = asyncio.create_task(conversation.ask("first"))
    await until(lambda: slow.asked)
    return conversation, asked


@pytest.mark.parametrize("text", ["", "   ", "\n\t ", "\u200b", " \u200b\ufeff\u00a0\u3000 "])
async def test_c36_a_blank_input_is_refused_before_anything_is_stored(text: str) -> None:
    mind = Mind("hello")
    async with lab(mind) as here:
        conversation = await here.start()
        for way in (conversation.send, conversation.ask):
            with pytest.raises(InputRefused, match="blank"):
                await way(text)
        with pytest.raises(InputRefused, match="blank"):
            await conversation.send(text, key="k")

        assert await kinds(conversation) == ["conversation.started"]
        assert (await conversation.ask("hi")).text == "hello"
        assert len(mind.requests) == 1


async def test_an_input_over_the_limit_is_refused_with_its_size() -> None:
    async with lab(options={"settings": Settings(input_bytes_max=10)}) as here:
        conversation = await here.start()

        with pytest.raises(InputRefused, match=r"input_bytes_max \(10\)"):
            await conversation.send("12345678901")
        with pytest.raises(InputRefused, match=r"input_bytes_max \(10\)"):
            await conversation.send("ééééé!")
        assert await conversation.send("1234567890")


async def test_an_ephemeral_input_leaves_the_history_with_its_turn() -> None:
    mind = Mind("one", "two", "three")
    async with lab(mind) as here:
        conversation = await here.start()
        await conversation.ask("kept")
        await conversation.ask("the time is ten", ephemeral=True)
        await conversation.ask("and now?")

    assert [message.text for message in mind.shown[1]] == ["kept", "one", "the time is ten"]
    assert [message.text for message in mind.shown[2]] == ["kept", "one", "two", "and now?"]


async def test_an_ephemeral_input_stays_in_the_store() -> None:
    async with lab(Mind("one")) as here:
        conversation = await here.start()
        await conversation.ask("the time is ten", ephemeral=True)
        (entry,) = await entries_of(conversation, "input.received")

        assert entry.private == (("text", "the time is ten"),)


async def test_of_several_inputs_only_the_ephemeral_ones_leave() -> None:
    slow = Slow()
    mind = Mind(slow, "both", "after")
    async with lab(mind) as here:
        conversation, asked = await running(here, slow)
        await conversation.send("hint", ephemeral=True)
        await conversation.send("question")
        slow.door.set()
        await asked
        await until(lambda: conversation.state == "idle")
        await conversation.ask("next")

    assert [message.text for message in mind.shown[1]] == ["first", "done", "hint", "question"]
    assert [message.text for message in mind.shown[2]] == ["first", "done", "question", "both", "next"]


async def test_the_same_start_key_gives_the_same_conversation() -> None:
    async with lab() as here:
        first = await here.kernel.start("main", key="ticket 7")
        again = await here.kernel.start("main", key="ticket 7")
        other = await here.kernel.start("main", key="ticket 8")

        assert first.id == again.id != other.id
        assert await kinds(first) == ["conversation.started"]


async def test_keys_of_any_text_name_things_and_stand_in_no_head() -> None:
    secret = "my \ud800 password is\0 hunter2 " * 20
    async with lab() as here:
        conversation = await here.kernel.start("main", key=secret)
        again = await here.kernel.start("main", key=secret)
        first = await here.moving(conversation.send("hi", key=secret))
        second = await here.moving(conversation.send("hi", key=secret))
        await conversation.interrupt(by=secret)
        heads = [stored.head for stored in await here.kernel.store.entries(conversation.id)]

        assert (conversation.id, first) == (again.id, second)
        assert not any("hunter2 my" in head or len(head) > 3_000 for head in heads)


async def test_two_starts_with_one_key_at_the_same_time_make_one_conversation() -> None:
    async with lab() as here:
        found = await asyncio.gather(*(here.kernel.start("main", key="one") for _ in range(5)))

        assert len({conversation.id for conversation in found}) == 1
        assert await kinds(found[0]) == ["conversation.started"]


async def test_the_same_send_key_gives_the_same_seq_and_stores_once() -> None:
    mind = Mind("hello")
    async with lab(mind) as here:
        conversation = await here.start()
        first = await here.moving(conversation.send("hi", key="mail 1"))
        await until(lambda: conversation.state == "idle")
        again = await here.moving(conversation.send("hi", key="mail 1"))
        (entry,) = await entries_of(conversation, "input.received")

        assert first == again == entry.seq
        assert len(mind.requests) == 1


async def test_two_sends_with_one_key_at_the_same_time_store_once() -> None:
    async with lab() as here:
        conversation = await here.start()
        sent = (conversation.send("hi", key="mail 1") for _ in range(4))
        seqs = await here.moving(asyncio.gather(*sent))

        assert len(set(seqs)) == 1
        assert len(await entries_of(conversation, "input.received")) == 1


async def test_a_key_is_remembered_over_a_restart() -> None:
    store = MemoryStore()
    async with lab(store=store) as here:
        conversation = await here.start()
        first = await here.moving(conversation.send("hi", key="mail 1"))
        await settled(here.kernel)
    async with lab(store=store, first_id=50) as here:
        again = await here.moving((await here.kernel.get(conversation.id)).send("hi", key="mail 1"))

        assert again == first


async def test_too_many_waiting_inputs_are_refused_until_a_turn_has_ended() -> None:
    slow = Slow()
    async with lab(Mind(slow), options={"settings": Settings(inbox_max=3)}) as here:
        conversation, asked = await running(here, slow)
        for n in range(3):
            await conversation.send(f"more {n}")
        with pytest.raises(ConversationBusy, match="inbox_max"):
            await conversation.send("too much")
        with pytest.raises(ConversationBusy):
            await conversation.ask("too much")
        with pytest.raises(ConversationBusy):
            await here.moving(conversation.send("too much", key="k"))
        slow.door.set()
        await asked
        await until(lambda: conversation.state == "idle")

        assert (await conversation.ask("again")).completed


async def test_a_paused_conversation_ends_its_turn_and_begins_no_other() -> None:
    slow = Slow()
    mind = Mind(slow, "later")
    async with lab(mind) as here:
        conversation, asked = await running(here, slow)
        await conversation.pause()
        slow.door.set()
        first = await asked
        second = asyncio.create_task(conversation.ask("second"))
        await settled(here.kernel)
        state, waiting = conversation.state, second.done()
        await conversation.unpause()

        assert first.text == "done"
        assert (state, waiting) == ("paused", False)
        assert (await second).text == "later"


async def test_pausing_twice_stores_one_entry() -> None:
    async with lab() as here:
        conversation = await here.start()
        for _ in range(2):
            await conversation.pause()
            await settled(here.kernel)
        for _ in range(2):
            await conversation.unpause()
            await settled(here.kernel)

        assert await kinds(conversation) == [
            "conversation.started",
            "conversation.paused",
            "conversation.unpaused",
        ]


async def test_a_closed_conversation_takes_no_more_and_keeps_its_history() -> None:
    async with lab(Mind("hello")) as here:
        conversation = await here.start()
        await conversation.ask("hi")
        await conversation.close()
        await settled(here.kernel)
        before = await kinds(conversation)

        for refused in (conversation.send("more"), conversation.ask("more"), conversation.send("more", key="k")):
            with pytest.raises(ConversationClosed):
                await here.moving(refused)
        assert conversation.state == "closed"
        assert await kinds(conversation) == before
        assert before[-1] == "conversation.closed"


async def test_closing_is_for_good() -> None:
    async with lab() as here:
        conversation = await here.start()
        await conversation.close()
        await settled(here.kernel)
        await conversation.unpause()
        await conversation.pause()
        await settled(here.kernel)

        assert conversation.state == "closed"


async def test_inputs_that_were_taken_before_the_close_are_answered() -> None:
    slow = Slow()
    async with lab(Mind(slow, "last words")) as here:
        conversation, asked = await running(here, slow)
        last = asyncio.create_task(conversation.ask("one more"))
        await settled(here.kernel)
        await conversation.close()
        slow.door.set()
        await asked

        assert (await last).text == "last words"
        assert conversation.state == "closed"


async def test_names_of_nothing_are_errors_with_what_there_is() -> None:
    async with lab() as here:
        with pytest.raises(UnknownAgent, match="installed: main"):
            await here.kernel.start("mian")
        for id_ in ("x", "../../etc", "conversation_", "conversation_0000000009e008000000000000"):
            with pytest.raises(UnknownConversation):
                await here.kernel.get(id_)


async def test_an_input_may_hold_any_character() -> None:
    text = 'a\0b \ud800 🌍 \u202e {"$text": 1}'
    mind = Mind("one", "two")
    async with lab(mind) as here:
        conversation = await here.start()
        await conversation.ask(text)
        (entry,) = await entries_of(conversation, "input.received")

        assert mind.shown[0][0].text == text
        assert entry.private == (("text", text),)
