"""Erasing a conversation: its texts go, its entries stay, and whoever wants something of it is told by name."""

from __future__ import annotations

import asyncio

import pytest

from agentos.components import Outcome, Resolution, Verdict
from agentos.errors import ConversationErased
from agentos.events.entry import ERASED
from agentos.events.intake import ChildEnded, Control, Erase, Input, Item, Resolve
from agentos.events.kinds import PayloadErased
from agentos.history import request_of, standing_at
from agentos.ids import LogId, Name, call_id
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from tests.erase.support import SECRET, below, check_whole, family, gone_from, logs_of, repeat, talker, texts_in
from tests.support import Mind, call, calls, entries_of, kinds, lab, settled, until


async def test_the_texts_go_and_the_entries_stay_with_a_receipt_behind_them() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        before = await kinds(conversation)
        texts = await texts_in(here.kernel.store, conversation.id)
        erasure = await here.kernel.erase(conversation.id, by="ann", reason="ticket-81")
        (receipt,) = erasure.receipts
        last = (await conversation.history())[-1]
        row = await here.kernel.store.log(conversation.id)

        assert row is not None
        assert await kinds(conversation) == [*before, "payload.erased"]
        assert await gone_from(here.kernel.store, conversation.id)
        assert last.data == PayloadErased(upto=len(before), bodies=len(texts), reason=receipt.reason)
        assert (str(receipt.log), receipt.seq, receipt.digest) == (conversation.id, last.seq, row.digest.hex())
        assert (receipt.by, receipt.reason, receipt.at) == ("ann", "ticket-81", row.erased_at)
        assert erasure.bodies == len(texts) > 4
        assert await check_whole(here.kernel.store) > 0


async def test_an_erased_conversation_says_so_to_whoever_comes() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.kernel.erase(conversation.id)
        head = await here.kernel.store.log(conversation.id)
        request = call_id(conversation.id, 6)
        answers = await asyncio.gather(
            conversation.send("more"),
            conversation.send("more", key="again"),
            conversation.ask("more"),
            conversation.interrupt(),
            conversation.pause(),
            here.kernel.control(conversation.id, Control.CLOSE),
            here.kernel.answer(request, verdict=Verdict.ALLOW),
            here.kernel.outcome(conversation.id),
            here.kernel.fork(conversation.id),
            return_exceptions=True,
        )
        await settled(here.kernel)

        assert [type(answer) for answer in answers] == [ConversationErased] * 9
        assert "was erased at 2027-01-15 08:00:00 UTC" in str(answers[0])
        assert await here.kernel.store.log(conversation.id) == head
        assert await here.kernel.store.inbox() == []


async def test_the_children_go_first_and_the_root_last() -> None:
    async with family() as (here, parent):
        children = await below(here, parent)
        erasure = await here.kernel.erase(parent.id)

        assert logs_of(erasure) == [*children, parent.id]
        assert len(children) == 2
        assert await gone_from(here.kernel.store, parent.id, *children)
        assert await check_whole(here.kernel.store) > 0


async def test_a_second_erase_answers_with_the_receipts_that_stand() -> None:
    async with family() as (here, parent):
        first = await here.kernel.erase(parent.id, by="ann")
        head = await here.kernel.store.log(parent.id)
        second = await here.kernel.erase(parent.id, by="bob", forks=True)

        assert second.receipts == first.receipts
        assert (first.new, second.new) == (3, 0)
        assert await here.kernel.store.log(parent.id) == head


async def test_nothing_of_it_stays_in_the_memory_of_the_kernel() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        loaded = here.kernel.ticker.loaded[conversation.id]  # type: ignore[index]
        await here.kernel.erase(conversation.id)

        assert LogId(conversation.id) not in here.kernel.ticker.loaded
        assert here.kernel.world.slice(loaded.log) is None
        assert not here.kernel.ticker.waiters.tickets


async def test_who_watches_reads_again_what_is_left() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        watched = conversation.watch()
        first = await anext(watched)
        await conversation.ask(SECRET)  # all of it waits for the watcher
        await here.kernel.erase(conversation.id)
        seen = [first]
        while not isinstance(getattr(seen[-1], "data", None), PayloadErased):
            seen.append(await here.moving(anext(watched)))
        values = [value for item in seen for _, value in getattr(item, "private", ())]

        assert values
        assert all(value is ERASED for value in values)


