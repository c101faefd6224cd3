"""Signals to a command that hosts agents: the first asks it to end, the second to end at once, the third kills it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Signals:
    """Listens while the block runs. told_by says who told it to end first, forced whether it was told to end at once.

    A signal that was ignored when the command began stays so: `nohup` means it.
    """

    def __init__(self) -> None:
        self.forced = False
        self.told_by = ""
        self._opening: asyncio.Task[Any] | None = None
        self._once, self._twice = asyncio.Event(), asyncio.Event()
        self._listened: list[signal.Signals] = []

    def __enter__(self) -> Signals:
        loop = asyncio.get_running_loop()
        self._listened = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self._listened:
            loop.add_signal_handler(number, self.take, _NAMES[number])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    async def wait(self) -> None:
        await self._once.wait()

    async def wait_again(self) -> None:
        """Until it is to end at once."""
        await self._twice.wait()

    def take(self, by: str) -> None:
        """A signal: a word to end, and the second at once. A terminal that closes sends its own more than once."""
        self.tell(by, at_once=bool(self.told_by) and by != _NAMES[signal.SIGHUP])

    def tell(self, by: str, *, at_once: bool) -> None:
        """A word to end, by whatever way it came. While it opens, that is the end of it."""
        self.told_by = self.told_by or by
        self._once.set()
        if self._opening is not None:
            self._opening.cancel()
        if at_once:
            self.forced = True
            self._twice.set()
            self._let_go()  # from here on a signal does what it does to any process

    @contextmanager
    def opening(self) -> Iterator[None]:
        """A block that a word to end cancels: what it has opened by then is closed again."""
        self._opening = asyncio.current_task()
        try:
            yield
        finally:
            self._opening = None

    def _let_go(self) -> None:
        for number in self._listened:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._listened.clear()
