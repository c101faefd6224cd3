"""The contract of clients as a test class: whoever passes it can stand behind a conversation's handle.

Bind it in a test module of yours:

    pytest.register_assert_rewrite("agentos.testing.client_contract")
    from agentos.testing.client_contract import ClientContract

    class TestMyClient(ClientContract):
        def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
            return MyClient(kernel.control_path)

Every test has a kernel over a SQLite file of its own, with a control socket, and compares what the client says with what
the kernel says. The tests are async and run under anyio's pytest plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.components import ApprovalMode, Resolution, ToolboxSharing, Verdict
from agentos.definitions import AgentSpec, PolicyRule
from agentos.errors import (
    AgentosError,
    AlreadyResolved,
    ConfigurationError,
    ConversationClosed,
    InputRefused,
    KernelClosed,
    NotInDoubt,
    ResourceNotFound,
    UnknownAgent,
    UnknownCall,
    UnknownConversation,
)
from agentos.events.entry import ERASED, Entry
from agentos.events.intake import Control
from agentos.events.model import Finish, ModelDelta, ModelReply, ModelRequest, ToolCall, Usage
from agentos.ids import LogId, Micros, call_id
from agentos.kernel import Kernel, Listing
from agentos.kernel.client import Operator
from agentos.kernel.lsof import OpenResource, ResourceUser
from agentos.models.base import OnDelta
from agentos.resources import Factory
from agentos.settings import Settings
from agentos.toolboxes.python import PythonToolbox, tool

STRANGE = 'two\nlines, \0, \udcff, \N{SNOWMAN} \N{OGHAM SPACE MARK}, "{"$text": 1}", \x85 and \u2028'
"""A text that wants care on every way."""
TRIES_MAX = 2_000
CONTRACT_SETTINGS = Settings(inbox_poll_ms=20, control_silence_s=30.0)


class Mind:
    """Asks for the tool that an input names, with odd arguments, and then says what came of it."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        last = request.messages[-1]
        if last.text in ("tell", "hold", "pay"):
            arguments: dict[str, Any] = {"text": STRANGE, "number": 2**80} if last.text == "tell" else {}
            return ModelReply("", (ToolCall(last.text, arguments),), Finish.TOOL_USE, Usage(3, 1))
        if last.text == "wait":
            await self.gate.wait()
        for piece in ("it ", "is ", "so"):
            on_delta(piece)
            await asyncio.sleep(0)
        return ModelReply("it is so", usage=Usage(3, 2))

    async def close(self) -> None:
        self.gate.set()


class Desk:
    """The tools: one that answers, one that never does, and one that a person has to allow."""

    def __init__(self) -> None:
        self.held = asyncio.Event()

        @tool(effect="pure")
        async def tell(text: str, number: int) -> dict[str, Any]:
            """Tells."""
            return {"text": text, "number": number}

        @tool
        async def hold() -> None:
            """Holds for ever."""
            self.held.set()
            await asyncio.Event().wait()

        @tool
        async def pay() -> str:
            """Pays."""
            return "paid"

        self.tools: list[Callable[..., Any]] = [tell, hold, pay]


