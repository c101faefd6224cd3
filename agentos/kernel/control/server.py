"""The control socket of a running kernel: who may come in, and how many."""

from __future__ import annotations

import asyncio
import logging
import os

from agentos.errors import ControlRefused, ControlTaken
from agentos.kernel.control.connection import FLUSH_S, Connection, last_word
from agentos.kernel.control.doorway import Doorway
from agentos.kernel.control.peer import credentials_of
from agentos.kernel.control.place import Listening, listen, place_of
from agentos.kernel.control.wire import PROTOCOL, Greeting
from agentos.kernel.control.words import Hosted
from agentos.secrets import without_password
from agentos.settings import Settings

_log = logging.getLogger(__name__)
FULL = (
    "its process has no file left for one more connection; something there leaks, or its limit (ulimit -n) is too low"
)


class ControlServer:
    """Listens beside the store from `open` to `close`. A kernel that cannot listen works all the same, and says so."""

    def __init__(self, host: Hosted, url: str, settings: Settings) -> None:
        self._host, self._url, self._settings = host, url, settings
        self._listening: Listening | None = None
        self._doorway: Doorway | None = None
        self._connections: set[Connection] = set()

    @property
    def path(self) -> str | None:
        """Where it listens; None while it does not."""
        return self._listening.path if self._listening is not None else None

    async def open(self, writer: int) -> None:
        """writer is the number under which the store knows this kernel."""
        place = place_of(self._url)
        if place is None:
            return
        self._greeting = Greeting(agentos=PROTOCOL, writer=writer, pid=os.getpid(), store=without_password(self._url))
        try:
            self._listening = listen(place, writer)
        except (ControlTaken, OSError) as error:
            _log.warning("no other process can ask this kernel: %s", error)
            return
        self._doorway = Doorway(self._listening.socket, self._come_in, last_word(ControlRefused(FULL)))

    async def close(self) -> None:
        """Nobody comes in any more; who is in hears the end of what was asked, within FLUSH_S."""
        listening, doorway = self._listening, self._doorway
        if listening is None or doorway is None:
            return
        listening.remove()
        doorway.close()
        self._listening = self._doorway = None
        await asyncio.gather(*(connection.close() for connection in self._connections))
        if doorway.inside:
            _, late = await asyncio.wait(doorway.inside, timeout=2 * FLUSH_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _come_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._host, self._settings)
        (_, user), own = credentials_of(writer.get_extra_info("socket")), os.geteuid()
        if self._doorway is None:
            connection.drop()  # it closes
            return
        if user != own:
            _log.warning("user %d asked at the control socket of user %d, and was refused", user, own)
            connection.drop()
            return
        if not self._has_room():
            connection.send_away(ControlRefused(f"{self._all_taken}, and all have requests open"))
            return
        self._connections.add(connection)
        try:
            await connection.run(self._greeting)
        finally:
            self._connections.discard(connection)

    def _has_room(self) -> bool:
        """Whether one more fits in; the one that has been idle longest makes room."""
        if len(self._connections) < self._settings.control_connections_max:
            return True
        idle = [(since, connection) for connection in self._connections if (since := connection.idle_since) is not None]
        if not idle:
            return False
        _, longest = min(idle, key=lambda pair: pair[0])
        self._connections.discard(longest)
        longest.send_away(ControlRefused(f"{self._all_taken}, and this one was idle for the longest time"))
        return True

    @property
    def _all_taken(self) -> str:
        return f"{self._settings.control_connections_max} connections are open here (control_connections_max)"
