"""The messages of a chat: lines put together, Ctrl-C and Ctrl-D while they are typed."""

from __future__ import annotations

from typing import NamedTuple

from agentos.interfaces.cli.chat.lines import ChatLines
from agentos.interfaces.cli.chat.message import MessageBuilder
from agentos.interfaces.cli.chat.screen import Screen
from agentos.interfaces.cli.chat.terminal import EndOfInput, Interrupted, Terminal
from agentos.interfaces.cli.errors import Exit, UsageError

PRESS_MAX = 2
"""How often Ctrl-C comes until the chat is left."""
MORE = "... "


class Leave(Exception):
    """The chat is over."""

    def __init__(self, code: Exit = Exit.OK) -> None:
        self.code = code
        super().__init__("the chat is over")


class Room(NamedTuple):
    """What one chat has over all its conversations. asks: somebody is here who can be asked."""

    terminal: Terminal
    lines: ChatLines
    screen: Screen
    asks: bool


class MessageReader:
    """Reads messages."""

    def __init__(self, room: Room) -> None:
        self._room, self._screen = room, room.screen
        self._builder = MessageBuilder()
        self._presses = 0

    async def next(self, prompt: str) -> str:
        """The next message or command that is not blank. Raises Leave; UsageError for a pipe that ends within one."""
        self._presses = 0
        while True:
            try:
                text = self._builder.add(await self._read(MORE if self._builder.open else prompt))
            except EndOfInput:
                self._ended()
            except Interrupted as pressed:
                self._interrupted(nothing_typed=not pressed.discarded)
            else:
                if text is not None and text.strip():
                    self._room.lines.remember(text)
                    return text

    async def _read(self, prompt: str) -> str:
        self._screen.hold()
        try:
            return await self._room.terminal.read(prompt)
        finally:
            self._screen.release()

    def _ended(self) -> None:
        """A person drops what was begun, or leaves; a pipe must not end in the middle of a message."""
        begun = self._builder.open
        self._builder.drop()
        if begun and not self._room.asks:
            raise UsageError("the input ends within a message")
        if self._room.asks:
            self._screen.break_line()
        if not begun:
            raise Leave

    def _interrupted(self, *, nothing_typed: bool) -> None:
        """Drops what was typed; leaves when nothing was, twice."""
        if not self._room.asks:
            raise Leave(Exit.INTERRUPTED)
        self._screen.break_line()
        idle = nothing_typed and not self._builder.open
        self._builder.drop()
        self._presses = self._presses + 1 if idle else 0
        if self._presses == PRESS_MAX:
            raise Leave
        if idle:
            self._screen.line("(Ctrl-C again or Ctrl-D leaves)")
