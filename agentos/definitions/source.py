"""What a file says, with the place of each key and item, so that every later error can name line and column."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any, NamedTuple

from agentos.definitions.problem import Problem, Severity

Keys = tuple[str | int, ...]
"""The way to a value: keys of mappings and positions in lists."""


SAID_CHARS_MAX = 80
"""As much of a text of a file is said in a message."""


class Place(NamedTuple):
    """From 1, the column in characters; 0 stands for a file as a whole."""

    line: int
    column: int


class Source(NamedTuple):
    """What a file says, and the places of its keys and list items.

    value holds nothing but dict, list, str, int of 64 bits, finite float, bool and None; it is None when the file could
    not be read, and then an error among the problems tells why.
    """

    path: Path
    value: Any
    places: dict[Keys, Place]
    problems: tuple[Problem, ...] = ()

    def place(self, keys: Keys) -> Place:
        """That of the innermost of these keys that stands in the file."""
        while keys not in self.places and keys:
            keys = keys[:-1]
        return self.places.get(keys, Place(1, 1))

    def where(self, keys: Keys) -> str:
        """file:line:column"""
        place = self.place(keys)
        return f"{self.path}:{place.line}:{place.column}"

    def problem(self, keys: Keys, text: str, severity: Severity = "error") -> Problem:
        """Something that is wrong with the value of these keys."""
        return Problem(self.path, *self.place(keys), text, severity)


def dotted(keys: Keys) -> str:
    """The way to a value in words for the beginning of a problem: `toolboxes[0].path: `; nothing for the whole."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{cut(key)}" for key in keys)
    return f"{text.removeprefix('.')}: " if text else ""


def cut(text: str) -> str:
    """A text of a file for a message, cut where it is long."""
    return text if len(text) <= SAID_CHARS_MAX else f"{text[:SAID_CHARS_MAX]}..."


class Refused(Exception):
    """Inside the readers: a file that says nothing, for this reason."""

    def __init__(self, place: Place, text: str) -> None:
        self.place, self.text = place, text
        super().__init__(text)


class Lines:
    """From positions in a text to places."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        end = text.find("\n")
        while end >= 0:
            self._starts.append(end + 1)
            end = text.find("\n", end + 1)

    def place(self, position: int) -> Place:
        line = bisect_right(self._starts, position)
        return Place(line, position - self._starts[line - 1] + 1)


def too_deep(place: Place, depth_max: int) -> Refused:
    return Refused(place, f"nested deeper than {depth_max} levels (file_depth_max)")


def too_many(place: Place, values_max: int) -> Refused:
    return Refused(place, f"more than {values_max:,} values (file_values_max), or an alias that repeats itself")
