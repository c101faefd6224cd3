"""From the neutral request to the body that a server gets; C17, C20, C21, C36, C38."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.components import ModelRef
from agentos.errors import ConfigurationError
from agentos.events.model import Message, ModelRequest, Role, ToolCall
from agentos.models.openai_chat.flavors import FLAVORS, flavor_of
from agentos.models.openai_chat.request import chat_request, encoded, object_schema
from agentos.models.options import options_of
from agentos.models.pairing import NO_RESULT, paired
from agentos.models.wire_names import WireNames
from agentos.testing.pairing import unpaired
from tests.models.chat_support import Server, asked, chat, request, result, streamed, tool, user

VALID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ONE, TWO = ToolCall("f", {"x": 1}, "c1_0"), ToolCall("g", {}, "c1_1")


def body_of(request_: ModelRequest, flavor: str = "OpenAIv1", **options: Any) -> dict[str, Any]:
    """The body as a server reads it."""
    ref = ModelRef(kind="openai", name="gpt-test", options=options)
    made = chat_request(request_, "gpt-test", options_of(ref), flavor_of(flavor))
    read: dict[str, Any] = json.loads(encoded(made.body))
    return read


def test_a_plain_request() -> None:
    body = body_of(request(user("hello"), prompt=["Be brief.", "Be kind."]))

    assert body == {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": "Be brief.\n\nBe kind."},
            {"role": "user", "content": "hello"},
        ],
        "prompt_cache_key": "conversation_x",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_calls_and_results_stand_as_they_came() -> None:
    body = body_of(
        request(user(), asked(ONE, TWO, text="So:"), result(ONE, "one"), result(TWO, "two"), tools=[tool("f")])
    )

    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "So:",
            "tool_calls": [
                {"id": "c1_0", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
                {"id": "c1_1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1_0", "content": "one"},
        {"role": "tool", "tool_call_id": "c1_1", "content": "two"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "It helps.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_the_same_request_gives_the_same_bytes() -> None:
    def make() -> bytes:
        made = request(user(), asked(ONE), result(ONE, "r"), tools=[tool("b"), tool("a")])
        ref = ModelRef(kind="openai", name="m", options={"temperature": 0.5})
        return encoded(chat_request(made, "m", options_of(ref), flavor_of(None)).body)

    assert make() == make()
    assert [one["function"]["name"] for one in json.loads(make())["tools"]] == ["b", "a"]


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_c36_no_empty_text_is_sent(text: str) -> None:
    messages = [user(text), asked(ONE, text=text), result(ONE, text), Message(Role.ASSISTANT, text)]
    sent = body_of(request(*messages, prompt=["", text]))["messages"]

    assert [(one["role"], one["content"]) for one in sent] == [
        ("user", "(empty)"),
        ("assistant", None),
        ("tool", "(no output)"),
        ("assistant", "(empty)"),
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({}, "{}"),
        (None, "{}"),
        ("", "{}"),
        ('{"x": ', r'{"invalid_json":"{\"x\": "}'),
        ({"n": 10**30}, f'{{"n":{10**30}}}'),
    ],
)
def test_arguments_of_earlier_calls_are_always_an_object(arguments: Any, sent: str) -> None:
    call = ToolCall("f", arguments, "c1_0")
    message = body_of(request(user(), asked(call), result(call, "r")))["messages"][2]

    assert message["tool_calls"][0]["function"]["arguments"] == sent


def test_text_that_has_no_utf8_is_sent_all_the_same() -> None:
    text = body_of(request(user("a\x00b \ud83c \ud83c\udf0d")))["messages"][1]["content"]

    assert text == "a\x00b � 🌍"


# Names, C17


def test_c17_names_are_valid_and_lead_back() -> None:
    names = ["calendar.list", "a/b", "Create Share", "日本", "", "x" * 100, "plain-Name_1"]
    wire = WireNames(names)

    assert [name for name in names if not VALID.fullmatch(wire.to_wire(name))] == []
    assert [wire.to_own(wire.to_wire(name)) for name in names] == names
    assert wire.to_wire("calendar.list") == "calendar_list"
    assert wire.to_wire("plain-Name_1") == "plain-Name_1"


def test_c17_names_that_would_collide_are_told_apart_and_the_valid_one_stays() -> None:
    names = ["a.b", "a/b", "a_b"]
    one, other = WireNames(names), WireNames(reversed(names))

    sent = [one.to_wire(name) for name in names]
    assert sent[2] == "a_b"
    assert len(set(sent)) == 3
    assert sent == [other.to_wire(name) for name in names], "the order says nothing"


@given(st.lists(st.text(max_size=80) | st.sampled_from(["a.b", "a/b", "a_b", "a" * 64, "a" * 65, "a" * 64 + "."])))
def test_c17_any_names_stay_different_and_lead_back(names: list[str]) -> None:
    wire = WireNames(names)

    sent = {name: wire.to_wire(name) for name in names}
    assert len(set(sent.values())) == len(set(names))
    assert all(VALID.fullmatch(name) and name in wire for name in sent.values())
    assert all(wire.to_own(sent[name]) == name for name in names)


def test_a_name_that_nobody_offered_stays_as_the_model_wrote_it() -> None:
    assert WireNames(["a.b"]).to_own("get_dat") == "get_dat"
    assert WireNames(["a.b"]).to_own("a.b") == "a.b"


async def test_c17_a_call_comes_back_under_the_tools_own_name() -> None:
    call = {"id": "a", "function": {"name": "calendar_list", "arguments": "{}"}}
    server = Server(streamed({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}))
    model = chat(server)

    reply = await model.complete(request(tools=[tool("calendar.list")]), lambda piece: None)
    await model.close()

    assert server.bodies[0]["tools"][0]["function"]["name"] == "calendar_list"
    assert reply.calls == (ToolCall("calendar.list", {}, "a"),)


def test_names_of_earlier_calls_are_valid_too() -> None:
    gone = ToolCall("tool.that/was", {}, "c1_0")
    body = body_of(request(user(), asked(gone), result(gone, "r"), tools=[tool("tool_that_was")]))

    called = body["messages"][2]["tool_calls"][0]["function"]["name"]
    assert VALID.fullmatch(called)
    assert called != "tool_that_was"


# Schemas, C20 and C21


@pytest.mark.parametrize("schema", [{"type": "object"}, {}, None, True, {"type": "object", "properties": None}, "x"])
def test_c20_every_schema_is_one_of_an_object_with_properties(schema: Any) -> None:
    assert object_schema(schema) == {"type": "object", "properties": {}}


def test_c21_the_rest_of_a_schema_stays() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "additionalProperties": False,
    }
    before = json.dumps(schema)

    sent = body_of(request(tools=[tool("f", schema)]))["tools"][0]["function"]["parameters"]

    assert sent == {**schema, "type": "object"}
    assert json.dumps(schema) == before


# Pairs


def test_results_are_paired_with_their_calls(caplog: pytest.LogCaptureFixture) -> None:
    stray = Message(Role.TOOL, "lost", (), "c9_0", "f")
    messages = [stray, user(), asked(ONE, TWO), result(TWO, "two"), result(TWO, "again"), stray, user("on"), asked(ONE)]

    with caplog.at_level(logging.WARNING):
        mended = list(paired(messages))

    assert [(one.role.value, one.text, one.call_id) for one in mended if one.role is Role.TOOL] == [
        ("tool", NO_RESULT, "c1_0"),
        ("tool", "two", "c1_1"),
        ("tool", NO_RESULT, "c1_0"),
    ]
    assert [what for what in unpaired(mended) if "same id" not in what] == []
    assert caplog.text.count("'c9_0'") == 2
    assert caplog.text.count("'c1_1'") == 1


def test_a_paired_history_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    messages = [user(), asked(ONE, TWO), result(ONE, "one"), result(TWO, "two"), Message(Role.ASSISTANT, "so")]

    assert list(paired(messages)) == messages
    assert caplog.text == ""


# Options


def test_options_go_into_the_body_under_their_names() -> None:
    body = body_of(
        request(tools=[tool("f.g")]),
        temperature=0,
        top_p=0.5,
        max_tokens=100,
        seed=7,
        stop="END",
        tool_choice="f.g",
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "schema": {"type": "object"}},
        thinking={"effort": "low"},
        stream=False,
        extra_body={"user": "somebody", "temperature": 1},
    )

    del body["messages"], body["tools"]
    assert body == {
        "model": "gpt-test",
        "tool_choice": {"type": "function", "function": {"name": "f_g"}},
        "parallel_tool_calls": False,
        "temperature": 1,
        "top_p": 0.5,
        "max_tokens": 100,
        "seed": 7,
        "stop": ["END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}},
        },
        "reasoning_effort": "low",
        "prompt_cache_key": "conversation_x",
        "stream": False,
        "user": "somebody",
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", "auto"), ("none", "none"), ("required", "required"), ("gone", "auto")],
)
def test_a_choice_of_tools_names_one_that_is_there_or_lets_the_model_choose(choice: str, sent: str) -> None:
    assert body_of(request(tools=[tool("f")]), tool_choice=choice)["tool_choice"] == sent
    assert "tool_choice" not in body_of(request(), tool_choice=choice)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"temprature": 1}, "model openai:gpt-test has no option 'temprature'; did you mean temperature"),
        ({"colour": 1}, "has no option 'colour'; options: base_url, api_key"),
        ({"top_p": 2}, r"option 'top_p': Expected `float` <= 1.0"),
        ({"stream": "yes"}, "option 'stream': Expected `bool`, got `str`"),
        ({"thinking": {"budget": 3}}, "option 'thinking': Object contains unknown field `budget`"),
        (
            {"thinking": {"budget_tokens": 100}, "max_tokens": 100},
            r"budget_tokens \(100\) has to be less than max_tokens",
        ),
        ({"timeouts": {"idle_s": 0}}, "option 'timeouts.idle_s': Expected `float` > 0.0"),
        ({"extra_body": {"messages": []}}, "extra_body may not hold 'messages'"),
        ({"response_format": "json_schema"}, "response_format needs a 'schema'"),
        ({"headers": {"X": "a\nb"}}, "the value of header 'X' is no text that a header may carry"),
        ({"headers": {"X: y": "a"}}, "header 'X: y' cannot be set"),
        ({"headers": {"Host": "a"}}, "header 'Host' cannot be set"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        options_of(ModelRef(kind="openai", name="gpt-test", options=options))


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": "sk-canary-1"},
        {"api_key": ["sk-canary-1"]},
        {"headers": {"Authorization": "Bearer sk-canary-1"}},
        {"headers": {"X-API-Key": "sk-canary-1"}},
        {"api_key": "sk-canary-1", "top_p": "sk-canary-1"},
    ],
)
def test_a_secret_in_the_options_is_refused_without_being_shown(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a reference to a secret is needed") as raised:
        options_of(ModelRef(kind="openai", name="gpt-test", options=options))

    assert "canary" not in str(raised.value)


def test_some_options_may_be_said_in_a_word() -> None:
    options = options_of(
        ModelRef(kind="openai", name="m", options={"thinking": False, "response_format": "json_object"})
    )

    assert options.thinking is not None
    assert options.thinking.enabled is False
    assert options.response_format is not None
    assert options.response_format.type == "json_object"


# Flavors


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("OpenAIv1", "OpenAIv1"),
        ("openai-v1", "OpenAIv1"),
        ("mistral-v1", "MistralV1"),
        ("MistralV1", "MistralV1"),
        ("kimiv1", "KimiV1"),
        ("claude-v1", "ClaudeV1"),
        ("Claude_V1", "ClaudeV1"),
    ],
)
def test_a_flavor_has_aliases(alias: str, name: str) -> None:
    assert flavor_of(alias).name == name


def test_an_unknown_flavor_is_an_error_with_near_names() -> None:
    with pytest.raises(ConfigurationError, match="no flavor is called 'KimmiV1'; did you mean KimiV1"):
        flavor_of("KimmiV1")
    with pytest.raises(ConfigurationError, match="there are OpenAIv1, MistralV1, KimiV1, ClaudeV1"):
        flavor_of("?")


def test_mistral_gets_its_own_words_and_ids() -> None:
    history = [user(), asked(ONE), result(ONE, "one"), user("and?")]
    body = body_of(request(*history, tools=[tool("f")]), "MistralV1", seed=7)

    sent = body["messages"]
    assert (body["tool_choice"], body["parallel_tool_calls"], body["random_seed"]) == ("auto", True, 7)
    assert "stream_options" not in body
    assert "prompt_cache_key" not in body
    assert re.fullmatch("[a-zA-Z0-9]{9}", sent[2]["tool_calls"][0]["id"])
    assert sent[3]["tool_call_id"] == sent[2]["tool_calls"][0]["id"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert body_of(request(tools=[tool("f")]), "MistralV1", tool_choice="required")["tool_choice"] == "any"


def test_mistral_tells_calls_apart_by_nine_letters() -> None:
    calls = [ToolCall("f", {}, f"c{n}_{m}") for n in range(200) for m in range(10)]
    body = body_of(request(user(), asked(*calls), *[result(call, "r") for call in calls]), "MistralV1")

    assert len({call["id"] for call in body["messages"][2]["tool_calls"]}) == len(calls)


def test_claude_thinks_with_a_budget_unless_told_otherwise() -> None:
    def thinking(**options: Any) -> Any:
        return body_of(request(), "ClaudeV1", **options)["thinking"]

    assert thinking() == {"type": "enabled", "budget_tokens": 10_000}
    assert thinking(thinking={"budget_tokens": 4_000}) == {"type": "enabled", "budget_tokens": 4_000}
    assert thinking(thinking={"effort": "low"}) == {"type": "enabled", "budget_tokens": 2_048}
    assert thinking(thinking=False) == {"type": "disabled"}


def test_a_budget_becomes_an_effort_where_only_that_is_taken() -> None:
    def effort(thinking: Any) -> Any:
        return body_of(request(), thinking=thinking)["reasoning_effort"]

    assert [effort({"budget_tokens": n}) for n in (512, 513, 2_049, 8_193)] == ["minimal", "low", "medium", "high"]
    assert (effort(True), effort(False), effort({"effort": "xhigh"})) == ("medium", "none", "xhigh")
    assert "reasoning_effort" not in body_of(request())


def test_kimi_is_switched_to_thinking_or_not() -> None:
    assert body_of(request(), "KimiV1", thinking=True)["thinking"] == {"type": "enabled"}
    assert body_of(request(), "KimiV1", thinking=False)["thinking"] == {"type": "disabled"}
    assert "thinking" not in body_of(request(), "KimiV1")


def test_c38_thinking_goes_back_to_its_own_provider_alone() -> None:
    own = asked(ONE, thinking="hm", kept_for="chat:KimiV1")
    foreign = asked(TWO, thinking="mine", opaque=[{"signature": "s"}], kept_for="messages")
    history = [user(), own, result(ONE, "1"), foreign, result(TWO, "2"), Message(Role.ASSISTANT, "so"), user()]

    def thinking(flavor: str) -> list[Any]:
        sent = body_of(request(*history), flavor)
        assert "mine" not in json.dumps(sent)
        assert "signature" not in json.dumps(sent)
        return [one.get("reasoning_content") for one in sent["messages"] if one["role"] == "assistant"]

    assert thinking("KimiV1") == ["hm", "", ""], "it wants the field on every message of its own"
    assert thinking("OpenAIv1") == [None, None, None]
    assert set(thinking("MistralV1")) == {None}
    assert set(thinking("ClaudeV1")) == {None}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"flavor": "MistralV1", "thinking": True}, "flavor MistralV1 takes no option 'thinking'"),
        (
            {"flavor": "ClaudeV1", "max_tokens": 4_000},
            r"thinks with 10000 tokens, which has to be less than max_tokens",
        ),
        ({"flavor": "Kimi-V7"}, "no flavor is called 'Kimi-V7'"),
        ({"base_url": "ftp://x"}, "base_url 'ftp://x' is no http:// or https:// address"),
        ({"base_url": "https://me:sk-canary@x"}, "base_url holds a user or a password"),
    ],
)
def test_options_that_do_not_go_together_are_told_when_the_model_is_made(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as raised:
        chat(Server(streamed()), **options)

    assert "canary" not in str(raised.value)


async def test_openai_itself_gets_the_limit_under_its_new_name() -> None:
    server = Server(streamed({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}))
    model = chat(server, base_url="https://api.openai.com/v1", max_tokens=5, environ={"OPENAI_API_KEY": "k"})

    await model.complete(request(), lambda piece: None)
    await model.close()

    assert server.bodies[0]["max_completion_tokens"] == 5
    assert "max_tokens" not in server.bodies[0]


def test_every_flavor_is_its_own_family() -> None:
    assert len({flavor.family for flavor in FLAVORS}) == len(FLAVORS)
