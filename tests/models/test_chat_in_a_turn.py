"""Turns of a kernel over a Chat Completions server; C12, C38 to C43."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from agentos.components import ModelRef
from agentos.definitions import AgentSpec
from agentos.events.model import Usage
from agentos.history import Identical, replay_log, verify_store
from agentos.kernel import Conversation, Kernel
from agentos.models.openai_chat import OpenAIChat
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from agentos.toolboxes.python import PythonToolbox
from tests.models.chat_support import (
    HOST,
    USAGE,
    Answer,
    Server,
    delta,
    json_answer,
    piece,
    stream,
    streamed,
)
from tests.support import entries_of, kinds, results, settled

HELLO = streamed(delta(content="Hel"), delta(content="lo"), delta("stop"), {"id": "", "choices": [], "usage": USAGE})
CALL = streamed(piece(0, "a", "add", '{"x": 1}'), delta("tool_calls"), {"id": "", "choices": [], "usage": USAGE})


def add(x: int) -> str:
    return f"one more than {x - 1}"


def now() -> str:
    return "noon"


class Desk:
    """An open kernel with one agent whose model asks a server."""

    def __init__(self, kernel: Kernel, server: Server, clock: ManualClock, talk: Conversation) -> None:
        self.kernel, self.server, self.clock, self.talk = kernel, server, clock, talk

    async def waited(self, asked: asyncio.Task[Any], seconds: float) -> None:
        """Time passes until the turn has ended, or so many seconds are over."""
        while seconds > 0 and not asked.done():
            await settled(self.kernel)
            self.clock.advance(0.5)
            seconds -= 0.5
        await settled(self.kernel)


@asynccontextmanager
async def desk(
    *answers: Answer | Exception, store: Store | None = None, options: Any = None, **spec: Any
) -> AsyncIterator[Desk]:
    server, clock = Server(*answers), ManualClock()
    ref = ModelRef(kind="openai", name="gpt-test", options={"base_url": HOST, **(options or {})})
    model = OpenAIChat(ref, environ={}, clock=clock, transport=server)
    async with Kernel(store or MemoryStore(), clock=clock) as kernel:
        await kernel.add_toolbox(PythonToolbox("box", [add, now]))
        await kernel.install(AgentSpec(slug="main", toolboxes=["box"], **spec), model=model)
        yield Desk(kernel, server, clock, await kernel.start("main"))


async def test_a_turn_with_a_call_is_stored_replayed_and_verified() -> None:
    store = MemoryStore()
    async with desk(CALL, HELLO, store=store) as here:
        outcome = await here.talk.ask("go")
        finished = [entry.data for entry in await entries_of(here.talk, "model.finished")]
        replayed = await replay_log(store, here.talk.id)
        report = await verify_store(store)

    assert (str(outcome), outcome.text, outcome.input_tokens, outcome.output_tokens) == ("completed", "Hello", 20, 100)
    assert [(data.usage, data.model, data.response) for data in finished] == [  # type: ignore[attr-defined]
        (Usage(10, 50), "gpt-test-2026", "chatcmpl-7"),
        (Usage(10, 50), "gpt-test-2026", "chatcmpl-7"),
    ]
    assert isinstance(replayed, Identical)
    assert report.ok
    sent = here.server.bodies[1]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert sent[2]["content"] == "one more than 0"


async def test_c12_missing_arguments_are_no_error_unless_they_are_needed() -> None:
    both = streamed(piece(0, "a", "now"), piece(1, "b", "add", ""), delta("tool_calls"))
    async with desk(both, HELLO) as here:
        await here.talk.ask("go")
        found = await results(here.talk)

    refused, text = next(one for one in found if one[0] != "done")
    assert ("done", "noon") in found
    assert refused == "failed(invalid)"
    assert '"x" is a required property' in text


async def test_c38_thinking_goes_back_with_the_calls_that_it_led_to() -> None:
    store = MemoryStore()
    think, so = delta(reasoning_content="I add."), delta(reasoning_content="It is known.")
    first = streamed(think, piece(0, "a", "add", '{"x": 1}'), delta("tool_calls"))
    second = streamed(so, delta(content="So."), delta("stop"))
    async with desk(first, second, HELLO, store=store, options={"flavor": "KimiV1"}) as here:
        await here.talk.ask("go")
        await here.talk.ask("and?")
        replayed = await replay_log(store, here.talk.id)

    last = here.server.bodies[2]["messages"]
    assert [one.get("reasoning_content") for one in last if one["role"] == "assistant"] == ["I add.", ""]
    assert isinstance(replayed, Identical)


async def test_c38_other_flavors_keep_thinking_in_the_log_alone() -> None:
    first = streamed(delta(reasoning_content="I add."), piece(0, "a", "add", '{"x": 1}'), delta("tool_calls"))
    async with desk(first, HELLO) as here:
        await here.talk.ask("go")
        (entry, _) = await entries_of(here.talk, "model.finished")

    assert ("thinking", "I add.") in entry.private
    assert "I add." not in str(here.server.bodies[1])


async def test_c39_a_refusal_ends_the_turn_with_one_request() -> None:
    async with desk(streamed(delta(refusal="I will not."), delta("stop"))) as here:
        outcome = await here.talk.ask("go")

    assert (str(outcome), outcome.text) == ("refused", "I will not.")
    assert len(here.server.requests) == 1


async def test_c40_a_call_that_was_cut_off_is_not_run() -> None:
    cut = streamed(piece(0, "a", "add", '{"x": 1}'), delta("length"))
    async with desk(cut, HELLO) as here:
        outcome = await here.talk.ask("go")
        ((status, text),) = await results(here.talk)

    assert status == "failed(cut)"
    assert "send the call again" in text
    assert str(outcome) == "completed"


@pytest.mark.parametrize("breaks", [None, httpx.ReadError("reset")])
async def test_c42_a_cut_stream_is_tried_again_and_its_text_is_not_doubled(breaks: Exception | None) -> None:
    half = Answer(pieces=[stream(delta(content="Half a sen"), done=False)], breaks=breaks)
    async with desk(half, HELLO) as here:
        asked = asyncio.create_task(here.talk.ask("go"))
        await here.waited(asked, 5)
        outcome = await asked
        (first, second) = await entries_of(here.talk, "model.finished")

    assert (str(outcome), outcome.text) == ("completed", "Hello")
    assert (first.data.error, first.private[0]) == ("cut", ("text", "Half a sen"))  # type: ignore[attr-defined]
    assert second.private[0] == ("text", "Hello")
    assert [one["role"] for one in here.server.bodies[1]["messages"]] == ["user"]


async def test_c43_retry_after_is_kept_between_the_attempts() -> None:
    limited = json_answer({"error": {"message": "slow down"}}, 429, retry_after="3")
    async with desk(limited, limited, HELLO) as here:
        asked = asyncio.create_task(here.talk.ask("go"))
        counts = []
        for _ in range(8):
            await here.waited(asked, 1)
            counts.append(len(here.server.requests))
        outcome = await asked

    assert outcome.text == "Hello"
    assert counts[:7] == [1, 1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (json_answer({"error": {"message": "no"}}, 429, retry_after="864000"), "rate_limit", "864000 s (10 days)"),
        (json_answer({"error": {"message": "no"}}, 529, retry_after="120"), "overloaded", "120 s (2 minutes)"),
        (json_answer({"error": {"message": "no money", "code": "insufficient_quota"}}, 429), "quota", "no money"),
    ],
)
async def test_c43_what_no_wait_helps_fails_at_once_and_says_how_long(answer: Answer, kind: str, told: str) -> None:
    async with desk(answer) as here:
        outcome = await here.talk.ask("go")
        kinds_ = await kinds(here.talk)

    assert str(outcome) == f"failed(model:{kind})"
    assert told in outcome.error
    assert len(here.server.requests) == 1
    assert "wake.fired" not in kinds_


async def test_c43_one_layer_retries() -> None:
    async with desk(json_answer({"error": {"message": "Overloaded"}}, 529), model_attempts=3) as here:
        asked = asyncio.create_task(here.talk.ask("go"))
        await here.waited(asked, 60)
        outcome = await asked

    assert str(outcome) == "failed(model:overloaded)"
    assert len(here.server.requests) == 3


async def test_many_conversations_share_one_client() -> None:
    async with desk(HELLO) as here:
        talks = [await here.kernel.start("main") for _ in range(50)]
        outcomes = await asyncio.gather(*[talk.ask(f"hello {n}") for n, talk in enumerate(talks)])

    assert {outcome.text for outcome in outcomes} == {"Hello"}
    assert len({body["prompt_cache_key"] for body in here.server.bodies}) == 50
    assert here.server.closed
