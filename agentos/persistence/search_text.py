"""Text as the search index takes it: one form for what is stored and for what is looked for.

The tokenizer (unicode61) takes a run of letters and digits for a word, without regard to case and accents. Scripts that
leave no space between words would be one long word to it; each of their letters is made a word of its own here, by an
invisible mark beside it, and a word that is looked for becomes the sequence of its letters.
"""

from __future__ import annotations

import re
import unicodedata

TOKENIZER = "unicode61 remove_diacritics 2"
BEGIN, END, SPLIT = "\x02", "\x03", "\x1f"
"""Stand around a hit in a snippet, and between letters of one run. No text has them: they are made blanks."""

_MARKS = str.maketrans(dict.fromkeys((BEGIN, END, SPLIT, "\x00"), " "))
_LONE = re.compile("[\ud800-\udfff]")
_UNSPACED = re.compile(
    "(["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7a3"  # Hangul, whose words end with particles
    "])"
)


def indexed(text: str) -> str:
    """The text as it is indexed; `shown` takes it back, but for marks and lone surrogates that it had."""
    plain = unicodedata.normalize("NFC", _LONE.sub("\ufffd", text.translate(_MARKS)))
    return plain if plain.isascii() else _UNSPACED.sub(rf"{SPLIT}\1{SPLIT}", plain)


def shown(text: str) -> str:
    """Indexed text as people read it."""
    return text.replace(SPLIT, "")


def has_word(text: str) -> bool:
    """Whether anything in it can be found: a letter, a digit, or a sign of private use."""
    return any(unicodedata.category(char)[0] in "LN" or unicodedata.category(char) == "Co" for char in text)
