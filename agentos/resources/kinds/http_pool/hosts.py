"""How many connections go to each host at once. First come, first served; a host that nobody asks costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec


class HostFull(Exception):
    """No connection to this host came free in time."""

    def __init__(self, host: str, size: int, wait_s: float) -> None:
        super().__init__(f"all {size} connections to {host} were in use for {wait_s:g} s")


class HostStatistics(msgspec.Struct, frozen=True):
    """One host with its port: how many connections are in use, and how many requests wait for one."""

    host: str
    used: int
    waiting: int


class Hosts:
    """One bound for each host."""

    def __init__(self, size: int, wait_s: float) -> None:
        self._size, self._wait_s = size, wait_s
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def connection(self, name: str) -> AsyncIterator[None]:
        """Leave to use one connection to a host. Raises HostFull."""
        host = self._hosts.setdefault(name, _Host(self._size))
        host.users += 1
        try:
            await host.free.acquire() if not host.free.locked() else await self._wait(name, host)
            try:
                yield
            finally:
                host.free.release()
        finally:
            host.users -= 1
            if not host.users:
                del self._hosts[name]

    def statistics(self) -> list[HostStatistics]:
        """The hosts that are asked now, by name."""
        return [
            HostStatistics(name, used := min(host.users, self._size), host.users - used)
            for name, host in sorted(self._hosts.items())
        ]

    async def _wait(self, name: str, host: _Host) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await host.free.acquire()
        except TimeoutError as error:
            raise HostFull(name, self._size, self._wait_s) from error


class _Host:
    __slots__ = ("free", "users")

    def __init__(self, size: int) -> None:
        self.free = asyncio.Semaphore(size)
        self.users = 0
