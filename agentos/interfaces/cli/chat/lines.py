"""Where the lines of a chat come from: a terminal with line editing and a history, a plain terminal, or a pipe."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Protocol

from agentos.interfaces.cli.chat.history import History
from agentos.interfaces.cli.chat.terminal import Lines
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.output import is_terminal

LINE_CHARS_MAX = 4 * 1024 * 1024


class EditedLines:
    """A terminal, with the keys that a shell has, and the lines of earlier chats behind the arrow keys."""

    def __init__(self, readline: ModuleType, history: History) -> None:
        self._readline = readline
        readline.set_auto_history(False)
        readline.set_history_length(history.lines_max)
        for text in history.load():
            readline.add_history(text)
        self._history = history

    def read(self, prompt: str) -> str:
        return input(prompt)

    def typed(self) -> str:
        return str(self._readline.get_line_buffer())

    def remember(self, text: str) -> None:
        self._readline.add_history(text)
        self._history.add(text)


class PlainLines:
    """A pipe, or a terminal without line editing. A prompt is shown to a person alone, on stderr."""

    def read(self, prompt: str) -> str:
        if is_terminal(sys.stdin):
            print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline(LINE_CHARS_MAX + 1)
        if len(line) > LINE_CHARS_MAX:
            raise UsageError(f"a line of over {LINE_CHARS_MAX} characters; a message has less")
        if not line:
            raise EOFError
        return line.removesuffix("\n").removesuffix("\r")

    def typed(self) -> str:
        return ""

    def remember(self, text: str) -> None:
        """Nothing: what comes by a pipe is somebody else's to keep."""


class ChatLines(Lines, Protocol):
    """Lines, of which those that were messages may be kept for the next chat."""

    def remember(self, text: str) -> None: ...


def lines_of(*, plain: bool) -> EditedLines | PlainLines:
    """What fits stdin and stdout. plain: no line editing."""
    if not plain and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        with contextlib.suppress(ImportError):  # some builds of Python have none
            import readline

            return EditedLines(readline, History.of_user())
    return PlainLines()
