"""The contract of clients as a test class: whoever passes it can stand behind a conversation's handle.

Bind it in a test module of yours:

    for part in ("contract", "talk", "case"):
        pytest.register_assert_rewrite(f"agentos.testing.client_{part}")
    from agentos.testing.client_contract import ClientContract

    class TestMyClient(ClientContract):
        def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
            return MyClient(kernel.control_path)

Every test has a kernel over a SQLite file of its own, with a control socket, and compares what the client says with what
the kernel says. The tests are async and run under anyio's pytest plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentos.components import Resolution, Verdict
from agentos.errors import (
    AlreadyResolved,
    ConfigurationError,
    InputRefused,
    KernelClosed,
    NotInDoubt,
    ResourceNotFound,
    UnknownAgent,
    UnknownCall,
    UnknownConversation,
)
from agentos.ids import call_id
from agentos.kernel import Kernel, Listing
from agentos.kernel.client import Operator
from agentos.resources import Factory
from agentos.testing.client_case import CONTRACT_SETTINGS, STRANGE, Desk, Mind, entry_of, same_error, timeless, until
from agentos.testing.client_talk import TalkContract


class ClientContract(TalkContract):
    """What every client promises. `client_of` is the part of the one under test."""

    async def test_a_doubt_is_listed_and_resolved_once(self, kernel: Kernel, client: Operator, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        await client.send(id_, "hold")
        await desk.held.wait()
        await client.interrupt(id_)
        await until(lambda: kernel.state_of(id_) == "idle")
        doubts = await client.doubts()
        assert doubts == await kernel.doubts() == await client.doubts(id_)

        (doubt,) = doubts
        await client.resolve(doubt.call, Resolution.DONE, result=STRANGE, reason="looked", by="ann")
        await until(lambda: kernel.state_of(id_) == "idle")
        await same_error(kernel, client, lambda it: it.resolve(doubt.call, Resolution.FAILED), AlreadyResolved)
        assert await client.doubts() == []

    async def test_conversations_are_listed_as_the_kernel_lists_them(self, kernel: Kernel, client: Operator) -> None:
        ids = [await client.begin("clerk") for _ in range(3)]
        await client.ask(ids[0], "hello")

        assert await client.conversations() == await kernel.conversations() == ids
        assert await client.conversations("running") == []
        for listing in (Listing(), Listing(limit=1), Listing(sort="started", after=ids[2]), Listing(state="idle")):
            assert await client.page(listing) == await kernel.page(listing)

    async def test_what_is_open_and_what_runs_is_what_the_kernel_says(
        self, kernel: Kernel, client: Operator, desk: Desk
    ) -> None:
        id_ = await client.begin("clerk")
        await client.send(id_, "hold")
        await desk.held.wait()
        ours, theirs = await kernel.lsof(), await client.lsof()
        top = await client.top()

        assert [timeless(one) for one in theirs] == [timeless(one) for one in ours]
        (frames,) = [user.frames for one in theirs if one.toolbox == "desk" for user in one.holders]
        assert frames[0] == id_
        assert await client.lsof("agent_nosuch") == []
        assert [turn.conversation for turn in top.turns] == [id_]
        assert (await client.top(0)).turns == ()

    async def test_weights_are_those_of_the_kernel_from_then_on(self, kernel: Kernel, client: Operator) -> None:
        stored = [await client.renice("clerk", 2.5), await client.renice("acme", 4, tenant=True)]
        shares = await client.shares()

        assert stored == [True, True]
        assert shares == await kernel.shares() == (await kernel.top()).shares
        assert [(one.name, one.weight) for one in (*shares.agents, *shares.tenants)] == [("clerk", 2.5), ("acme", 4.0)]
        await client.renice("clerk", 1)
        assert (await kernel.shares()).agents == ()

    async def test_what_was_lent_is_given_back_and_counted(self, kernel: Kernel, client: Operator) -> None:
        closed: list[str] = []

        async def make() -> str:
            return "handle"

        for name in ("one", "two"):
            await kernel.resources.create(kernel.scope, "device", name, Factory(make, close=closed.append))
        counts = [await client.release("program"), await client.release("program")]
        id_ = await client.begin("clerk")
        lent_nothing = [await client.release(name) for name in ("clerk", "desk", id_)]

        assert counts == [2, 0]
        assert lent_nothing == [0, 0, 0]
        assert closed == ["handle"] * 2
        assert not [one for one in await client.lsof() if one.kind == "device"]

    async def test_an_error_is_the_same_on_both_ways(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "tell")
        call = call_id(id_, entry_of(await client.history(id_), "call.proposed").call)
        long = "x" * (CONTRACT_SETTINGS.input_bytes_max + 1)
        way: Callable[[Operator], Awaitable[object]]
        for way, type_ in (
            (lambda it: it.begin("nobody"), UnknownAgent),
            (lambda it: it.begin("clerk", tenant="two words"), InputRefused),
            (lambda it: it.begin("clerk", "key", tenant=""), InputRefused),
            (lambda it: it.renice("nobody", 2), UnknownAgent),
            (lambda it: it.renice("clerk", 0), InputRefused),
            (lambda it: it.renice("clerk", float("inf")), InputRefused),
            (lambda it: anext(aiter(it.watch("conversation_none"))), UnknownConversation),
            (lambda it: it.renice("acme", 1e9, tenant=True), InputRefused),
            (lambda it: it.renice("two words", 2, tenant=True), InputRefused),
            (lambda it: it.release("nobody"), ResourceNotFound),
            (lambda it: it.send(id_, " \n"), InputRefused),
            (lambda it: it.ask(id_, long), InputRefused),
            (lambda it: it.send("conversation_none", "hello"), UnknownConversation),
            (lambda it: it.interrupt("conversation_none"), UnknownConversation),
            (lambda it: it.state_now("conversation_none"), UnknownConversation),
            (lambda it: it.page(Listing(after="nowhere")), UnknownConversation),
            (lambda it: it.answer("no call", Verdict.ALLOW), ConfigurationError),
            (lambda it: it.resolve("no call", Resolution.DONE), UnknownCall),
            (lambda it: it.resolve(call, Resolution.DONE), NotInDoubt),
        ):
            await same_error(kernel, client, way, type_)

    async def test_many_requests_at_once_get_their_own_answers(self, client: Operator) -> None:
        ids = [await client.begin("clerk") for _ in range(20)]
        outcomes = await asyncio.gather(*(client.ask(id_, "hello") for id_ in ids))

        assert [outcome.conversation for outcome in outcomes] == ids

    async def test_who_waits_at_the_close_of_the_kernel_is_told(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "wait"))
        await until(lambda: kernel.state_of(id_) == "running")
        await kernel.close(0)

        with pytest.raises(KernelClosed):
            await asked
