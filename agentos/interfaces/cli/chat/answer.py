"""The text of one model answer as it comes in: pieces at once, and at its end what is still lacking. Pure."""

from __future__ import annotations

from typing import NamedTuple

from agentos.events.model import ModelDelta
from agentos.interfaces.cli.output import visible, width

INDENT = "  "
"""Before each line of an answer. What an agent says never begins at the edge, where our own lines and prompts do."""
TAB = "    "
COLUMNS_MIN = 20


class Ending(NamedTuple):
    """What to print at the end of an answer. void: what was printed of it does not count."""

    rest: str
    void: bool = False
    again: bool = False
    """Pieces were lost: the rest is all of it, from its beginning."""


class Pieces:
    """Those of one attempt. After a gap no more of them are shown, since they would not fit."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, request: int) -> None:
        """A model is asked: the pieces of this request count, and no others."""
        self._request, self._shown, self._next, self._lost = request, "", 0, False

    def add(self, delta: ModelDelta) -> str:
        """What to print of a piece."""
        if delta.base_seq != self._request:
            return ""
        if self._lost or delta.index != self._next:
            self._lost = True
            return ""
        self._next += 1
        self._shown += delta.text
        return delta.text

    def lose(self) -> None:
        self._lost = True

    def end(self, text: str, *, counts: bool) -> Ending:
        """text is the whole answer; counts: it is one, and not what there was when the stream was cut."""
        shown, self._shown = self._shown, ""
        if not counts:
            return Ending("", void=bool(shown))
        if text.startswith(shown):
            return Ending(text.removeprefix(shown))
        return Ending(text, void=True, again=True)


class Gutter:
    """Indents text that comes in pieces, and breaks its lines itself, so that the terminal breaks none to its edge."""

    def __init__(self, columns: int) -> None:
        self._columns = max(columns, COLUMNS_MIN)
        self.column = 0

    def feed(self, text: str) -> str:
        return "".join(self._placed(char) for char in visible(text).replace("\t", TAB))

    def end(self) -> str:
        """What ends a line that has begun."""
        begun, self.column = self.column > 0, 0
        return "\n" if begun else ""

    def _placed(self, char: str) -> str:
        if char == "\n":
            self.column = 0
            return "\n"
        size = width(char)
        broken = "\n" if self.column + size >= self._columns else ""
        if broken or not self.column:
            self.column = len(INDENT) + size
            return f"{broken}{INDENT}{char}"
        self.column += size
        return char
