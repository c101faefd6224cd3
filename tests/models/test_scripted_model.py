"""The model that answers as a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.clock import Timer
from agentos.errors import ConfigurationError, ModelError
from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.ids import Micros
from agentos.models import ScriptedModel, ScriptExhausted

RequestOf = Callable[..., ModelRequest]


class SleepingClock:
    """Notes how long it was asked to sleep, and sleeps not at all."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    def now(self) -> Micros:
        return Micros(0)

    def monotonic(self) -> float:
        return 0.0

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        raise NotImplementedError

    async def sleep(self, delay_s: float) -> None:
        self.slept_s.append(delay_s)


async def test_reply_number_n_of_a_conversation_is_step_n(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"text": "one"}, {"text": "two"}, {"text": "three"}])

    first = await model.complete(request_of(("user", "a")), deltas.append)
    third = await model.complete(
        request_of(("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two"), ("user", "c")),
        deltas.append,
    )

    assert (first.text, first.finish) == ("one", Finish.STOP)
    assert third.text == "three"
    assert deltas == ["one", "three"]


async def test_calls_end_the_reply_and_their_arguments_are_filled_in(request_of: RequestOf, deltas: list[str]) -> None:
    calls = [{"tool": "search", "arguments": {"pattern": "{input}", "in": ["{input}", 3]}}, {"tool": "now"}]
    model = ScriptedModel([{"calls": calls}, {"text": "found: {results} {other}"}])

    asked = await model.complete(request_of(("user", "{results}")), deltas.append)
    told = await model.complete(
        request_of(("user", "x"), ("call", "search", {}, "1"), ("tool", "search", "a", "1"), ("tool", "now", "b", "2")),
        deltas.append,
    )

    assert asked.finish is Finish.TOOL_USE
    assert asked.calls == (ToolCall("search", {"pattern": "{results}", "in": ["{results}", 3]}), ToolCall("now", {}))
    assert told.text == "found: a\nb {other}"


async def test_each_agent_has_its_own_steps(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel({"one": [{"text": "I am one"}], "*": [{"text": "I am any"}]})

    assert (await model.complete(request_of(("user", ""), agent="one"), deltas.append)).text == "I am one"
    assert (await model.complete(request_of(("user", ""), agent="two"), deltas.append)).text == "I am any"


async def test_rules_answer_by_what_the_request_ends_with(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel(
        [
            {"when": {"last_role": "tool", "last_contains": "none"}, "text": "nothing there"},
            {"when": {"last_role": "tool"}, "text": "there: {results}"},
            {"when": {"last_contains": "hello", "step": 0}, "text": "hello yourself"},
            {"text": "what?"},
        ]
    )

    async def answer(*messages: Any, **more: Any) -> str:
        return (await model.complete(request_of(*messages, **more), deltas.append)).text

    assert await answer(("user", "oh hello")) == "hello yourself"
    assert await answer(("user", "oh hello"), step_index=1) == "what?"
    assert await answer(("user", "a"), ("tool", "f", "none", "1")) == "nothing there"
    assert await answer(("user", "a"), ("tool", "f", "some", "1")) == "there: some"
    assert await answer() == "what?"


async def test_a_script_that_is_over_says_which_step_was_asked_for(request_of: RequestOf, deltas: list[str]) -> None:
    with pytest.raises(ScriptExhausted, match="the script of tester has no step 2") as caught:
        await ScriptedModel([{"text": "one"}]).complete(request_of(("user", "a"), ("assistant", "one")), deltas.append)
    with pytest.raises(ScriptExhausted, match="no rule that fits"):
        await ScriptedModel([{"when": {"step": 5}, "text": ""}]).complete(request_of(), deltas.append)

    assert (caught.value.kind, caught.value.retryable) == ("invalid_request", False)


async def test_a_fault_is_the_error_that_an_adapter_would_raise(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"fault": {"kind": "cut", "text": "half an ans", "retry_after_s": 2.5}}])

    with pytest.raises(ModelError) as caught:
        await model.complete(request_of(("user", "a"), attempt=7), deltas.append)

    assert (caught.value.kind, caught.value.text, caught.value.retry_after_s) == ("cut", "half an ans", 2.5)
    assert deltas == ["half an ans"]


