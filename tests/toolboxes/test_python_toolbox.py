"""Python functions as tools."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema_rs
import pydantic
import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.toolboxes.base import Failed
from agentos.toolboxes.python import PythonToolbox, tool


@dataclass
class Place:
    name: str
    height_m: float = 0.0


@dataclass
class Node:
    value: int
    kids: list[Node] = field(default_factory=list)


class Trip(pydantic.BaseModel):
    """A way from here to there."""

    model_config = pydantic.ConfigDict(title="ignored")
    start: Place
    title: str = "untitled"


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    (spec,) = PythonToolbox("box", [function]).tools()
    return spec.schema


async def call(function: Callable[..., Any], arguments: dict[str, Any], context: Any = None) -> object:
    toolbox = PythonToolbox("box", [function])
    try:
        return await toolbox.call(toolbox.tools()[0].name, arguments, context)
    finally:
        await toolbox.close()


def test_the_schema_comes_from_the_signature_and_the_words_from_the_docstring() -> None:
    @tool
    async def search(query: str, limit: int = 10, kinds: list[Literal["a", "b"]] | None = None) -> str:
        """Searches the notes.

        Finds whole words.

        Args:
            query: what to look for,
                in any case
            limit: at most so many
        """
        return query

    (spec,) = PythonToolbox("notes", [search]).tools()

    assert (spec.name, spec.toolbox) == ("search", "notes")
    assert spec.description == "Searches the notes.\n\nFinds whole words."
    assert spec.schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, in any case"},
            "limit": {"type": "integer", "default": 10, "description": "at most so many"},
            "kinds": {
                "anyOf": [{"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert (spec.effect, spec.access, spec.timeout_s) == (EffectClass.ONCE, Access.WRITE, None)


def test_a_tool_without_parameters_is_an_object_without_properties() -> None:
    def now() -> str:
        return "now"

    assert schema_of(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_options_say_what_the_function_does_not() -> None:
    @tool(name="look", effect="pure", access="read", timeout_s=2.5, description="Looks.")
    def look_up() -> None:
        """Not this."""

    (spec,) = PythonToolbox("box", [look_up]).tools()

    assert (spec.name, spec.description, spec.timeout_s) == ("look", "Looks.", 2.5)
    assert (spec.effect, spec.access) == (EffectClass.PURE, Access.READ)
    assert look_up() is None


def test_a_type_used_in_two_places_stands_in_both_and_one_that_contains_itself_is_referred_to() -> None:
    def plan(trip: Trip, home: Place, tree: Node) -> None: ...

    schema = schema_of(plan)

    place = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "height_m": {"type": "number", "default": 0.0}},
        "required": ["name"],
    }
    assert schema["properties"]["home"] == place
    assert schema["properties"]["trip"]["properties"]["start"] == place
    assert schema["properties"]["trip"]["properties"]["title"] == {"type": "string", "default": "untitled"}
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]
    validator = jsonschema_rs.validator_for(schema)
    good = {"trip": {"start": {"name": "a"}}, "home": {"name": "b"}, "tree": {"value": 1, "kids": [{"value": 2}]}}
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "tree": {"value": 1, "kids": [{"value": "x"}]}})


async def test_values_become_what_the_function_is_typed_with() -> None:
    seen: list[Any] = []

    async def plan(trip: Trip, when: datetime, places: set[str], tree: Node) -> None:
        seen.extend((trip, when, places, tree))

    tree = {"value": 1, "kids": [{"value": 2}]}
    await call(plan, {"trip": {"start": {"name": "a"}}, "when": "2026-02-03T04:05:06Z", "places": ["x"], "tree": tree})

    assert seen[0] == Trip(start=Place("a"))
    assert seen[1].isoformat() == "2026-02-03T04:05:06+00:00"
    assert seen[2] == {"x"}
    assert seen[3] == Node(1, [Node(2)])


async def test_what_fits_the_schema_but_not_the_type_is_a_failed_call() -> None:
    async def at(when: datetime) -> None: ...

    failed = await call(at, {"when": "tomorrow"})

    assert isinstance(failed, Failed)
    assert failed.kind == "invalid"
    assert failed.text.startswith("the arguments do not fit:\n1. when: Input should be a valid datetime")


async def test_defaults_are_the_functions_own() -> None:
    async def add(a: int, b: int = 2, *, c: Place = Place("home")) -> tuple[int, str]:  # noqa: B008
        return a + b, c.name

    assert await call(add, {"a": 1}) == (3, "home")


async def test_a_field_as_a_default_gives_description_bound_and_value() -> None:
    async def take(count: int = pydantic.Field(default=3, ge=1, description="how many")) -> int:
        return count

    assert schema_of(take)["properties"]["count"] == {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "how many",
    }
    assert await call(take, {}) == 3


async def test_an_annotated_field_says_more_than_the_docstring() -> None:
    async def take(count: Annotated[int, pydantic.Field(ge=1, description="how many")]) -> int:
        """Takes.

        Args:
            count: not this
        """
        return count

    assert schema_of(take)["properties"]["count"] == {"type": "integer", "minimum": 1, "description": "how many"}
    assert await call(take, {"count": 2}) == 2


async def test_any_parameter_name_is_a_good_one() -> None:
    async def odd(schema: str, copy: str, model_config: str, _self: str, class_: str) -> str:
        return schema + copy + model_config + _self + class_

    arguments = {"schema": "a", "copy": "b", "model_config": "c", "_self": "d", "class_": "e"}

    assert list(schema_of(odd)["properties"]) == list(arguments)
    assert await call(odd, arguments) == "abcde"


async def test_a_whole_float_for_an_integer_becomes_one() -> None:
    async def repeat(times: int) -> list[int]:
        return list(range(times))

    assert await call(repeat, {"times": 2.0}) == [0, 1]


async def test_the_call_context_is_given_and_stands_in_no_schema(context: Any) -> None:
    async def note(text: str, call: CallContext) -> str:
        return f"{text} {call.key}"

    def note_sync(call: CallContext | None, text: str) -> str:
        assert call is not None
        return f"{text} {call.key}"

    for function in (note, note_sync):
        assert list(schema_of(function)["properties"]) == ["text"]
        assert await call(function, {"text": "a"}, context) == "a call_of_a_test_7"


async def test_methods_and_objects_that_can_be_called_are_tools_too() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        @tool(access="read")
        async def count(self, by: int) -> int:
            self.total += by
            return self.total

        async def __call__(self, text: str) -> str:
            return text.upper()

    counter = Counter()
    counting = PythonToolbox("box", [counter.count])

    assert await counting.call(Name("count"), {"by": 2}, None) == 2  # type: ignore[arg-type]
    assert counting.tools()[0].access is Access.READ
    assert await call(counter, {"text": "x"}) == "X"


async def test_a_sync_function_runs_in_another_thread_with_the_callers_context() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("caller")

    def where() -> tuple[str, bool]:
        return who.get(), threading.current_thread() is threading.main_thread()

    assert await call(where, {}) == ("caller", False)


async def test_opening_and_closing_run_once_each_sync_or_async() -> None:
    steps: list[str] = []

    async def opened() -> None:
        steps.append("opened")

    toolbox = PythonToolbox("box", [], opened=opened, closed=lambda: steps.append("closed"))
    await toolbox.open()
    await toolbox.close()

    assert steps == ["opened", "closed"]


def test_sharing_is_as_given_and_stateless_by_default() -> None:
    pool = PythonToolbox("box", [], ToolboxSharing.POOL, 3)

    assert (pool.sharing, pool.size) == (ToolboxSharing.POOL, 3)
    assert PythonToolbox("box", []).sharing is ToolboxSharing.STATELESS


def test_effects_can_be_overridden_for_tools_that_exist() -> None:
    def one() -> None: ...

    assert PythonToolbox("box", [one], effects={"one": EffectClass.PURE}).tools()[0].effect is EffectClass.PURE
    with pytest.raises(ConfigurationError, match="toolbox box: effects names no tool 'two'; it has one"):
        PythonToolbox("box", [one], effects={"two": EffectClass.PURE})


async def test_an_unknown_tool_is_a_failed_call() -> None:
    toolbox = PythonToolbox("box", [])

    assert await toolbox.call(Name("x"), {}, None) == Failed(  # type: ignore[arg-type]
        Name("unknown_tool"), "toolbox box has no tool x"
    )


def rest(*args: int) -> None: ...
def positional(a: int, /) -> None: ...
def unknown(a: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def opaque(a: threading.Thread) -> None: ...
def yielding() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (rest, r"tool rest: parameter \*args: 'int' cannot be given by name"),
        (positional, "tool positional: parameter a: 'int' cannot be given by name"),
        (unknown, "tool unknown: its type hints cannot be read here: name 'NoSuchType' is not defined"),
        (opaque, "tool opaque: no schema for its parameters: Unable to generate pydantic-core schema"),
        (yielding, "tool yielding yields; a tool returns its result"),
        (lambda: 1, "'<lambda>' is no name for a tool"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_an_error_with_its_place(function: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        PythonToolbox("box", [function])

    assert str(caught.value).startswith(f"{Path(__file__)}:{function.__code__.co_firstlineno}: ")


def test_two_tools_of_one_name_are_an_error_with_both_places() -> None:
    @tool(name="rest")
    def other() -> None: ...

    @tool(name="rest")
    def rest_of_it() -> None: ...

    with pytest.raises(ConfigurationError, match=r"toolbox box: two tools are named rest: .*\.py:\d+ and .*\.py:\d+"):
        PythonToolbox("box", [other, rest_of_it])


def test_another_word_for_an_effect_is_an_error() -> None:
    with pytest.raises(ValueError, match="'twice' is not a valid EffectClass"):
        tool(effect="twice")


async def test_a_plain_async_tool_costs_next_to_nothing() -> None:
    async def echo(text: str, tags: list[str] | None = None) -> str:
        return text

    toolbox = PythonToolbox("box", [echo])
    arguments: dict[str, Any] = {"text": "x", "tags": ["y"]}
    rounds, best_us = 2_000, float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(rounds):
            await toolbox.call(Name("echo"), arguments, None)  # type: ignore[arg-type]
        best_us = min(best_us, (time.process_time() - started) / rounds * 1e6)

    assert best_us < 10
