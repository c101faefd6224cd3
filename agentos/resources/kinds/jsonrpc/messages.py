"""JSON-RPC 2.0 messages, one a line, to bytes and back."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

CANCEL = "$/cancelRequest"
"""The notification that a request is not waited for any more, with its id, as language servers know it."""
PROGRESS = "progress"
"""The notification of a process that a request goes on: its id, and data."""
CHANGED = "changed"
"""The notification of a process that it offers other tools now."""
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

_LEADING_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_decode = msgspec.json.Decoder().decode


class Reply(msgspec.Struct, frozen=True):
    """An answer to the request with this id: a result or an error."""

    id: object
    result: Any = None
    error: Any = None


class Said(msgspec.Struct, frozen=True):
    """A request or a notification of the process: a request has an id."""

    method: str
    params: Any
    id: object = None


class NotUnderstood(msgspec.Struct, frozen=True):
    """A line that is no message, and why; id where it must have been an answer to a request of ours."""

    why: str
    id: int | None = None


def request(number: int, method: str, params: object) -> bytes:
    """Raises ValueError for what has no JSON."""
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: object) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def refusal(number: object, code: int, message: str) -> bytes:
    return _line({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def read(line: bytes) -> Reply | Said | NotUnderstood:
    """What a line says. Never raises."""
    try:
        value = _value(line)
    except (ValueError, RecursionError) as error:
        return NotUnderstood(f"it is no JSON: {error}"[:200], leading_id(line))
    if not isinstance(value, dict):
        return NotUnderstood("it is no object")
    if value.get("jsonrpc") != "2.0":
        return NotUnderstood('it lacks "jsonrpc": "2.0"', _own_id(value.get("id")))
    if isinstance(value.get("method"), str):
        if not _may_be_id(value.get("id")):
            return NotUnderstood("its id is neither a text nor a whole number")
        return Said(value["method"], value.get("params"), value.get("id"))
    if ("result" in value) is ("error" in value) or "id" not in value:
        return NotUnderstood("it has not one of result and error, with an id", _own_id(value.get("id")))
    return Reply(value["id"], value.get("result"), value.get("error"))


def leading_id(line: bytes) -> int | None:
    """The id of an answer whose line cannot be read to its end, where the id stands before all else."""
    found = _LEADING_ID.match(line)
    return int(found[1]) if found is not None else None


def _may_be_id(value: object) -> bool:
    """It is said back in a refusal; JSON-RPC knows fractions too, and advises against them."""
    return value is None or type(value) is int or isinstance(value, str)


def _own_id(value: object) -> int | None:
    return value if type(value) is int else None


def _value(line: bytes) -> Any:
    """msgspec is quick, and refuses lone surrogates and great integers, which the json of Python takes."""
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return json.loads(line, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
