"""The words of a search marked in texts, by the same tokenizer and the same expression that found them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import msgspec

from agentos.persistence.search_text import BEGIN, END, TOKENIZER, indexed, shown

SNIPPET_WORDS = 24
SNIPPET_CHARS_MAX = 300
"""A word may be as long as a text."""
BEFORE_CHARS = 60
"""What stands before the first mark when a snippet is cut."""

_TABLE = f'CREATE VIRTUAL TABLE texts USING fts5(text, tokenize="{TOKENIZER}")'
_ADD = "INSERT INTO texts (rowid, text) VALUES (?, ?)"
_SNIPPETS = "SELECT rowid, snippet(texts, 0, ?, ?, '…', ?) FROM texts WHERE texts MATCH ?"


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text on one line; marks are (from, to) in its characters, in order."""

    text: str
    marks: tuple[tuple[int, int], ...]


def snippets_of(texts: Sequence[str], match: str) -> dict[int, Snippet]:
    """By their place in the sequence, those texts that this expression finds."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(_TABLE)
        db.executemany(_ADD, enumerate(map(indexed, texts)))
        found = db.execute(_SNIPPETS, (BEGIN, END, SNIPPET_WORDS, match)).fetchall()
    return {n: _snippet(text) for n, text in found}


def _snippet(marked: str) -> Snippet:
    """From text with signs around each hit."""
    kept: list[str] = []
    marks: list[tuple[int, int]] = []
    size = 0
    for n, part in enumerate(" ".join(shown(marked).split()).replace(END, BEGIN).split(BEGIN)):
        kept.append(part)
        if n % 2 and part:
            marks.append((size, size + len(part)))
        size += len(part)
    return _cut("".join(kept), marks)


def _cut(text: str, marks: list[tuple[int, int]]) -> Snippet:
    if len(text) <= SNIPPET_CHARS_MAX:
        return Snippet(text=text, marks=tuple(marks))
    first = max(0, marks[0][0] - BEFORE_CHARS) if marks else 0
    last = first + SNIPPET_CHARS_MAX
    left = "…" if first else ""
    moved = len(left) - first
    inside = ((max(begin, first) + moved, min(end, last) + moved) for begin, end in marks if begin < last)
    return Snippet(text=f"{left}{text[first:last]}…", marks=tuple(inside))
