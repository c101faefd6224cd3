"""Where the texts of a line stand, and how they are overwritten in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from agentos.persistence.file.blanks import Blank
from agentos.persistence.file.lines import Post, Whole, check_sum, decode_whole, with_check_sum
from agentos.persistence.file.segments import Place

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]|[^\s"\[\]{}:,]++')
_NULL, _EMPTY = b"null", b'""'


class Value(NamedTuple):
    """A scalar in a line: of the line itself, or of the object at a place of a list in it, whose name `of` is."""

    of: bytes
    at: int
    name: bytes
    start: int
    length: int


def blank_of(place: Place, line: bytes, log: str, upto: int) -> Blank | None:
    """What it takes to rid a line, as it was written, of the values of this log up to this seq and of what it posts to the
    log; None when there is nothing of the kind."""
    is_lost = _losing(line, log, upto)
    nulls: list[int] = []
    texts: list[int] = []
    for value in values(line):
        if not is_lost(value) or value.length <= len(_EMPTY) or line.startswith(_NULL, value.start):
            continue
        keeps_type = value.name != b"salt" or value.of in (b"", b"posts") or value.length < len(_NULL)
        (texts if keeps_type else nulls).extend((value.start, value.length))
    if not nulls and not texts:
        return None
    blank = Blank(*place, 0, tuple(nulls), tuple(texts))
    return Blank(*place, check_sum(blanked(line, blank)), blank.nulls, blank.texts)


def blanked(line: bytes, blank: Blank) -> bytes:
    """The line without the texts, whatever part of them is overwritten already."""
    data = bytearray(line)
    for filler, stretches in ((_NULL, blank.nulls), (_EMPTY, blank.texts)):
        for start, length in zip(stretches[::2], stretches[1::2], strict=True):
            data[start : start + length] = filler.ljust(length)
    return with_check_sum(data, blank.crc)


def values(line: bytes) -> Iterator[Value]:
    """The scalars of a line that stand in it or in an object of one of its lists, but for those in its depths."""
    depth = index = 0
    names = {1: b"", 3: b""}
    for token in _TOKEN.finditer(line):
        start, end = token.span()
        first = line[start : start + 1]
        if first in (b"[", b"{"):
            depth += 1
            index = 0 if depth == 2 else index
        elif first in (b"]", b"}"):
            depth -= 1
        elif first == b",":
            index += depth == 2
        elif depth in names and line[end : end + 1] == b":":
            names[depth] = line[start + 1 : end - 1]
        elif depth == 1:
            yield Value(b"", 0, names[1], start, end - start)
        elif depth == 3:
            yield Value(names[1], index, names[3], start, end - start)


def _losing(line: bytes, log: str, upto: int) -> Callable[[Value], bool]:
    """Whether a value of this line goes."""
    told = decode_whole(line)
    if isinstance(told, Post):
        return lambda value: value.of == b"" and value.name in (b"salt", b"body")
    assert isinstance(told, Whole), "nothing else holds texts"
    own = upto if told.log == log else 0
    lost = {
        b"messages": _indexes([said.seq <= own for said in told.messages]),
        b"payloads": _indexes([payload.seq <= own for payload in told.payloads]),
        b"posts": _indexes([post.log == log for post in told.posts]),
    }
    return lambda value: value.name in (b"salt", b"body", b"text") and value.at in lost.get(value.of, ())


def _indexes(chosen: Sequence[bool]) -> frozenset[int]:
    return frozenset(i for i, is_chosen in enumerate(chosen) if is_chosen)
