"""A word to end that comes from outside the process, for whoever drives the kernel there."""

from __future__ import annotations

import asyncio

from agentos.errors import ControlRefused


class Stopping:
    """Holds the word until it is heard. Where nobody listens for it, it is refused: a kernel does not end by itself."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[bool] | None = None

    def ask(self, *, force: bool) -> None:
        """Raises ControlRefused where nobody listens."""
        if self._heard is None:
            raise ControlRefused("what runs there does not take 'stop'; 'agentos cancel' ends its turns")
        if not self._heard.full():
            self._heard.put_nowait(force)

    async def wait(self) -> bool:
        """Until somebody asks; gives whether it is to end at once. From the first call on, words are held."""
        self.listen()
        assert self._heard is not None, "it listens"
        return await self._heard.get()

    def listen(self) -> None:
        """From here on words are held for `wait`."""
        if self._heard is None:
            self._heard = asyncio.Queue(maxsize=16)
