"""From the question marks of a statement to the numbers that PostgreSQL wants.

A question mark inside a text, a quoted name, a comment or a dollar-quoted text is none. PostgreSQL's own operators that
hold one (`?`, `?|`, `?&` of jsonb) cannot be written in such a statement; they have functions of the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

STATEMENTS_MAX = 512
"""How many statements are remembered with their numbers."""


class Token(NamedTuple):
    """A part of a statement: its kind (mark, text, name, line, block, dollar or word), its place and its letters."""

    kind: str
    start: int
    end: int
    text: str


# As PostgreSQL's own scanner: every letter beyond ASCII may be part of a name, a comment ends with a line of any kind, and a
# text with backslashes goes on in the quotes that follow it.
_TOKEN = re.compile(
    r"""
      (?P<mark>\?[0-9]*)
    | (?P<text>[eE]'(?:[^'\\]|''|\\.)*'(?:(?:[ \t\n\r\f\v]|--[^\n\r]*)*+'(?:[^'\\]|''|\\.)*')*+ | '(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*")
    | (?P<line>--[^\n\r]*)
    | (?P<block>/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z_\x80-\U0010ffff0-9]*)?\$)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z_\x80-\U0010ffff0-9$]*)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@lru_cache(maxsize=STATEMENTS_MAX)
def numbered(sql: str) -> str:
    """`?` becomes the next number and `?2` that number, as in SQLite: `a = ? and b = ?` is `a = $1 and b = $2`."""
    parts: list[str] = []
    end = last = 0
    for token in tokens(sql):
        if token.kind == "mark":
            number = int(token.text[1:] or last + 1)
            last = max(last, number)
            parts += (sql[end : token.start], f"${number}")
            end = token.end
    return "".join(parts) + sql[end:]


def tokens(sql: str) -> Iterator[Token]:
    """In order; numbers, operators and what does not end are left out."""
    place = 0
    while (match := _TOKEN.search(sql, place)) is not None:
        start, place = match.span()
        kind = match.lastgroup or ""
        if kind == "block":
            place = _after_comment(sql, place)
        elif kind == "dollar":
            closing = sql.find(match[0], place)
            place = place if closing < 0 else closing + len(match[0])
        yield Token(kind, start, place, sql[start:place])


def _after_comment(sql: str, place: int) -> int:
    """The end of a comment whose opening ends here; comments stand in one another."""
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, place)) is not None:
        depth += 1 if edge[0] == "/*" else -1
        place = edge.end()
    return len(sql) if depth else place
