"""A session's file as JSON, within bounds. A file that cannot be read whole says nothing.

Files are one document, pretty-printed or in one line, or one document a line, of which the last one counts.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from agentos.errors import SessionRefused

SESSION_BYTES_MAX = 64 * 1024 * 1024
"""How long a file may be, in bytes."""
SESSION_DEPTH_MAX = 100
"""How deep lists and objects may be nested, in a file and in the arguments of a call."""
TURNS_MAX = 100_000
"""How many turns a session may have."""
INTEGER_DIGITS_MAX = 1_000
"""How many digits an integer may have."""

# A string that nobody closes goes on to the end, so that no text is looked at twice.
_NESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_EXTRA = "Extra data"


def read_text(path: Path) -> str:
    """The text of a file. Raises OSError, SessionRefused."""
    with path.open("rb") as file:
        return text_of(file, str(path))


def text_of(file: BinaryIO, place: str) -> str:
    """The text of an open file, which is read no further than a session may be long; place names where it comes from.

    Errors: SessionRefused when it is too long, or no UTF-8; OSError.
    """
    body = file.read(SESSION_BYTES_MAX + 1)
    if len(body) > SESSION_BYTES_MAX:
        raise SessionRefused(place, f"longer than {SESSION_BYTES_MAX:,} bytes (SESSION_BYTES_MAX)")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise SessionRefused(place, "no UTF-8", line=line, offset=error.start) from error


def parse(text: str, place: str) -> Any:
    """The document, or the last one of those that stand in lines. Raises SessionRefused with its line and column."""
    if not text.strip():
        raise SessionRefused(place, "it is empty")
    try:
        return decoded(text)
    except json.JSONDecodeError as error:
        if error.msg == _EXTRA and (last := _last_line(text)) > 0:
            return _parse_from(text, last, place)
        _refuse(text, 0, error, place)
    except _TooMuch as error:
        raise _too_much(text, 0, error, place) from error


def decoded(text: str) -> Any:
    """JSON as the standard has it: no NaN, no number of absurd length. Raises JSONDecodeError, _TooMuch."""
    _check_depth(text)
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_no_constant)


def arguments_of(value: Any) -> Any:
    """The arguments of a call: an object, from its JSON text where they are one; the text itself when it is none."""
    if not isinstance(value, str):
        return {} if value is None else value
    if not value.strip():
        return {}
    try:
        return decoded(value)
    except (json.JSONDecodeError, _TooMuch):
        return value


class _TooMuch(Exception):
    """Over a bound, at that position of the text, None where it cannot be told."""

    def __init__(self, text: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(text)


def _parse_from(text: str, start: int, place: str) -> Any:
    try:
        return decoded(text[start:])
    except json.JSONDecodeError as error:
        _refuse(text, start, error, place)
    except _TooMuch as error:
        raise _too_much(text, start, error, place) from error


def _too_much(text: str, start: int, error: _TooMuch, place: str) -> SessionRefused:
    where = _place(text, start + error.position) if error.position is not None else {}
    return SessionRefused(place, str(error), **where)


def _refuse(text: str, start: int, error: json.JSONDecodeError, place: str) -> NoReturn:
    reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" starting at")
    cut = " (the file is cut off)" if _reaches_the_end(text, start, error) else ""
    raise SessionRefused(place, f"{reason}{cut}", **_place(text, start + error.pos)) from error


def _reaches_the_end(text: str, start: int, error: json.JSONDecodeError) -> bool:
    return error.msg.startswith("Unterminated string") or start + error.pos >= len(text.rstrip())


def _place(text: str, position: int) -> dict[str, int]:
    """Line and column from 1, the column in characters, and the offset in bytes."""
    before = text[:position]
    line_start = before.rfind("\n") + 1
    return {
        "line": before.count("\n") + 1,
        "column": position - line_start + 1,
        "offset": len(before.encode("utf-8", "surrogatepass")),
    }


def _last_line(text: str) -> int:
    """Where the last line that has something begins."""
    return text.rstrip().rfind("\n") + 1


def _check_depth(text: str) -> None:
    """Before anything recurses into it."""
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match[0]
        if mark in ("[", "{"):
            depth += 1
            if depth > SESSION_DEPTH_MAX:
                raise _TooMuch(f"nested deeper than {SESSION_DEPTH_MAX} levels (SESSION_DEPTH_MAX)", match.start())
        elif mark in ("]", "}"):
            depth -= 1


def _integer(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS_MAX:
        raise _TooMuch(f"a number with more than {INTEGER_DIGITS_MAX:,} digits (INTEGER_DIGITS_MAX)")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _TooMuch(f"the number {digits[:40]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise _TooMuch(f"{name} is no JSON")
