"""Values between SQLite and JSON.

    NULL, INTEGER, finite REAL, TEXT    themselves
    REAL beyond all numbers             "Infinity" or "-Infinity" (SQLite itself stores NaN as NULL)
    BLOB                                {"blob": its bytes in hexadecimal, "bytes": their number}
    TEXT that is no UTF-8               {"text": the readable part, "blob": ..., "bytes": ...}

A long text is cut in its middle and says so; of a long blob only the first bytes are shown, and "bytes" tells the whole.
Parameters take the same forms, so that what was read can be given back.
"""

from __future__ import annotations

import math
from typing import Any

from agentos.resources.kinds.sqlite_connection.link import BadText
from agentos.toolboxes.results import cut

BLOB_BYTES_SHOWN = 256
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1

SqlValue = None | int | float | str | bytes


class ParametersRefused(ValueError):
    """A parameter that SQLite has no value for; the text names it."""


def shown(value: object, text_chars_max: int) -> Any:
    """One value of a row as JSON data, its text no longer than text_chars_max."""
    if isinstance(value, str):
        return value if len(value) <= text_chars_max else cut(value, text_chars_max)
    if isinstance(value, BadText):
        return {"text": cut(value.decode(errors="replace"), text_chars_max), **_blob(value)}
    if isinstance(value, bytes):
        return _blob(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def bound(parameters: object) -> list[SqlValue] | dict[str, SqlValue]:
    """What a call's `parameters` bind: a list for ?, an object for :name. Raises ParametersRefused."""
    if parameters is None:
        return []
    if isinstance(parameters, dict):
        return {name.lstrip(":@$"): _bound(f"parameter {name}", value) for name, value in parameters.items()}
    if isinstance(parameters, list):
        return [_bound(f"parameter {n}", value) for n, value in enumerate(parameters, 1)]
    raise ParametersRefused("parameters is a list for ?, or an object for :name")


def _bound(place: str, value: object) -> SqlValue:
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise ParametersRefused(f"{place} is beyond the 64 bits of an integer of SQLite; give it as text")
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        return _encodable(place, value)
    if isinstance(value, dict) and isinstance(value.get("blob"), str):
        try:
            return bytes.fromhex(value["blob"])
        except ValueError as error:
            raise ParametersRefused(f"{place}: a blob is written in hexadecimal") from error
    kind = "a list" if isinstance(value, list) else "an object"
    raise ParametersRefused(f'{place} is {kind}; give null, a number, a text or {{"blob": "hexadecimal"}}')


def _encodable(place: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParametersRefused(f"{place} holds half a character (a lone surrogate)") from error
    return text


def _blob(data: bytes) -> dict[str, Any]:
    return {"blob": data[:BLOB_BYTES_SHOWN].hex(), "bytes": len(data)}
