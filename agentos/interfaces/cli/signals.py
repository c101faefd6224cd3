"""Signals to a command that hosts agents: the first asks it to end, the second to end at once, the third kills it."""

from __future__ import annotations

import asyncio
import signal
from types import TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Signals:
    """Listens while the block runs. count says how often it was told to end, told_by who did so first.

    A signal that was ignored when the command began stays so: `nohup` means it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.told_by = ""
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

    def take(self, by: str, force: bool = False) -> None:
        """A word to end; with force, at once."""
        self.count += 2 if force else 1
        self.told_by = self.told_by or by
        self._once.set()
        if self.count > 1:
            self._twice.set()
            self._let_go()  # from here on a signal does what it does to any process

    def _let_go(self) -> None:
        for number in self._listened:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._listened.clear()
