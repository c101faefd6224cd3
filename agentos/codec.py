"""The one way to bytes.

A head or a component is a frozen msgspec Struct whose only text is ids, enums and names; `register` refuses any other.
A body is a private value. A text body is the text itself, so that people read it with SQL; any other body is JSON with
sorted keys. What JSON or a database cannot hold stands as a tagged object:

    text with U+0000 or a lone surrogate   {"$text": base64 of its UTF-8 with surrogates passed}
    bytes                                  {"$bytes": base64}
    an integer beyond 64 bits              {"$int": "0x and hexadecimal digits"}
    an object that has a key like a tag    {"$object": [[key, value], ...]}

NaN and the infinities have no form and are refused. Reading is bounded before it starts.
"""

from __future__ import annotations

import base64
import functools
import math
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

import msgspec

from agentos.errors import CodecError
from agentos.ids import Address

T = TypeVar("T")

encode_struct: Callable[[object], bytes] = msgspec.json.Encoder(order="sorted").encode
"""Canonical bytes of data that holds no private text: heads, components, rows."""

_decode_json = msgspec.json.Decoder().decode
_TAGS = frozenset({"$text", "$bytes", "$int", "$object"})
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
DEPTH_MAX = 200
READ_DEPTH_MAX = DEPTH_MAX + 50
"""Levels of what is read: a value, and what it was put into on its way. Without it each Python would have another bound."""
BODY_BYTES_MAX = 64 * 1024 * 1024
TYPES_REMEMBERED_MAX = 256
"""How many component types are known to hold no private text; another one is looked at anew."""


def encode_body(value: object) -> str:
    """The stored form of a private value. Raises CodecError for what has none."""
    if type(value) is str:
        return value if _is_plain(value) and not value.startswith('{"$') else _dumps(_tag_text(value))
    return _dumps(_tagged(value, 0))


def encode_json(value: object) -> str:
    """The stored form of a value that is read back with decode_json, also when it is a text. Raises CodecError."""
    return _dumps(_tagged(value, 0))


def decode_text(body: str) -> str:
    """The text that a text body holds. Raises CodecError for a tag that holds none."""
    if not body.startswith('{"$text":'):
        return body
    text = decode_json(body)
    if not isinstance(text, str):
        raise CodecError("the tag of a text holds no text alone")
    return text


def decode_json(body: str) -> Any:
    """The value that a JSON body holds. Raises CodecError when it is not one or is over a bound."""
    try:
        return _untagged(_loads(body), 0)
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError(f"a tag holds what it may not: {error}") from error


def convert(value: object, type_: type[T]) -> T:
    """A Struct from plain decoded JSON. Raises CodecError."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise CodecError(f"{type_.__name__}: {error}") from error


@functools.lru_cache(maxsize=TYPES_REMEMBERED_MAX)
def check_registrable(type_: type[msgspec.Struct]) -> None:
    """Refuses a type that could carry private text into a head. Raises CodecError. What was found good is
    remembered: every registry asks anew, and evaluating hints is slow."""
    _check_type(type_.__name__, type_, set())


def _check_type(place: str, type_: type[msgspec.Struct], seen: set[type]) -> None:
    if type_ in seen:
        return
    seen.add(type_)
    hints = typing.get_type_hints(type_)
    for field in type_.__struct_fields__:
        _check_hint(f"{place}.{field}", hints[field], seen)


def _check_hint(place: str, hint: Any, seen: set[type]) -> None:
    """Numbers, enums, typed ids and names may stand in a head, and what is made of them."""
    if hint in (None, type(None), bool, int, float, Address, ...) or isinstance(hint, typing.NewType):
        return
    if typing.get_origin(hint) is typing.Literal:
        return
    if inner := typing.get_args(hint):
        for part in inner:
            _check_hint(place, part, seen)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        _check_type(place, hint, seen)
    elif not (isinstance(hint, type) and issubclass(hint, Enum)):
        raise CodecError(f"{place}: plain text may be private; use an id, an Enum, a Name or an Address")


def _is_plain(text: str) -> bool:
    return (text.isascii() and "\0" not in text) or ("\0" not in text and _encodes(text))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tag_text(text: str) -> dict[str, str]:
    return {"$text": base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()}


def _untag_text(tag: str) -> str:
    return base64.b64decode(tag, validate=True).decode("utf-8", "surrogatepass")


def _tagged(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise CodecError(f"a value is nested deeper than {DEPTH_MAX} levels")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str(value) if _is_plain(value) else _tag_text(value)
    if isinstance(value, Enum):
        return _tagged(value.value, depth)
    if isinstance(value, int):
        return int(value) if _INT_MIN <= value <= _INT_MAX else {"$int": _digits(value)}
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CodecError(f"{value} has no JSON form")
        return value
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [_tagged(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return _tagged_object(value, depth)
    if isinstance(value, msgspec.Struct):
        return _tagged(msgspec.to_builtins(value), depth)
    raise CodecError(f"a {type(value).__name__} has no JSON form")


def _tagged_object(value: dict[Any, Any], depth: int) -> Any:
    for key in value:
        if not isinstance(key, str):
            raise CodecError(f"an object's key is a {type(key).__name__}, not text")
    if all(_is_plain(key) and not key.startswith("$") for key in value):
        return {key: _tagged(item, depth + 1) for key, item in value.items()}
    return {"$object": [[_tagged(key, depth), _tagged(value[key], depth + 1)] for key in sorted(value)]}


def _untagged(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        inside = _inside(depth)
        return [_untagged(item, inside) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in _TAGS:
            return _untag(tag, inner, depth)
    inside = _inside(depth)
    return {key: _untagged(item, inside) for key, item in value.items()}


def _inside(depth: int) -> int:
    if depth >= READ_DEPTH_MAX:
        raise CodecError(f"a body is nested deeper than {READ_DEPTH_MAX} levels")
    return depth + 1


def _untag(tag: str, inner: Any, depth: int) -> Any:
    if tag == "$text":
        return _untag_text(inner)
    if tag == "$bytes":
        return base64.b64decode(inner, validate=True)
    if tag == "$int":
        return _number(inner)
    inside = _inside(depth)
    return {_untagged(key, inside): _untagged(item, inside) for key, item in inner}


def _digits(value: int) -> str:
    return hex(value)


def _number(digits: str) -> int:
    return int(digits, 16)


def _dumps(value: object) -> str:
    return encode_struct(value).decode()


def _loads(body: str | bytes) -> Any:
    if len(body) > BODY_BYTES_MAX:
        raise CodecError(f"a body of {len(body)} characters is over the limit of {BODY_BYTES_MAX}")
    try:
        return _decode_json(body)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise CodecError(f"not a JSON body: {error}") from error
