"""Text that arrives in pieces, where a piece may end in the middle of a character.

Bytes are whole characters by the time they come here; but JSON may write one character as two escapes, and some servers
break a text between the two.
"""

from __future__ import annotations

from collections.abc import Callable

_FIRST_HALF = ("\ud800", "\udbff")


class TextPieces:
    """Joins pieces and hands them on as they come; half a character waits for its other half, and alone becomes U+FFFD."""

    def __init__(self, on_piece: Callable[[str], None] | None = None) -> None:
        self._on_piece = on_piece
        self._pieces: list[str] = []
        self._held = ""

    @property
    def so_far(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str) -> None:
        if not text:
            return
        text = self._held + text
        ends_in_half = _FIRST_HALF[0] <= text[-1] <= _FIRST_HALF[1]
        self._held = text[-1] if ends_in_half else ""
        self._give(text[:-1] if ends_in_half else text)

    def end(self) -> str:
        """The whole text."""
        held, self._held = self._held, ""
        self._give(held)
        return self.so_far

    def _give(self, text: str) -> None:
        if not text:
            return
        whole = whole_text(text)
        self._pieces.append(whole)
        if self._on_piece is not None:
            self._on_piece(whole)


def whole_text(text: str) -> str:
    """With the halves of characters joined, and those without their other half replaced."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
