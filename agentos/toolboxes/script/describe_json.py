"""Finds the JSON object in what a script printed, and reads it key by key with an eye to what was meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)
BRACES_MAX = 64
"""At how many opening braces an object is looked for among other output."""


def object_with(key: str, printed: bytes, notes: list[str]) -> Mapping[str, Any]:
    """The one object with this key, whatever was printed around it. Raises ValueError."""
    text = _text_of(printed, notes)
    if not text:
        raise ValueError("describe printed nothing")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("describe printed something nested too deep to be a description") from error
    except json.JSONDecodeError as error:
        return _among_others(key, text, notes, error)
    if not isinstance(value, dict):
        raise ValueError(f"describe printed {shown(value)}, not an object")
    return value


class Keys:
    """One object of a description, read key by key; what was not read is told by `rest`."""

    def __init__(self, value: Mapping[str, Any], place: str, notes: list[str]) -> None:
        self._value, self.place, self.notes = value, place, notes
        self._read: set[str] = set()

    def note(self, text: str) -> None:
        self.notes.append(f"{self.place}: {text}")

    def wrong(self, text: str) -> ValueError:
        return ValueError(f"{self.place}: {text}")

    def get(self, key: str) -> Any:
        """The value of a key, also under another spelling of it; None when it is not there."""
        if key in self._value:
            self._read.add(key)
            return self._value[key]
        near = [other for other in self._value if squeezed(other) == squeezed(key)]
        if len(near) > 1:
            raise self.wrong(f"{' and '.join(map(repr, near))} may both be {key!r}")
        if not near:
            return None
        self._read.add(near[0])
        self.note(f"{near[0]!r} was read as {key!r}")
        return self._value[near[0]]

    def text(self, key: str) -> str | None:
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"{key} is {shown(value)}, not a text")
        if value is not None and any("\ud800" <= char <= "\udfff" for char in value):
            raise self.wrong(f"{key} holds half of a surrogate pair, which is no text")
        return value

    def word(self, key: str, words: type[E], default: E) -> E:
        value = self.get(key)
        if value is None:
            return default
        for word in words:
            if value == word.value:
                return word
        for word in words:
            if isinstance(value, str) and squeezed(value) == squeezed(word.value):
                self.note(f"{key} {value!r} was read as {word.value!r}")
                return word
        raise self.wrong(f"{key} is {shown(value)}, none of {', '.join(word.value for word in words if word.value)}")

    def switch(self, key: str) -> bool | None:
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(f"{key} is {shown(value)}, neither true nor false")
        return value

    def rest(self) -> None:
        for key in sorted(self._value.keys() - self._read):
            self.note(f"the key {key[:80]!r} means nothing here and is left out")


def _among_others(key: str, text: str, notes: list[str], error: json.JSONDecodeError) -> Mapping[str, Any]:
    found = list(_objects_in(key, text))
    if not found:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"describe did not print a description: {error.msg} at {place}") from error
    if len(found) > 1:
        raise ValueError(f"describe printed {len(found)} descriptions; one is needed")
    start, end, value = found[0]
    sides = (("before", start), ("after", len(text) - end))
    around = " and ".join(f"{size:,} characters {side}" for side, size in sides if size)
    notes.append(f"describe: printed {around} the object, which were left out")
    return value


def _objects_in(key: str, text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Objects with the key, each with its begin and end."""
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    at = text.find("{")
    for _ in range(BRACES_MAX):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(value, dict) and key in value:
            yield at, end, value
        at = text.find("{", end)


class _KeyTwice(ValueError):
    """Which of the two was meant is not known."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise _KeyTwice(f"the key {max(names, key=names.count)[:80]!r} stands twice in one object")
    return value


def _text_of(printed: bytes, notes: list[str]) -> str:
    try:
        text = printed.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"describe did not print UTF-8: byte {error.start} is {printed[error.start]:#04x}") from error
    if text.startswith("\ufeff"):
        notes.append("describe: a byte order mark stands before the object")
    return text.removeprefix("\ufeff").strip()


def squeezed(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()


def shown(value: object) -> str:
    """A value for an error, cut short."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 80 else f"{text[:77]}..."
