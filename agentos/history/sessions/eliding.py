"""The first and last lines of a long text, with a line in between that says what is left out."""

from __future__ import annotations

KEPT_LINES = 10
"""How many lines are kept at either end."""
LINE_CHARS_MAX = 2_000
"""A longer line is cut in its middle: a text without line breaks is to be short too."""


def elided(text: str) -> str:
    """The text itself while all of it fits."""
    lines = text.split("\n")
    left_out = len(lines) - 2 * KEPT_LINES
    if left_out <= 0:
        return "\n".join(map(_short, lines))
    told = f"... ({left_out} {'line' if left_out == 1 else 'lines'} left out) ..."
    return "\n".join([*map(_short, lines[:KEPT_LINES]), told, *map(_short, lines[-KEPT_LINES:])])


def _short(line: str) -> str:
    left_out = len(line) - LINE_CHARS_MAX
    if left_out <= 0:
        return line
    half = LINE_CHARS_MAX // 2
    return f"{line[:half]}... ({left_out:,} characters left out) ...{line[-half:]}"