class ClientContract:
    """What every client promises. `client_of` is the part of the one under test."""

    def client_of(self, kernel: Kernel) -> AbstractAsyncContextManager[Operator]:
        """The client of a kernel, which it does not close."""
        raise NotImplementedError

    @pytest.fixture
    def mind(self) -> Mind:
        return Mind()

    @pytest.fixture
    def desk(self) -> Desk:
        return Desk()

    @pytest.fixture
    async def kernel(self, tmp_path: Path, mind: Mind, desk: Desk) -> AsyncIterator[Kernel]:
        async with Kernel(f"sqlite:///{tmp_path}/store.db", settings=CONTRACT_SETTINGS, control=True) as kernel:
            await kernel.add_toolbox(PythonToolbox("desk", desk.tools, ToolboxSharing.POOL, 4))
            policy = [PolicyRule(tool="pay", verdict="ask")]
            await kernel.install(
                AgentSpec(slug="clerk", toolboxes=["desk"], policy=policy, approval=ApprovalMode.PARK), model=mind
            )
            yield kernel
            await kernel.close(0)

    @pytest.fixture
    async def client(self, kernel: Kernel) -> AsyncIterator[Operator]:
        async with self.client_of(kernel) as client:
            yield client

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
        assert dict(_of(entries, "input.received").private)["text"] == STRANGE
        asked = dict(_of(entries, "model.finished", 1).private)["arguments"]
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

        assert dict(_of(await client.history(id_), "input.received").private)["text"] is ERASED
        assert await client.state_now(id_) == "closed"

    async def test_who_watches_sees_what_is_stored_and_what_comes_once_each(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "hello")
        await client.send(id_, "wait")
        seen: list[Entry] = []
        pieces: list[str] = []
        async with aclosing(_generator(client.watch(id_))) as watched:
            async for item in watched:
                if isinstance(item, Entry):
                    seen.append(item)
                elif isinstance(item, ModelDelta):
                    pieces.append(item.text)
                if isinstance(item, Entry) and item.data.kind == "model.requested":
                    mind.gate.set()
                if [entry.data.kind for entry in seen].count("turn.finished") == 2:
                    break

        assert seen == await kernel.history(id_)
        assert "".join(pieces).endswith("it is so")

    async def test_who_watches_from_a_seq_sees_nothing_before(self, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "hello")
        async with aclosing(_generator(client.watch(id_, 3))) as watched:
            first = await anext(watched)

        assert isinstance(first, Entry)
        assert first.seq == 4

    async def test_who_stops_watching_is_forgotten(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        async with aclosing(_generator(client.watch(id_))) as watched:
            await anext(watched)
            assert LogId(id_) in kernel.watchers

        await _until(lambda: LogId(id_) not in kernel.watchers)

    async def test_the_state_is_that_of_now(self, kernel: Kernel, client: Operator, mind: Mind, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        states = [await client.state_now(id_)]
        await client.send(id_, "hold")
        await desk.held.wait()
        states.append(await client.state_now(id_))
        await client.interrupt(id_)
        await client.control(id_, Control.PAUSE)
        await _until(lambda: kernel.state_of(id_) == "paused")
        states.append(await client.state_now(id_))

        assert states == ["idle", "running", "paused"]

    async def test_a_cancel_ends_the_turn(self, client: Operator, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "hold"))
        await desk.held.wait()
        await client.interrupt(id_, by="ann")

        assert str(await asked) == "cancelled(interrupt)"
        assert _of(await client.history(id_), "turn.cancelling").by == "ann"

    async def test_who_stops_waiting_for_a_turn_does_not_end_it(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "wait"))
        await _until(lambda: kernel.state_of(id_) == "running")
        asked.cancel()
        await asyncio.wait([asked])
        mind.gate.set()
        outcome = await client.outcome(id_)

        assert asked.cancelled()
        assert outcome is None or outcome.completed
        assert _of(await client.history(id_), "turn.finished").data.kind == "turn.finished"

    async def test_a_paused_conversation_begins_no_turn_until_it_goes_on(
        self, kernel: Kernel, client: Operator
    ) -> None:
        id_ = await client.begin("clerk")
        await client.control(id_, Control.PAUSE)
        await client.send(id_, "hello")
        await _until(lambda: kernel.state_of(id_) == "paused")
        assert not [entry for entry in await client.history(id_) if entry.data.kind == "turn.started"]

        await client.control(id_, Control.UNPAUSE)
        await client.outcome(id_)
        assert [entry.data.kind for entry in await client.history(id_)][-1] == "turn.finished"

    async def test_a_closed_conversation_takes_nothing(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.control(id_, Control.CLOSE)
        await _until(lambda: kernel.state_of(id_) == "closed")

        await _same(kernel, client, lambda it: it.send(id_, "hello"), ConversationClosed)
        await _same(kernel, client, lambda it: it.ask(id_, "hello"), ConversationClosed)

    async def test_the_first_answer_counts(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "pay"))
        await _until(lambda: kernel.state_of(id_) == "parked")
        request = call_id(id_, _of(await client.history(id_), "approval.requested").call)
        first = await client.answer(request, Verdict.ALLOW, by="ann")
        second = await client.answer(request, Verdict.DENY, reason="too late")

        assert (first, second) == (True, False)
        assert (await asked).completed
        decided = _of(await client.history(id_), "approval.decided")
        assert (decided.by, decided.data.verdict) == ("ann", Verdict.ALLOW)  # type: ignore[attr-defined]

    async def test_a_doubt_is_listed_and_resolved_once(self, kernel: Kernel, client: Operator, desk: Desk) -> None:
        id_ = await client.begin("clerk")
        await client.send(id_, "hold")
        await desk.held.wait()
        await client.interrupt(id_)
        await _until(lambda: kernel.state_of(id_) == "idle")
        doubts = await client.doubts()
        assert doubts == await kernel.doubts() == await client.doubts(id_)

        (doubt,) = doubts
        await client.resolve(doubt.call, Resolution.DONE, result=STRANGE, reason="looked", by="ann")
        await _until(lambda: kernel.state_of(id_) == "idle")
        await _same(kernel, client, lambda it: it.resolve(doubt.call, Resolution.FAILED), AlreadyResolved)
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

        assert [_timeless(one) for one in theirs] == [_timeless(one) for one in ours]
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

        assert counts == [2, 0]
        assert closed == ["handle"] * 2
        assert not [one for one in await client.lsof() if one.kind == "device"]

    async def test_an_error_is_the_same_on_both_ways(self, kernel: Kernel, client: Operator) -> None:
        id_ = await client.begin("clerk")
        await client.ask(id_, "tell")
        call = call_id(id_, _of(await client.history(id_), "call.proposed").call)
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
            await _same(kernel, client, way, type_)

    async def test_many_requests_at_once_get_their_own_answers(self, client: Operator) -> None:
        ids = [await client.begin("clerk") for _ in range(20)]
        outcomes = await asyncio.gather(*(client.ask(id_, "hello") for id_ in ids))

        assert [outcome.conversation for outcome in outcomes] == ids

    async def test_who_waits_at_the_close_of_the_kernel_is_told(
        self, kernel: Kernel, client: Operator, mind: Mind
    ) -> None:
        id_ = await client.begin("clerk")
        asked = asyncio.ensure_future(client.ask(id_, "wait"))
        await _until(lambda: kernel.state_of(id_) == "running")
        await kernel.close(0)

        with pytest.raises(KernelClosed):
            await asked


