"""What a chat prints, and how its parts keep out of each other's way.

An answer goes to stdout, all else to stderr. On a terminal an answer comes piece by piece, indented; `plain` prints it
whole; into a pipe goes the answer of each turn alone, as it is.
"""

from __future__ import annotations

import asyncio
import sys
from enum import Enum

from agentos.events.model import ModelDelta
from agentos.interfaces.cli.chat.answer import Gutter, Pieces
from agentos.interfaces.cli.live import LiveLine
from agentos.interfaces.cli.output import bold, is_terminal, put_answer, say, terminal_width, visible

FAINT = "2"
CUT = "(cut; trying again)"
STOPPED = "(stopped)"
LOST = "(pieces were lost; the whole answer:)"


class Form(Enum):
    """How answers are printed."""

    STREAM = "stream"
    PLAIN = "plain"
    PIPE = "pipe"


def form_of(*, plain: bool) -> Form:
    if not is_terminal(sys.stdout):
        return Form.PIPE
    return Form.PLAIN if plain else Form.STREAM


class Screen:
    """Prints. One answer at a time: that of the conversation that is talked to."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.live: LiveLine | None = None
        self._pieces = Pieces()
        self._gutter = Gutter(terminal_width())
        self._holds = False
        self._free = asyncio.Event()
        self._free.set()

    def line(self, text: str, *, faint: bool = False) -> None:
        """A message of ours, on a line of its own; what is foreign in it is escaped."""
        self._end_line()
        if self.live is not None:
            self.live.erase()
        if faint:
            print(bold(visible(text), sys.stderr, FAINT), file=sys.stderr, flush=True)
        else:
            say(text)

    def begin_answer(self, request: int) -> None:
        self._end_line()
        self._pieces.begin(request)
        self._gutter = Gutter(terminal_width())

    def piece(self, delta: ModelDelta) -> None:
        if self.form is Form.STREAM:
            self._text(self._pieces.add(delta))

    def lose_pieces(self) -> None:
        self._pieces.lose()

    def end_answer(self, text: str, *, counts: bool, again: bool) -> None:
        """text is all of the answer. counts: it is one; else it was cut, and the model is asked again or not."""
        if self.form is Form.PIPE:
            return
        ending = self._pieces.end(text, counts=counts)
        if ending.void:
            self.line(LOST if ending.again else CUT if again else STOPPED, faint=True)
        self._text(ending.rest)
        self._end_line()

    def final(self, text: str) -> None:
        """The answer of a turn, for a pipe: on a terminal it stands there already."""
        if self.form is Form.PIPE and text:
            put_answer(text)

    def foreign(self, text: str) -> None:
        """A text of others on lines of its own, indented as an answer is."""
        self._end_line()
        if self.live is not None:
            self.live.erase()
        gutter = Gutter(terminal_width())
        print(gutter.feed(text) + gutter.end(), end="", file=sys.stderr, flush=True)

    def break_line(self) -> None:
        """Ends the line that stands there, whose end the terminal has not seen: a prompt, or the echo of a key."""
        if self._gutter.column or not is_terminal(sys.stderr):
            self._end_line()
        else:
            print(file=sys.stderr, flush=True)

    def hold(self) -> None:
        """Before a line is read: nothing is printed while somebody types, but by who reads it."""
        self._free.clear()
        self._end_line()
        if self.live is not None:
            self.live.hold()

    def release(self) -> None:
        self._free.set()
        if self.live is not None:
            self.live.release()

    async def wait_free(self) -> None:
        """Until nobody types."""
        await self._free.wait()

    def _text(self, text: str) -> None:
        if not text:
            return
        if self.live is not None:
            self.live.erase()
        print(self._gutter.feed(text), end="", flush=True)
        self._hold(self._gutter.column > 0)

    def _end_line(self) -> None:
        print(self._gutter.end(), end="", flush=True)
        self._hold(False)

    def _hold(self, wanted: bool) -> None:
        """No live line while a line of an answer is under way."""
        if self.live is None or wanted == self._holds:
            return
        self._holds = wanted
        if wanted:
            self.live.hold()
        else:
            self.live.release()
