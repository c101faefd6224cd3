"""What the tests of the control socket share: a kernel that listens, and a client without manners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.settings import Settings
from tests.support import Mind, hang

TRIES_MAX = 30_000
"""A guard against waiting for ever, of a minute at least."""


@asynccontextmanager
async def listening(folder: Path, mind: Mind | None = None, **limits: Any) -> AsyncIterator[Kernel]:
    """A kernel over a SQLite file with an agent `main`; by default its model never answers."""
    settings = Settings(inbox_poll_ms=20, **limits)
    async with Kernel(f"sqlite:///{folder}/store.db", settings=settings, control=True) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=mind or Mind(hang))
        yield kernel
        await kernel.close(0)


def path_of(kernel: Kernel) -> str:
    assert kernel.control_path is not None, "it listens"
    return kernel.control_path


class Raw:
    """A connection that sends whatever bytes it likes."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_unix_connection(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def line(self) -> Any:
        """What the next line says; None at the end."""
        try:
            line = await self.reader.readline()
        except ConnectionError:
            return None
        return json.loads(line) if line else None

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, number: int, word: str, **given: Any) -> None:
        self.send(json.dumps({"id": number, "word": word, "given": given}).encode() + b"\n")

    async def ended(self) -> list[Any]:
        """All that is still said, up to the end."""
        said = []
        while (line := await self.line()) is not None:
            said.append(line)
        return said


async def until(condition: Callable[[], object]) -> None:
    for _ in range(TRIES_MAX):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came true")
