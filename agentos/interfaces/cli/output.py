"""What is printed: data on stdout, messages on stderr, tables and JSON.

Names, bodies and errors come from models, tools and files of others: control characters in them are shown, not sent to
the terminal.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, TextIO

CELL_MAX = 72
"""How wide one column of a table may be on a terminal; piped, it is as wide as it needs."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})


def prepare_streams() -> None:
    """UTF-8 whatever the locale says; what has no form in it is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")


def put(text: str = "", *, flush: bool = False) -> None:
    """Data for people."""
    print(visible(text), flush=flush or is_terminal(sys.stdout))


def put_piece(text: str) -> None:
    """A piece of a text, as it comes; the line goes on."""
    print(visible(text), end="", flush=True)


def put_done(text: str) -> None:
    """What was done, of several things: who reads this may hang up, and the rest is done all the same."""
    try:
        put(text, flush=True)
    except BrokenPipeError:
        hang_up()


def put_happened(what: str | dict[str, Any]) -> None:
    """A line, or an object, of a command that goes on when its reader, or its terminal, has gone."""
    try:
        if isinstance(what, str):
            put(what, flush=True)
        else:
            put_json(what, stream=True)
    except OSError:
        hang_up()


def tell(text: str) -> None:
    """As `say`, of such a command."""
    try:
        say(text)
    except OSError:
        hang_up(2)


def hang_up(stream: int = 1) -> None:
    """Who read our output has gone; what is left in the buffers, and all that follows, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def put_answer(text: str) -> None:
    """What an agent answered: as it is into a pipe, made harmless on a terminal."""
    print(visible(text) if is_terminal(sys.stdout) else text, flush=True)


def put_json(value: Any, *, stream: bool = False) -> None:
    """One JSON object; as one line of many when it is part of a stream."""
    indent = None if stream else 2
    print(json.dumps(value, ensure_ascii=False, indent=indent, default=_plain), flush=stream)


def put_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their values; numbers stand to the right."""
    for n, line in enumerate(table(columns, rows, clip=is_terminal(sys.stdout))):
        print(bold(line, sys.stdout) if n == 0 else line)


def say(text: str) -> None:
    """A message for the person."""
    print(visible(text), file=sys.stderr, flush=True)


def say_error(text: str) -> None:
    print(f"{bold('error:', sys.stderr, '31')} {visible(text)}", file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """The text with control characters, marks of direction and lone surrogates written as escapes."""
    return _CONTROL.sub(lambda found: _escape(found[0]), text)


def cell(value: object) -> str:
    """A value on one line: - for None, hexadecimal for bytes."""
    if value is None:
        return "-"
    if isinstance(value, (bytes, bytearray)):
        return f"x'{value.hex()}'"
    return visible(str(value)).translate(_BREAKS)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, clip: bool = False) -> list[str]:
    """The lines of a table, its head first."""
    cells = [[cell(value) for value in row] for row in rows]
    if clip:
        cells = [[clipped(text, CELL_MAX) for text in row] for row in cells]
    heads = [cell(column) for column in columns]
    widths = [max(map(width, column)) for column in zip(heads, *cells, strict=True)]
    right = [_is_numeric([row[n] for row in rows]) for n in range(len(columns))]
    return [_line(line, widths, right) for line in (heads, *cells)]


def width(text: str) -> int:
    """How many places the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def counted(number: int, thing: str) -> str:
    """1 step, 2 steps."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def is_terminal(stream: TextIO) -> bool:
    with contextlib.suppress(ValueError):  # a closed stream
        return stream.isatty()
    return False


def bold(text: str, stream: TextIO, code: str = "1") -> str:
    """With an ANSI style, where a terminal shows it and the person has not asked for none (NO_COLOR, TERM=dumb)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb")
    return text if plain or not is_terminal(stream) else f"\x1b[{code}m{text}\x1b[0m"


def terminal_width() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (_padded(text, size, to_right) for text, size, to_right in zip(cells, widths, right, strict=True))
    return "  ".join(padded).rstrip()


def _padded(text: str, size: int, to_right: bool) -> str:
    blank = " " * (size - width(text))
    return blank + text if to_right else text + blank


def clipped(text: str, limit: int) -> str:
    """The text in so many places of a terminal at most."""
    if width(text) <= limit:
        return text
    kept, used = [], 1
    for char in text:
        used += _char_width(char)
        if used > limit:
            break
        kept.append(char)
    return "".join(kept) + "…"


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _is_numeric(values: Sequence[object]) -> bool:
    """Whether a column has numbers and nothing else."""
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)


def _plain(value: object) -> object:
    """What JSON has no form for: bytes as hexadecimal."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return str(value)
