"""The one rendering of a tool's result as the text that a model reads.

    str                          itself                    None                (no result)
    dict, list, tuple, number    JSON                      set                 a JSON list, sorted
    NaN, Infinity                these words               10**30              all its digits
    datetime, date, time         ISO 8601; a zone as its offset from UTC, none when it has none
    timedelta                    its seconds, as a number  Decimal             its digits: 1.10
    bytes                        base64 and the size       Enum                its value
    Media                        its type and size; base64 too while that is short
    Path, UUID                   their text                namedtuple          an object
    dataclass, msgspec Struct, pydantic model              an object of its fields

Within a list or an object, what is no JSON stands as a string of the same text. Anything else is refused, and fails the
one call whose result it is. Lone surrogates and U+0000 pass; the codec keeps them.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from agentos.errors import ToolError
from agentos.resources.process.output import bytes_text

NO_RESULT = "(no result)"
DEPTH_MAX = 100
MEDIA_SHOWN_BYTES = 1_024
INTEGER_BITS_MAX = 14_000
"""About 4,200 digits, just under what Python itself agrees to write out."""


class Rendered(NamedTuple):
    """text is what the model reads; whole the full text when text is only its head and tail, else None."""

    text: str
    whole: str | None = None


class Media(msgspec.Struct, frozen=True):
    """Bytes that are no text, of a media type. total is their true number when data is only the first of them.

    A model that reads text gets one line about them, with the bytes in base64 when they are at most MEDIA_SHOWN_BYTES;
    else the call keeps them beside that line, as a `data:` URL.
    """

    media_type: str
    data: bytes
    total: int

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


class ResultRefused(ToolError):
    """A tool returned something that has no text."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the tool ran, but returned {what}, which has no text form")


def render(value: object, limit_chars: int) -> Rendered:
    """The text of a result, at most limit_chars long. Raises ResultRefused naming the type that has no text."""
    text = value if type(value) is str else text_of(value)
    if isinstance(value, Media) and value.total > MEDIA_SHOWN_BYTES:
        return Rendered(cut(text, limit_chars), value.url)
    if len(text) <= limit_chars:
        return Rendered(text)
    return Rendered(cut(text, limit_chars), text)


def text_of(value: object) -> str:
    """The whole text of a result, whatever its length. Raises ResultRefused."""
    if value is None:
        return NO_RESULT
    plain = _Plain().of(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def cut(text: str, limit_chars: int) -> str:
    """Three quarters of the room for the head, a line that says how much is left out of how much, then the tail."""
    if len(text) <= limit_chars:
        return text
    room = limit_chars - len(_marker(len(text), len(text)))
    if room < 2:
        return text[:limit_chars]
    tail = room // 4
    return text[: room - tail] + _marker(len(text) - room, len(text)) + text[len(text) - tail :]


def media_text(media: Media) -> str:
    """One line about bytes of a media type."""
    if media.total <= MEDIA_SHOWN_BYTES:
        return f"{media.media_type} {bytes_text(media.data, media.total)}"
    kept = "they are" if len(media.data) == media.total else f"the first {len(media.data):,} are"
    return f"({media.media_type}, {media.total:,} bytes that are no text: {kept} kept with the call, not shown here)"


def _marker(left_out: int, total: int) -> str:
    return f"\n[... {left_out:,} of {total:,} characters left out here ...]\n"


class _Plain:
    """Turns one value into what JSON holds; knows the containers it is inside of, so that a cycle ends."""

    def __init__(self) -> None:
        self._inside: list[int] = []

    def of(self, value: Any) -> Any:
        known = _SCALARS.get(type(value))
        if known is not None:
            return known(value)
        for type_, scalar in _SCALARS.items():
            if isinstance(value, type_):
                return self.of(value.value) if isinstance(value, Enum) else scalar(value)
        if id(value) in self._inside:
            raise ResultRefused(f"a {type(value).__name__} that contains itself")
        if len(self._inside) == DEPTH_MAX:
            raise ResultRefused(f"a value nested deeper than {DEPTH_MAX} levels")
        self._inside.append(id(value))
        try:
            return self._container(value)
        finally:
            self._inside.pop()

    def _container(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._object(value)
        if isinstance(value, (list, tuple, Sequence)):
            return self._object(value._asdict()) if hasattr(value, "_asdict") else [self.of(item) for item in value]
        if isinstance(value, Set):
            return _sorted([self.of(item) for item in value])
        if isinstance(value, msgspec.Struct):
            return self._object(msgspec.structs.asdict(value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: self.of(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if callable(getattr(type(value), "model_dump", None)):
            return self.of(_dumped(value))
        if inspect.iscoroutine(value):
            value.close()
        raise ResultRefused(f"a value of type {type(value).__name__}")

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in value.items():
            name = key if type(key) is str else text_of(key)
            if name in plain:
                raise ResultRefused(f"a {type(value).__name__} with two keys that both read {name!r}")
            plain[name] = self.of(item)
        return plain


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _dumped(model: Any) -> Any:
    try:
        return model.model_dump(mode="json", by_alias=True)
    except (ValueError, TypeError) as error:
        raise ResultRefused(f"a {type(model).__name__} that cannot be written as JSON ({error})") from error


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _int(value: int) -> int:
    if value.bit_length() > INTEGER_BITS_MAX:
        raise ResultRefused(f"an integer of {value.bit_length():,} bits")
    return int(value)


def _iso(value: date | time) -> str:
    return value.isoformat()


def _itself(value: Any) -> Any:
    return value


# Looked up by the exact type first, then in this order: a bool before int, an Enum before all that it may also be.
_SCALARS: dict[type, Callable[[Any], Any]] = {
    type(None): _itself,
    bool: _itself,
    Enum: _itself,
    str: str,
    int: _int,
    float: _float,
    date: _iso,  # also a datetime
    time: _iso,
    timedelta: timedelta.total_seconds,
    Decimal: str,
    bytes: bytes_text,
    bytearray: bytes_text,
    memoryview: bytes_text,
    PurePath: str,
    UUID: str,
    Media: media_text,
}