async def _same(
    kernel: Kernel, client: Operator, way: Callable[[Operator], Awaitable[object]], type_: type[AgentosError]
) -> None:
    """The client raises what the kernel raises: class, words and attributes."""
    errors = []
    for one in (kernel, client):
        with pytest.raises(type_) as raised:
            await way(one)
        errors.append(raised.value)
    ours, theirs = errors
    assert (type(theirs), str(theirs), vars(theirs)) == (type(ours), str(ours), vars(ours))


def _of(entries: list[Entry], kind: str, number: int = 0) -> Entry:
    return [entry for entry in entries if entry.data.kind == kind][number]


def _timeless(one: OpenResource) -> OpenResource:
    """Without how long somebody has it, which goes on between two looks."""

    def still(users: tuple[ResourceUser, ...]) -> tuple[ResourceUser, ...]:
        return tuple(msgspec.structs.replace(user, for_ms=0.0, since=Micros(0)) for user in users)

    return msgspec.structs.replace(one, holders=still(one.holders), waiters=still(one.waiters), takes=())


def _generator(items: AsyncIterator[Any]) -> Any:
    """It has to be closed, and every client gives one that can be."""
    assert hasattr(items, "aclose"), "who watches must be able to stop"
    return items


async def _until(condition: Callable[[], object]) -> None:
    for _ in range(TRIES_MAX):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")
