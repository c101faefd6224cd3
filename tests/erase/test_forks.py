"""Forks and erasing: a fork loses its own entries, and what is shared goes with the conversation that has it."""

from __future__ import annotations

from agentos.errors import ConversationErased
from agentos.events.entry import ERASED
from agentos.kernel import Conversation
from agentos.persistence.memory import MemoryStore
from tests.erase.support import SECRET, below, check_whole, family, gone_from, logs_of, repeat, talker, texts_in
from tests.support import Mind, lab, until

OWN = "only in the fork"


async def at_rest(conversation: Conversation) -> None:
    await until(lambda: conversation.state == "idle")


async def test_a_fork_by_itself_loses_only_its_own_entries() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        shared = await texts_in(here.kernel.store, conversation.id)
        fork = await here.kernel.fork(conversation.id)
        await fork.ask(OWN)
        erasure = await here.kernel.erase(fork.id)
        entries = await fork.history()

        assert (str(erasure.shared_from), erasure.shared_upto) == (conversation.id, fork.upto)
        assert logs_of(erasure) == [fork.id]
        assert [value for entry in entries[: fork.upto] for _, value in entry.private] == shared
        assert all(value is ERASED for entry in entries[fork.upto :] for _, value in entry.private)
        assert await texts_in(here.kernel.store, conversation.id) == shared
        await check_whole(here.kernel.store)


async def test_the_parent_goes_by_itself_once_its_forks_are_erased() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id)
        await here.kernel.erase(fork.id)
        await here.kernel.erase(conversation.id)

        assert await gone_from(here.kernel.store, conversation.id, fork.id)
        await check_whole(here.kernel.store)


async def test_a_fork_inside_a_childs_run_and_a_fork_of_a_fork_go_with_the_root() -> None:
    """Shows 3 of the issue: verify and replay pass after each."""
    store = MemoryStore()
    async with family(store) as (here, parent):
        child = (await below(here, parent))[-1]
        inside = await here.kernel.fork(child, 8)
        await at_rest(inside)
        await check_whole(store)
        again = await here.kernel.fork(inside.id)
        await again.ask(f"{SECRET}, again")
        await at_rest(again)
        await check_whole(store)
        beside = await here.kernel.fork(parent.id, 6)
        await at_rest(beside)
        await check_whole(store)
        forks = [inside.id, again.id, beside.id]
        all_ = [one for id_ in (parent.id, *forks) for one in (*await below(here, await here.kernel.get(id_)), id_)]
        erasure = await here.kernel.erase(parent.id, forks=True)
        order = logs_of(erasure)

        assert sorted(order) == sorted(all_)
        assert len(order) == 6  # the parent, two below it, three forks
        assert order[-1] == parent.id
        assert order.index(again.id) < order.index(inside.id) < order.index(child)
        assert await gone_from(store, *all_)
        assert await check_whole(store) > 0


async def test_a_fork_that_is_erased_can_be_forked_no_more() -> None:
    async with lab(talker(), [repeat]) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id)
        await here.kernel.erase(fork.id)
        try:
            await here.kernel.fork(fork.id)
        except ConversationErased as error:
            found: str = error.conversation
        other = await here.kernel.fork(conversation.id)

        assert found == fork.id
        assert await texts_in(here.kernel.store, other.id)


async def test_a_fork_of_an_idle_conversation_with_another_mind_is_erased_with_it() -> None:
    async with lab(Mind("one", "two"), others={"other": (Mind("three"), {})}) as here:
        conversation = await here.start()
        await conversation.ask(SECRET)
        fork = await here.kernel.fork(conversation.id, agent="other")
        await fork.ask(OWN)
        erasure = await here.kernel.erase(conversation.id, forks=True)

        assert [receipt.agent for receipt in erasure.receipts] == ["other", "main"]
        await check_whole(here.kernel.store)
