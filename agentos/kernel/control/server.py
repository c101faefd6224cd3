"""The control socket of a running kernel: who may come in, and how many."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from agentos.errors import ControlRefused, ControlTaken
from agentos.kernel.control.connection import FLUSH_S, Connection
from agentos.kernel.control.peer import credentials_of
from agentos.kernel.control.place import Listening, listen, place_of
from agentos.kernel.control.wire import PROTOCOL, Greeting
from agentos.kernel.control.words import Hosted
from agentos.secrets import without_password
from agentos.settings import Settings

_log = logging.getLogger(__name__)
LET_IN_STEPS = 3
"""How many steps of the loop it takes to let somebody in."""


class ControlServer:
    """Listens beside the store from `open` to `close`. A kernel that cannot listen works all the same, and says so."""

    def __init__(self, host: Hosted, url: str, settings: Settings) -> None:
        self._host, self._url, self._settings = host, url, settings
        self._listening: Listening | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, asyncio.Task[Any] | None] = {}

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
        self._server = await asyncio.start_unix_server(self._come_in, sock=self._listening.socket)

    async def close(self) -> None:
        """Nobody comes in any more; who is in hears the end of what was asked, within FLUSH_S."""
        if self._listening is None or self._server is None:
            return
        self._listening.remove()
        for _ in range(LET_IN_STEPS):  # asyncio has no good end for a connection that it is just taking in
            await asyncio.sleep(0)
        self._server.close()
        inside = list(self._connections.items())
        await asyncio.gather(*(connection.close() for connection, _ in inside))
        tasks = [task for _, task in inside if task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * FLUSH_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._listening = self._server = None

    async def _come_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self._host, self._settings)
        (_, user), own = credentials_of(writer.get_extra_info("socket")), os.geteuid()
        if user != own:
            _log.warning("user %d asked at the control socket of user %d, and was refused", user, own)
            connection.drop()
            return
        if not self._has_room():
            limit = self._settings.control_connections_max
            await connection.refuse(
                ControlRefused(
                    f"{limit} connections are open here (control_connections_max), and all have requests open"
                )
            )
            writer.close()
            return
        self._connections[connection] = asyncio.current_task()
        try:
            await connection.run(self._greeting)
        finally:
            del self._connections[connection]

    def _has_room(self) -> bool:
        """Whether one more fits in; the one that has been idle longest makes room."""
        if len(self._connections) < self._settings.control_connections_max:
            return True
        idle = [(since, connection) for connection in self._connections if (since := connection.idle_since) is not None]
        if not idle:
            return False
        _, longest = min(idle, key=lambda pair: pair[0])
        longest.drop()
        return True