async def test_inputs_that_wait_go_too_and_their_senders_are_told() -> None:
    async with lab(Mind("one")) as here:
        conversation = await here.start()
        await conversation.ask("first")
        await conversation.pause()
        await until(lambda: conversation.state == "paused")
        asked = asyncio.ensure_future(conversation.ask(SECRET))
        await until(lambda: len(here.kernel.ticker.loaded[conversation.id].asks) == 1)  # type: ignore[index]
        await here.kernel.erase(conversation.id)
        (error,) = await asyncio.gather(asked, return_exceptions=True)

        assert isinstance(error, ConversationErased)
        assert await gone_from(here.kernel.store, conversation.id)
        await check_whole(here.kernel.store)


async def test_what_is_sent_while_it_is_erased_is_stored_before_or_refused_by_name() -> None:
    async with lab(Mind("one", "two")) as here:
        conversation = await here.start()
        await conversation.ask("first")
        sent = asyncio.gather(*(conversation.send(SECRET) for _ in range(3)), return_exceptions=True)
        erased = asyncio.gather(here.kernel.erase(conversation.id), return_exceptions=True)
        await until(lambda: sent.done() and erased.done())
        row = await here.kernel.store.log(conversation.id)
        assert row is not None
        if row.erased_at is None:  # the inputs came first, and their turn was open then
            await until(lambda: conversation.state == "idle")
            await here.kernel.erase(conversation.id)

        assert await gone_from(here.kernel.store, conversation.id)
        assert all(isinstance(one, (int, ConversationErased)) for one in await sent)


async def test_what_comes_late_is_taken_from_the_inbox_and_not_stored() -> None:
    """The end of a child, a word on a call in doubt, an input, another erase: all of them by way of the store."""
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.kernel.erase(conversation.id)
        head = await here.kernel.store.log(conversation.id)
        asked = call_id(conversation.id, 6)
        late: list[Item] = [
            ChildEnded(call=asked, outcome=Outcome.COMPLETED, text=SECRET),
            Resolve(call=asked, attempt=1, resolution=Resolution.DONE, tool=Name("repeat"), asked=SECRET),
            Input(text=SECRET),
            Erase(upto=head.seq if head is not None else 0, bodies=0, reason=Name("again")),
        ]
        for n, item in enumerate(late):
            await here.kernel.store.post(inbox_row(conversation.id, f"late:{n}", item))
        waiting = len(await here.kernel.store.inbox())
        await here.kernel.recover()
        await settled(here.kernel)

        assert waiting == len(late)
        assert await here.kernel.store.inbox() == []
        assert await here.kernel.store.log(conversation.id) == head
        await check_whole(here.kernel.store)


async def test_readers_say_that_it_is_erased() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.kernel.erase(conversation.id)
        page = await here.kernel.page()
        standing = await standing_at(here.kernel.store, conversation.id, 8)
        request = await request_of(here.kernel.store, conversation.id, None)

        assert [row.state for row in page.conversations] == ["closed"]
        assert {message["text"] for message in standing.messages} == {"(erased)"}
        assert {message["text"] for message in request.messages} == {"(erased)"}
        assert not request.matches


async def test_a_long_conversation_is_erased_and_read_from_its_snapshot() -> None:
    replies = [calls(call("repeat", text=SECRET)) for _ in range(12)]
    settings = Settings(snapshot_entries=16)
    store = MemoryStore()
    async with lab(Mind(*replies), [repeat], store=store, options={"settings": settings}) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        await here.kernel.erase(conversation.id)
        with pytest.raises(ConversationErased):
            await conversation.send("more")

        assert await store.last_snapshot(conversation.id) > 0
        assert await gone_from(store, conversation.id)
        assert await check_whole(store) > 0


async def test_nothing_before_the_receipt_has_moved() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        before = [(entry.seq, entry.data) for entry in await conversation.history()]
        await here.kernel.erase(conversation.id)
        (finished,) = await entries_of(conversation, "call.finished")

        assert [(entry.seq, entry.data) for entry in await conversation.history()][:-1] == before
        assert finished.private == (("result", ERASED),)
