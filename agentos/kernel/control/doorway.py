"""Takes in who connects to a listening socket, as long as the process has room for one more.

asyncio's own server tries a hundred times in a row when there is none, tells of each, and leaves whoever knocks without a
word. Here each is told why and sent away, by a file that is kept open for that; nothing is tried again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable, Coroutine

_log = logging.getLogger(__name__)

AT_ONCE = 16
"""How many come in before others of the loop have their turn."""
RETRY_S = 1.0
"""How long nobody is taken in when there is no room even to send somebody away."""
_NONE_THERE = (BlockingIOError, InterruptedError, ConnectionAbortedError)
_FULL = (errno.EMFILE, errno.ENFILE)

Enter = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class Doorway:
    """Open from its making to `close`. enter has somebody in, as a task to the end of his connection; full is the last word
    to those for whom the process has no file left."""

    def __init__(self, listening: socket.socket, enter: Enter, full: bytes) -> None:
        self._socket, self._enter, self._full = listening, enter, full
        self._loop = asyncio.get_running_loop()
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._again: asyncio.TimerHandle | None = None
        self._is_told = False
        self.inside: set[asyncio.Task[None]] = set()
        self._loop.add_reader(self._socket, self._knocked)

    def close(self) -> None:
        """Nobody comes in any more. Those inside go on."""
        self._loop.remove_reader(self._socket)
        if self._again is not None:
            self._again.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        self._socket.close()

    def _knocked(self) -> None:
        for _ in range(AT_ONCE):
            try:
                came, _ = self._socket.accept()
            except _NONE_THERE:
                return
            except OSError as error:
                self._tell(error)
                if error.errno not in _FULL or not self._send_away():
                    self._rest()
                    return
            else:
                self._is_told = False
                task = self._loop.create_task(self._let_in(came))
                self.inside.add(task)
                task.add_done_callback(self.inside.discard)

    async def _let_in(self, came: socket.socket) -> None:
        came.setblocking(False)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, came)
        except BaseException:
            came.close()
            raise
        await self._enter(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    def _send_away(self) -> bool:
        """Tells the next one that there is no room, in the place of the spare file. False when that is not there."""
        if self._spare is None:
            return self._is_spare_again()
        os.close(self._spare)
        self._spare = None
        with contextlib.suppress(OSError):
            came, _ = self._socket.accept()
            with came:
                came.setblocking(False)
                came.send(self._full)
        return self._is_spare_again()

    def _is_spare_again(self) -> bool:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._spare is not None

    def _tell(self, error: OSError) -> None:
        """Once, until somebody could come in again."""
        if not self._is_told:
            self._is_told = True
            _log.warning("nobody can come in at the control socket: %s", error.strerror)

    def _rest(self) -> None:
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(RETRY_S, self._loop.add_reader, self._socket, self._knocked)
