"""What a person types, as an expression of the index. Nothing typed is syntax to SQLite: every word is quoted."""

from __future__ import annotations

import re

from agentos.errors import QueryRefused
from agentos.persistence.search_text import has_word, indexed

WORDS_CHARS_MAX = 1_000
WORDS_MAX = 32

_WORD = re.compile(r'(-*)(?:"([^"]*)"?|([^\s"]+))(\*?)')


def match_of(words: str) -> str:
    """All words and "phrases in quotes" that a text must have, no -word and no -"phrase"; `word*` is a beginning.

    Errors: QueryRefused when nothing is left to look for, or it is more than a search takes.
    """
    if len(words) > WORDS_CHARS_MAX:
        raise QueryRefused(f"a search takes {WORDS_CHARS_MAX:,} characters at most; this has {len(words):,}")
    wanted: list[str] = []
    unwanted: list[str] = []
    for minus, phrase, plain, star in _WORD.findall(words):
        beginning = bool(star) or plain.endswith("*")
        text = phrase or plain
        if has_word(text):
            (unwanted if minus else wanted).append(_quoted(text, beginning=beginning))
    if len(wanted) + len(unwanted) > WORDS_MAX:
        raise QueryRefused(f"a search takes {WORDS_MAX} words and phrases at most; this has {len(wanted + unwanted)}")
    if not wanted:
        raise QueryRefused('name a word to look for: a letter or digit at least; words after "-" only leave texts out')
    return _joined(wanted, unwanted)


def _joined(wanted: list[str], unwanted: list[str]) -> str:
    every = " AND ".join(wanted)
    return f"({every}) NOT ({' OR '.join(unwanted)})" if unwanted else every


def _quoted(text: str, *, beginning: bool) -> str:
    """As a string of FTS5, which makes a phrase of it when it is more than one word to the index."""
    return '"' + indexed(text).replace('"', " ") + '"' + (" *" if beginning else "")
