"""Ctrl-C in a command that drives turns: once ends them and keeps what was said, twice quits."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from agentos.interfaces.cli.output import say
from agentos.kernel import Conversation


class Interrupts:
    """Listens while the block runs. count says how often Ctrl-C came; tell prints a message."""

    def __init__(self, talks: Sequence[Conversation], tell: Callable[[str], None] = say) -> None:
        self.count = 0
        self._talks, self._tell = talks, tell
        self._task: asyncio.Task[Any] | None = None
        self._ends: list[asyncio.Task[None]] = []

    def __enter__(self) -> Interrupts:
        self._task = asyncio.current_task()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._pressed)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def _pressed(self) -> None:
        self.count += 1
        if self.count == 1:
            self._tell("\ninterrupted; the turn is being ended (Ctrl-C again quits at once)")
            loop = asyncio.get_running_loop()
            self._ends = [loop.create_task(talk.interrupt()) for talk in self._talks]
        elif self._task is not None:
            self._task.cancel()
