"""JSON with places. The values come from the standard parser; a scanner over the same text finds where they stand."""

from __future__ import annotations

import json
import re
from typing import Any

from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Keys, Lines, Place, Refused, cut, too_deep, too_many

INTEGER_DIGITS_MAX = 20
"""An integer with more digits does not fit into 64 bits; it is not even turned into a number."""

# A string that nobody closes goes on to the end, so that no text is looked at twice.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_NESTING = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_TOKEN = re.compile(rf'(?P<text>{_STRING})|(?P<mark>[\[\]{{}}:,])|(?P<plain>[^\s\[\]{{}}:,"]+)', re.DOTALL)

Read = tuple[Any, dict[Keys, Place], list[tuple[Place, str]]]
"""A value, the places of its parts, and what is wrong with it, each with its place."""


def read_json_text(text: str, limits: FileLimits) -> Read:
    """Raises Refused. Keys that stand twice are told, and the last one holds."""
    lines = Lines(text)
    _check_depth(text, lines, limits.file_depth_max)
    try:
        value = json.loads(text, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise Refused(Place(error.lineno, error.colno), error.msg[:1].lower() + error.msg[1:]) from error
    scanner = _Scanner(lines, limits.file_values_max)
    for match in _TOKEN.finditer(text):
        scanner.take(match)
    return value, scanner.places, scanner.problems


def _integer(digits: str) -> int:
    return int(digits[:INTEGER_DIGITS_MAX]) if len(digits) > INTEGER_DIGITS_MAX else int(digits)


def _check_depth(text: str, lines: Lines, depth_max: int) -> None:
    """Before anything recurses into it."""
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match[0]
        if mark in ("[", "{"):
            depth += 1
            if depth > depth_max:
                raise too_deep(lines.place(match.start()), depth_max)
        elif mark in ("]", "}"):
            depth -= 1


class _Scanner:
    """Goes once through the tokens of a text that is known to be good JSON."""

    def __init__(self, lines: Lines, values_max: int) -> None:
        self.places: dict[Keys, Place] = {}
        self.problems: list[tuple[Place, str]] = []
        self._lines, self._values_max = lines, values_max
        self._way: list[str | int] = []
        self._keys: list[set[str] | None] = []  # for each open mapping its keys so far, None for a list
        self._before_key = False

    def take(self, match: re.Match[str]) -> None:
        token, position = match[0], match.start()
        if match["mark"] is None:
            if self._before_key:
                self._key(json.loads(token), position)
            else:
                self._value(position)
        elif token in "{[":
            self._value(position)
            self._keys.append(set() if token == "{" else None)
            self._way.append(0)
            self._before_key = token == "{"
        elif token in "}]":
            self._keys.pop()
            self._way.pop()
            self._before_key = False
        elif token == ",":
            self._next()

    def _next(self) -> None:
        last = self._way[-1]
        if self._keys[-1] is not None:
            self._before_key = True
        else:
            assert isinstance(last, int)
            self._way[-1] = last + 1

    def _key(self, key: str, position: int) -> None:
        keys = self._keys[-1]
        assert keys is not None
        if key in keys:
            self.problems.append((self._lines.place(position), f"the key {cut(key)!r} stands here twice"))
        keys.add(key)
        self._way[-1] = key
        self._before_key = False
        self._put(position)

    def _value(self, position: int) -> None:
        """The place of a value in a mapping is that of its key."""
        if not self._keys or self._keys[-1] is None:
            self._put(position)

    def _put(self, position: int) -> None:
        place = self._lines.place(position)
        self.places[tuple(self._way)] = place
        if len(self.places) > self._values_max:
            raise too_many(place, self._values_max)
