"""What every client promises of conversations; a part of the contract of clients."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from agentos.components import Verdict
from agentos.errors import ConversationClosed
from agentos.events.entry import ERASED, Entry
from agentos.events.intake import Control
from agentos.events.model import ModelDelta
from agentos.ids import LogId, call_id
from agentos.kernel import Kernel, Listing
from agentos.kernel.client import Operator
from agentos.testing.client_case import STRANGE, ClientCase, Desk, Mind, closeable, entry_of, same_error, until


class TalkContract(ClientCase):
    """Conversations are begun, talked to, watched, ended early and answered."""

    async def test_a_turn_gives_its_outcome(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        outcome = await client.ask(id_, "hello")

        assert (outcome.completed, outcome.text, outcome.agent, outcome.steps) == (True, "it is so", "clerk", 1)
        assert (outcome.conversation, outcome.input_tokens, outcome.output_tokens) == (id_, 3, 2)
        assert await client.outcome(id_) is None

    async def test_the_same_key_begins_one_conversation(self, client: Operator) -> None:
        assert await client.begin("clerk", "k") == await client.begin("clerk", "k")
        assert await client.begin("clerk", "other") != await client.begin("clerk", "k")

    async def test_a_tenant_is_that_of_the_conversation_and_of_its_keys(self, kernel: Kernel, client: Operator) -> None:
        ids = [await client.begin("clerk", "k", tenant=tenant) for tenant in ("acme", "acme", "globex", None)]
        page = await client.page(Listing(sort="started"))

        assert ids[0] == ids[1]
        assert {row.id: row.tenant for row in page.conversations} == {ids[0]: "acme", ids[2]: "globex", ids[3]: None}
        assert page == await kernel.page(Listing(sort="started"))
        assert await client.page(Listing(tenant="acme")) == await kernel.page(Listing(tenant="acme"))
        assert [row.id for row in (await client.page(Listing(tenant="acme"))).conversations] == [ids[0]]

    async def test_an_input_has_a_seq_and_its_key_stores_it_once(self, client: Operator) -> None:
        id_ = await client.begin("clerk")
        first = await client.send(id_, "hello", key="k")
        again = await client.send(id_, "hello", key="k")
        other = await client.send(id_, "hello")

        assert first == again
        assert first < other
        entries = [entry for entry in await client.history(id_) if entry.data.kind == "input.received"]
        assert [entry.seq for entry in entries] == [first, other]

    async def test_every_text_and_number_comes_through_as_it_is(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, STRANGE)
        await client.ask(id_, "tell")
        entries = await client.history(id_)

        assert entries == await kernel.history(id_)
        assert dict(entry_of(entries, "input.received").private)["text"] == STRANGE
        asked = dict(entry_of(entries, "model.finished", 1).private)["arguments"]
        assert asked == {"text": STRANGE, "number": 2**80}

    async def test_a_part_of_the_history_is_that_part(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "tell")

        for after, upto in ((0, 3), (2, 5), (4, None), (1_000, None), (-(2**70), 2**70)):
            assert await client.history(id_, after, upto) == await kernel.history(id_, after, upto)

    async def test_erased_texts_are_erased(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "hello")
        await kernel.erase(id_)

        assert dict(entry_of(await client.history(id_), "input.received").private)["text"] is ERASED
        assert await client.state_now(id_) == "closed"

    async def test_who_watches_sees_what_is_stored_and_what_comes_once_each(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "hello")
        await client.send(id_, "wait")
        seen: list[Entry] = []
        pieces: list[str] = []
        async with aclosing(closeable(client.watch(id_))) as watched:
            async for item in watched:
                if isinstance(item, Entry):
                    seen.append(item)
                elif isinstance(item, ModelDelta):
                    pieces.append(item.text)
                kinds = [entry.data.kind for entry in seen]
                if kinds.count("model.requested") == 2:  # it looks at what is there, so it sees what comes
                    mind.gate.set()
                if kinds.count("turn.finished") == 2:
                    break

        assert seen == await kernel.history(id_)
        assert "".join(pieces).endswith("it is so")

    async def test_who_watches_from_a_seq_sees_nothing_before(self, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "hello")
        async with aclosing(closeable(client.watch(id_, 3))) as watched:
            first = await anext(watched)

        assert isinstance(first, Entry)
        assert first.seq == 4

    async def test_who_stops_watching_is_forgotten(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        async with aclosing(closeable(client.watch(id_))) as watched:
            await anext(watched)
            assert LogId(id_) in kernel.watchers

        await until(lambda: LogId(id_) not in kernel.watchers)

    async def test_the_state_is_that_of_now(self, kernel: Kernel, client: Operator, mind: Mind, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        states = [await client.state_now(id_)]
        await client.send(id_, "hold")
        await desk.held.wait()
        states.append(await client.state_now(id_))
        await client.interrupt(id_)
        await client.control(id_, Control.PAUSE)
        await until(lambda: kernel.state_of(id_) == "paused")
        states.append(await client.state_now(id_))

        assert states == ["idle", "running", "paused"]

    async def test_a_cancel_ends_the_turn(self, client: Operator, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "hold"))
        await desk.held.wait()
        await client.interrupt(id_, by="ann")

        assert str(await asked) == "cancelled(interrupt)"
        assert entry_of(await client.history(id_), "turn.cancelling").by == "ann"

    async def test_who_stops_waiting_for_a_turn_does_not_end_it(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "wait"))
        await until(lambda: kernel.state_of(id_) == "running")
        asked.cancel()
        await asyncio.wait([asked])
        mind.gate.set()
        outcome = await client.outcome(id_)

        assert asked.cancelled()
        assert outcome is None or outcome.completed
        assert entry_of(await client.history(id_), "turn.finished").data.kind == "turn.finished"

    async def test_a_paused_conversation_begins_no_turn_until_it_goes_on(
        self, kernel: Kernel, client: Operator
    ) -> None:
        id_ = await client.begin("clerk")
        await client.control(id_, Control.PAUSE)
        await client.send(id_, "hello")
        await until(lambda: kernel.state_of(id_) == "paused")
        assert not [entry for entry in await client.history(id_) if entry.data.kind == "turn.started"]

        await client.control(id_, Control.UNPAUSE)
        await client.outcome(id_)
        assert [entry.data.kind for entry in await client.history(id_)][-1] == "turn.finished"

    async def test_a_closed_conversation_takes_nothing(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.control(id_, Control.CLOSE)
        await until(lambda: kernel.state_of(id_) == "closed")

        await same_error(kernel, client, lambda it: it.send(id_, "hello"), ConversationClosed)
        await same_error(kernel, client, lambda it: it.ask(id_, "hello"), ConversationClosed)

    async def test_the_first_answer_counts(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "pay"))
        await until(lambda: kernel.state_of(id_) == "parked")
        request = call_id(id_, entry_of(await client.history(id_), "approval.requested").call)
        first = await client.answer(request, Verdict.ALLOW, by="ann")
        second = await client.answer(request, Verdict.DENY, reason="too late")

        assert (first, second) == (True, False)
        assert (await asked).completed
        decided = entry_of(await client.history(id_), "approval.decided")
        assert (decided.by, decided.data.verdict) == ("ann", Verdict.ALLOW)  # type: ignore[attr-defined]
