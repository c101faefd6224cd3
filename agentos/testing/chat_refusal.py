"""What a Chat Completions API says when it refuses a request, and the plain checks that all its rules are made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

NAME_CHARS_MAX = 64
NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}")
NAME_PATTERN = f"^[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}$"


class Refusal(msgspec.Struct, frozen=True):
    """One thing that is wrong with a request. param is the place in it, code a word for programs or None."""

    param: str | None
    message: str
    code: str | None = None

    def __str__(self) -> str:
        return f"{self.param}: {self.message}" if self.param else self.message


Refusals = Iterator[Refusal]


def kind_of(value: object) -> str:
    """The word for a JSON value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def wrong_type(param: str, expected: str, value: object) -> Refusal:
    message = f"Invalid type for '{param}': expected {expected}, but got {kind_of(value)} instead."
    return Refusal(param, message, "invalid_type")


def missing(param: str) -> Refusal:
    return Refusal(param, f"Missing required parameter: '{param}'.", "missing_required_parameter")


def invalid(param: str, why: str, code: str = "invalid_value") -> Refusal:
    return Refusal(param, f"Invalid '{param}': {why}.", code)


def unknown_keys(value: dict[str, Any], known: Collection[str], param: str) -> Refusals:
    for key in value:
        if key not in known:
            where = f"{param}.{key}"
            yield Refusal(where, f"Unknown parameter: '{where}'.", "unknown_parameter")


def bad_name(value: object, param: str) -> Refusals:
    """A name of a function or of a speaker."""
    if not isinstance(value, str):
        yield wrong_type(param, "a string", value)
    elif not value:
        yield invalid(param, "empty string; a name has 1 character or more", "empty_string")
    elif len(value) > NAME_CHARS_MAX:
        why = f"string too long; the maximum length is {NAME_CHARS_MAX}, this one has {len(value)} characters"
        yield invalid(param, why, "string_above_max_length")
    elif not NAME.fullmatch(value):
        yield invalid(param, f"string does not match the pattern '{NAME_PATTERN}'")


def bad_number(
    value: object, param: str, low: float | None = None, high: float | None = None, *, whole: bool = False
) -> Refusals:
    """A number between two bounds, both of them included."""
    expected = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, expected):
        yield wrong_type(param, "an integer" if whole else "a number", value)
    elif low is not None and value < low:
        yield invalid(param, f"{value} is below the minimum of {low}", "integer_below_min_value")
    elif high is not None and value > high:
        yield invalid(param, f"{value} is above the maximum of {high}", "integer_above_max_value")
