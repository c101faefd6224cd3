"""A kernel, the adapter for Chat Completions and the chat server, over real sockets: turns, tools, faults, retries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentos.components import ModelRef
from agentos.definitions import AgentSpec
from agentos.errors import ModelError
from agentos.events.model import ModelReply, ModelRequest, ToolCall
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.models.openai_chat import OpenAIChat
from agentos.persistence.memory import MemoryStore
from agentos.testing.chat_server import (
    ChatCall,
    ChatReply,
    ChatRequest,
    ChatServer,
    Close,
    Cut,
    ErrorObject,
    NoFinish,
    Pieces,
    Reset,
    Stall,
    Status,
    WireFault,
)
from agentos.testing.chat_server.bodies import encoded
from agentos.testing.chat_server.reply import FAULT_KINDS
from agentos.testing.checker import Checker
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.toolboxes.python import PythonToolbox
from tests.support import Lab, entries_of, results, until

Faults = Sequence[WireFault] | WireFault
HELLO = [
    {"deltas": ["There ", "you ", "are 🌍."], "usage": {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 2}}
]


@asynccontextmanager
async def home(
    script: Any,
    faults: dict[int, Faults] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    *,
    every: Sequence[WireFault] = (),
    agents: Sequence[AgentSpec] = (),
    options: dict[str, Any] | None = None,
    **spec: Any,
) -> AsyncIterator[tuple[Lab, ChatServer]]:
    """A kernel whose agents ask the server, each for the model of its own slug. Every request has to be a valid one."""
    clock, store = ManualClock(), MemoryStore()
    checker = Checker(store)
    kernel = Kernel(store, ids=SequentialIds(), clock=clock, salts=SequentialSalts())
    async with ChatServer(script, faults=faults, every=every, system_first=True) as server, kernel:
        checker.watch(kernel)
        if tools:
            await kernel.add_toolbox(PythonToolbox("box", tools))
        boxes = ["box"] if tools else []
        for agent in agents or [AgentSpec(slug="main", toolboxes=boxes, **spec)]:
            own = {"base_url": server.url, **(options or {})}
            model = {"kind": "openai", "name": agent.slug, "options": own}
            await kernel.install(AgentSpec.model_validate({**agent.model_dump(exclude_unset=True), "model": model}))
        yield Lab(kernel, clock, {}), server
        await kernel.close(0)
    kernel.ticker.after_tick = None
    assert not checker.broken, checker.broken
    assert [problem for request in server.requests for problem in request.problems] == []


async def retried(here: Lab, server: ChatServer, conversation: Conversation) -> RunOutcome:
    """The outcome of a turn whose first request is tried again, with the time going on until it is."""
    asked = asyncio.ensure_future(conversation.ask("go"))
    await until(lambda: conversation.state == "parked")
    assert len(server.requests) == 1
    await here.advance(60)
    return await asked


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_plain_turn_has_the_text_and_the_usage_of_the_server(stream: bool) -> None:
    async with home(HELLO, system_prompt="Be brief.", options={"stream": stream}) as (here, server):
        conversation = await here.start()
        outcome = await conversation.ask("Where?")
        (finished,) = await entries_of(conversation, "model.finished")

    usage: Any = finished.data
    assert (str(outcome), outcome.text) == ("completed", "There you are 🌍.")
    assert (usage.usage.input_tokens, usage.usage.output_tokens, usage.usage.cached_tokens) == (10, 5, 2)
    assert server.requests[0].stream is stream
    assert server.requests[0].messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
    ]


async def test_calls_of_one_reply_run_and_their_results_go_back_in_order() -> None:
    async def look(place: str) -> str:
        return f"{place} is there"

    async def fail() -> str:
        raise ValueError("no such thing")

    calls = [
        {"tool": "look", "fragments": ['{"pla', 'ce": "杭', '州"}'], "id": "a"},
        {"tool": "fail", "arguments": "", "id": "b"},
        {"tool": "look", "arguments": {"place": "Oslo"}, "id": "c"},
        {"tool": "guess", "id": "d"},
    ]
    script = [{"text": "Looking.", "calls": calls}, {"text": "Both are there."}]

    async with home(script, {1: Pieces(1)}, [look, fail]) as (here, server):
        conversation = await here.start()
        outcome = await conversation.ask("Where are they?")
        ran = await results(conversation)

    asked, *answers = server.requests[1].messages[1:]
    assert (str(outcome), outcome.text) == ("completed", "Both are there.")
    assert [status for status, _ in ran].count("done") == 2
    assert asked["content"] == "Looking."
    assert [call["id"] for call in asked["tool_calls"]] == [answer["tool_call_id"] for answer in answers]
    assert [answer["content"] for answer in answers][::2] == ["杭州 is there", "Oslo is there"]
    assert "no such thing" in answers[1]["content"]
    assert "look" in answers[3]["content"]


async def test_a_server_that_gives_every_call_the_same_id_gets_valid_requests_all_the_same() -> None:
    async def note(text: str) -> str:
        return ""

    def script(chat: ChatRequest) -> ChatReply:
        if chat.messages[-1]["role"] == "tool":
            return ChatReply(text="Noted.")
        return ChatReply(calls=(ChatCall("note", {"text": "a"}, "same"), ChatCall("note", {"text": "b"}, "same")))

    async with home(script, tools=[note]) as (here, server):
        conversation = await here.start()
        texts = [(await conversation.ask(f"turn {n}")).text for n in range(3)]

    ids = [call["id"] for message in server.requests[-1].messages for call in message.get("tool_calls", ())]
    assert texts == ["Noted."] * 3
    assert len(set(ids)) == len(ids) == 6


async def test_one_server_serves_an_agent_and_the_agent_that_it_asks() -> None:
    agents = [AgentSpec(slug="parent", subagents=["child"]), AgentSpec(slug="child")]
    script = {
        "parent": [{"calls": [{"tool": "ask_child", "arguments": {"task": "count"}}]}, {"text": "It says {results}"}],
        "child": [{"text": "Did {input}."}],
    }

    async with home(script, agents=agents) as (here, server):
        outcome = await here.ask("go", "parent")

    assert [request.model for request in server.requests] == ["parent", "child", "parent"]
    assert "Did count." in (outcome.text or "")


@pytest.mark.parametrize(
    "faults",
    [Cut(0), Cut(700), Close(500), Reset(0, "wire"), Reset(400), Reset(700), NoFinish(), ErrorObject(2), Status(503)],
    ids=repr,
)
async def test_a_stream_that_is_cut_is_asked_for_again_and_its_text_stands_once(faults: WireFault) -> None:
    async with home([*HELLO, {"text": "Here."}], {1: faults}) as (here, server):
        conversation = await here.start()
        outcome = await retried(here, server, conversation)
        await conversation.ask("And you?")

    asked = [(message["role"], message["content"]) for message in server.requests[2].messages]
    assert (str(outcome), outcome.text) == ("completed", "There you are 🌍.")
    assert [request.attempt for request in server.requests] == [1, 2, 1]
    assert asked == [("user", "go"), ("assistant", "There you are 🌍."), ("user", "And you?")]


async def test_calls_of_a_cut_stream_do_not_run() -> None:
    ran: list[str] = []

    async def write(text: str) -> str:
        ran.append(text)
        return "written"

    script = [{"calls": [{"tool": "write", "arguments": {"text": "once"}}]}, {"text": "Done."}]

    async with home(script, {1: NoFinish()}, [write]) as (here, server):
        outcome = await retried(here, server, await here.start())

    assert (str(outcome), ran) == ("completed", ["once"])
    assert [request.attempt for request in server.requests] == [1, 2, 1]


async def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks() -> None:
    async with home(HELLO, {1: Status(429, {"Retry-After": "3"})}) as (here, server):
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: conversation.state == "parked")
        await here.advance(2.9)
        early = len(server.requests)
        await here.advance(0.2)
        outcome = await asked

    assert (early, len(server.requests)) == (1, 2)
    assert outcome.text == "There you are 🌍."


@pytest.mark.parametrize(
    "faults", [Status(400), Status(401), Status(404), Status(429, {"Retry-After": "864000"})], ids=repr
)
async def test_what_no_wait_helps_fails_the_turn_after_one_request(faults: WireFault) -> None:
    async with home(HELLO, {1: faults}) as (here, server):
        outcome = await here.ask()

    assert str(outcome).startswith("failed(model:")
    assert len(server.requests) == 1


async def test_a_cancelled_turn_leaves_the_server_at_once() -> None:
    async with home(HELLO, {1: Stall(400)}) as (here, server):
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: server.requests)
        await conversation.interrupt()
        outcome = await asked
        await until(lambda: server.left)

    assert str(outcome) == "cancelled(interrupt)"
    assert server.left == [1]


RECORDED: list[Any] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "Grüße 🌍"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"c":"杭'}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '州"}'}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}},
    "data: [DONE]\n\n",
]
BYTES = sum(len(encoded(event)) for event in RECORDED)


@asynccontextmanager
async def adapter(server: ChatServer) -> AsyncIterator[OpenAIChat]:
    client = OpenAIChat(ModelRef(kind="openai", name="m"), base_url=server.url, environ={})
    try:
        yield client
    finally:
        await client.close()


async def said(client: OpenAIChat, request: ModelRequest) -> tuple[ModelReply | ModelError, str]:
    """What comes of a request, and the text that was streamed before."""
    deltas: list[str] = []
    try:
        return await client.complete(request, deltas.append), "".join(deltas)
    except ModelError as error:
        return error, "".join(deltas)


@pytest.mark.parametrize("fault", [Cut, Close, Reset])
async def test_a_stream_cut_at_any_byte_is_a_whole_answer_or_an_error_and_never_a_part_of_one(
    fault: type[Cut | Close | Reset], request_of: Callable[..., ModelRequest]
) -> None:
    cuts = {after + 2: fault(after) for after in range(BYTES + 1)}
    request = request_of(("user", "go"))
    kinds = set()

    async with ChatServer([{"events": RECORDED}], faults=dict(cuts)) as server, adapter(server) as client:
        whole, text = await said(client, request)
        for _ in cuts:
            found, streamed = await said(client, request)
            assert text.startswith(streamed)
            if isinstance(found, ModelError):
                assert found.text == streamed
                kinds.add(found.kind)
            else:
                assert isinstance(whole, ModelReply)
                assert (found.text, found.calls, found.finish) == (whole.text, whole.calls, whole.finish)
                kinds.add("whole")

    assert isinstance(whole, ModelReply)
    assert (whole.text, whole.calls) == ("Grüße 🌍", (ToolCall("f", {"c": "杭州"}, "a"),))
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (9, 4)
    assert kinds == {"cut", "whole"}
    assert server.problems == []


@pytest.mark.parametrize("fault", [Pieces(1), Pieces(1, "wire"), Pieces(3), Pieces(7, "wire")], ids=repr)
async def test_an_answer_is_the_same_in_whatever_pieces_it_comes(
    fault: WireFault, request_of: Callable[..., ModelRequest]
) -> None:
    async with ChatServer([{"events": RECORDED}], faults={2: fault}) as server, adapter(server) as client:
        first, _ = await said(client, request_of(("user", "go")))
        second, _ = await said(client, request_of(("user", "go")))

    assert isinstance(first, ModelReply)
    assert first == second


SAID_LATE = {"network": "cut", "unavailable": "overloaded"}
"""What a fault is once the stream has begun: an error without a status may be anything, and is tried again."""


@pytest.mark.parametrize("kind", sorted(set(FAULT_KINDS) - {"timeout"}))
@pytest.mark.parametrize("text", ["", "I th"])
async def test_a_fault_of_a_script_is_over_the_wire_what_it_is_in_the_scripted_model(
    kind: str, text: str, request_of: Callable[..., ModelRequest]
) -> None:
    async with ChatServer([{"fault": {"kind": kind, "text": text}}]) as server, adapter(server) as client:
        found, streamed = await said(client, request_of(("user", "go")))

    assert isinstance(found, ModelError)
    assert streamed == text
    assert found.kind == (SAID_LATE.get(kind, kind) if text else kind)