async def test_a_fault_of_the_first_attempts_gives_way_to_the_reply(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"fault": {"kind": "overloaded", "attempts": 2}, "text": "at last"}])

    for attempt in (1, 2):
        with pytest.raises(ModelError, match="overloaded"):
            await model.complete(request_of(("user", "a"), attempt=attempt), deltas.append)
    assert (await model.complete(request_of(("user", "a"), attempt=3), deltas.append)).text == "at last"


async def test_usage_is_as_told_or_counted_alike_every_time(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"text": "12345678", "calls": [{"tool": "f"}]}, {"usage": {"input_tokens": 3}}])

    counted = await model.complete(request_of(("user", "1234567")), deltas.append)
    told = await model.complete(request_of(("assistant", "")), deltas.append)

    assert counted.usage == Usage(input_tokens=4, output_tokens=3)  # 9 + 7 characters; 8 + f + {}
    assert told.usage == Usage(input_tokens=3)


async def test_deltas_are_the_pieces_that_the_script_names(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"deltas": ["to {input}", "gether"]}])

    reply = await model.complete(request_of(("user", "x")), deltas.append)

    assert deltas == ["to x", "gether"]
    assert reply.text == "to xgether"


async def test_a_delay_goes_through_the_clock(request_of: RequestOf, deltas: list[str]) -> None:
    clock = SleepingClock()

    await ScriptedModel([{"text": "late", "delay_s": 3600}], clock).complete(request_of(("user", "a")), deltas.append)

    assert clock.slept_s == [3600]


async def test_a_finish_can_be_named(request_of: RequestOf, deltas: list[str]) -> None:
    reply = await ScriptedModel([{"text": "no", "finish": "refusal"}]).complete(request_of(), deltas.append)

    assert reply.finish is Finish.REFUSAL


async def test_arguments_may_be_text_that_is_no_json(request_of: RequestOf, deltas: list[str]) -> None:
    model = ScriptedModel([{"calls": [{"tool": "f", "arguments": '{"a": '}]}])

    reply = await model.complete(request_of(), deltas.append)

    assert reply.calls == (ToolCall("f", '{"a": '),)


async def test_a_function_can_answer_sync_or_async(request_of: RequestOf, deltas: list[str]) -> None:
    def shout(request: ModelRequest) -> ModelReply:
        return ModelReply(request.messages[-1].text.upper())

    async def whisper(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0)
        return ModelReply(request.messages[-1].text.lower())

    assert (await ScriptedModel(shout).complete(request_of(("user", "Hi")), deltas.append)).text == "HI"
    assert (await ScriptedModel(whisper).complete(request_of(("user", "Hi")), deltas.append)).text == "hi"
    assert deltas == ["HI", "hi"]


async def test_a_conversation_goes_on_with_another_object_where_it_stood(request_of: RequestOf) -> None:
    script = [{"text": f"answer {n}"} for n in range(6)]
    messages: list[Message] = []

    for n in range(6):
        messages.append(Message(Role.USER, f"question {n}"))
        reply = await ScriptedModel(script).complete(request_of(*messages), lambda piece: None)
        messages.append(Message(Role.ASSISTANT, reply.text))

    assert [message.text for message in messages if message.role is Role.ASSISTANT] == [f"answer {n}" for n in range(6)]


async def test_a_script_may_be_a_file(tmp_path: Path, request_of: RequestOf, deltas: list[str]) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("tester:\n  - text: from a file\n    usage: {input_tokens: 1}\n")

    assert (await ScriptedModel(path).complete(request_of(("user", "a")), deltas.append)).text == "from a file"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- txt: a", r"script.yaml: Object contains unknown field `txt` - at `\$\[0\]`"),
        ("- fault: {kind: 3}", r"Expected `str`, got `int` - at `\$\[0\]\.fault\.kind`"),
        ("tester:\n  - calls: [{}]", r"script.yaml: tester: Object missing required field `tool` - at `\$\[0\]\.calls"),
        ("tester: nothing", "script.yaml: tester: a list of steps is needed, not str"),
        ("7", "script.yaml: a list of steps is needed, not int"),
        ("- text: [\n- b: {", r"script.yaml:\d+: "),
        ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_a_bad_script_names_file_and_key(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=why):
        ScriptedModel(path)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: the script cannot be read"):
        ScriptedModel(tmp_path / "gone.yaml")
