"""The model that makes the calls which the message spells out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import ToolSpec
from agentos.events.model import Finish, Message, ModelReply, ModelRequest, Role, ToolCall
from agentos.ids import Name
from agentos.models import DirectModel

RequestOf = Callable[..., ModelRequest]


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name=Name(name), description=description, schema=schema)


TEXT, NUMBER, ANY = {"type": "string"}, {"type": "integer"}, dict[str, Any]()
SEARCH = tool("search", "Searches.\n\nIn all files.", ("pattern",), pattern=TEXT, limit=NUMBER, where=ANY)
MIXED = tool("mixed", "", (), text={"type": ["string", "number"]}, maybe={"anyOf": [TEXT, {"type": "null"}]})
TOOLS = (MIXED, tool("now", "Tells the time."), SEARCH)


async def answer(request: ModelRequest) -> ModelReply:
    pieces: list[str] = []
    reply = await DirectModel().complete(request, pieces.append)
    assert "".join(pieces) == reply.text
    return reply


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("search pattern=x", {"pattern": "x"}),
        ('search pattern="to be done" limit=5', {"pattern": "to be done", "limit": 5}),
        ("search pattern='it''s' limit=-2", {"pattern": "its", "limit": -2}),
        ("search pattern=5", {"pattern": "5"}),
        ("search pattern=true where=true", {"pattern": "true", "where": True}),
        ("search pattern={a} where={}", {"pattern": "{a}", "where": {}}),
        (r"search pattern=\d+\s", {"pattern": r"\d+\s"}),
        (r'search pattern="say \"hi\""', {"pattern": 'say "hi"'}),
        ("search pattern= limit=1", {"pattern": "", "limit": 1}),
        ('search pattern=""', {"pattern": ""}),
        ("search pattern=a=b", {"pattern": "a=b"}),
        ('search where={"in": ["docs", "a b"]} pattern=x', {"where": {"in": ["docs", "a b"]}, "pattern": "x"}),
        ("search where=[1, 2]  pattern=x", {"where": [1, 2], "pattern": "x"}),
        ("search where=[oops", {"where": "[oops"}),
        ('search where="5"', {"where": "5"}),
        ("search where=null limit=1.5", {"where": None, "limit": 1.5}),
        ("search where=NaN", {"where": "NaN"}),
        ("search where=007", {"where": "007"}),
        ("search pattern:=5", {"pattern": 5}),
        ('search pattern:="a b" limit:=[1]', {"pattern": "a b", "limit": [1]}),
        ("mixed text=1.10 maybe=null", {"text": "1.10", "maybe": "null"}),
        ("  now  ", {}),
        ("search pattern=grüß✓", {"pattern": "grüß✓"}),
    ],
)
async def test_a_line_that_names_a_tool_is_a_call(request_of: RequestOf, line: str, arguments: dict[str, Any]) -> None:
    reply = await answer(request_of(("user", line), tools=TOOLS))

    assert reply.finish is Finish.TOOL_USE
    assert reply.calls == (ToolCall(line.split(maxsplit=1)[0], arguments),)


async def test_all_lines_of_all_messages_of_the_turn_are_called_in_one_step(request_of: RequestOf) -> None:
    request = request_of(
        ("user", "now"),
        ("assistant", "said"),
        ("user", "search pattern=a\n\nsearch pattern=b"),
        ("user", "now"),
        tools=TOOLS,
    )

    reply = await answer(request)

    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("search", {"pattern": "a"}),
        ("search", {"pattern": "b"}),
        ("now", {}),
    ]


async def test_the_answer_tells_each_call_with_its_result_and_repeats_the_other_lines(request_of: RequestOf) -> None:
    calls = (ToolCall("search", {"pattern": "a b", "limit": 2}, "c1"), ToolCall("now", {}, "c2"))
    request = request_of(
        ("user", 'good morning\nsearch pattern="a b" limit=2\nnow'),
        Message(Role.ASSISTANT, calls=calls),
        ("tool", "search", "x.md: 3\ny.md: 1\n", "c1"),
        ("tool", "now", "12:00", "c2"),
        tools=TOOLS,
    )

    reply = await answer(request)

    assert reply.finish is Finish.STOP
    assert reply.text == ('search pattern="a b" limit=2:\n  x.md: 3\n  y.md: 1\nnow: 12:00\ngood morning')


async def test_lines_that_name_no_tool_are_repeated(request_of: RequestOf) -> None:
    reply = await answer(request_of(("user", "hello\nthere"), tools=TOOLS))

    assert (reply.text, reply.calls, reply.finish) == ("hello\nthere", (), Finish.STOP)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("search for x", "'for' is not name=value"),
        ('search pattern="open', "a quote is never closed"),
        ("search limit:={", "no JSON after ':='"),
        ("search where={}x", "'x' follows a value without a space"),
        ("search =x", "'=x' is not name=value"),
    ],
)
async def test_a_line_that_cannot_be_read_is_explained_and_not_called(
    request_of: RequestOf, line: str, why: str
) -> None:
    reply = await answer(request_of(("user", line), tools=TOOLS))

    assert reply.calls == ()
    assert f"{line}\n  not called: {why}" in reply.text
    assert reply.text.endswith("search pattern=string [limit=integer] [where=any]")


async def test_help_lists_the_tools_and_a_question_mark_tells_of_one(request_of: RequestOf) -> None:
    listed = await answer(request_of(("user", "help"), tools=TOOLS))
    one = await answer(request_of(("user", "search?"), tools=TOOLS))
    none = await answer(request_of(("user", "tool?")))

    assert listed.text == (
        "Tools:\n  mixed [text=string] [maybe=string]\n  now  - Tells the time.\n"
        "  search pattern=string [limit=integer] [where=any]  - Searches."
    )
    assert one.text.startswith("search pattern=string [limit=integer] [where=any]\n  Searches.\n")
    assert none.text == "This agent has no tools."


async def test_an_empty_message_gets_a_hint(request_of: RequestOf) -> None:
    assert (await answer(request_of(("user", " \n")))).text == "Nothing was asked for. 'help' lists the tools."
    assert (await answer(request_of())).text == "Nothing was asked for. 'help' lists the tools."


async def test_usage_is_counted_and_text_comes_in_pieces(request_of: RequestOf) -> None:
    pieces: list[str] = []
    reply = await DirectModel().complete(request_of(("user", "word " * 20)), pieces.append)

    assert len(pieces) > 1
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (28, 25)


async def test_a_long_answer_comes_in_few_pieces(request_of: RequestOf) -> None:
    pieces: list[str] = []
    await DirectModel().complete(request_of(("user", "x" * 1_000_000)), pieces.append)

    assert len(pieces) <= 64


async def test_the_same_request_gives_the_same_reply(request_of: RequestOf) -> None:
    request = request_of(("user", "search pattern=x\nand so on"), tools=TOOLS)

    assert await answer(request) == await answer(request)
