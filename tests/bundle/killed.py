"""An import that is killed at its first step, its second, and so on, each time in a process and a store of its own. A write
to a file is a step too, of which half is done by then.

    python -m tests.bundle.killed sqlite|file BUNDLE FOLDER

prints a line for each: how many conversations the store has afterwards, and whether the import came to its end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.arrival import import_bundle
from agentos.persistence.base import Point, Store
from agentos.persistence.file import FileStore
from agentos.persistence.sqlite import SQLiteStore

STEPS_MAX = 200


def store_at(kind: str, place: Path, point: Point) -> Store:
    return FileStore(str(place), point=point) if kind == "file" else SQLiteStore(str(place), point=point)


class Killing:
    """Kills this process at the nth step of the store."""

    def __init__(self, step: int) -> None:
        self._left = step
        self._write = os.pwrite

    def __call__(self, _: str) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, descriptor: int, data: bytes, offset: int, /) -> int:
        """In the place of os.pwrite."""
        if self._left == 1:
            self._write(descriptor, data[: len(data) // 2], offset)
        self("pwrite")
        return self._write(descriptor, data, offset)


async def imported(store: Store, bundle: Path) -> None:
    with BundleReader(bundle) as reader:
        await import_bundle(store, reader)
    await store.close()


async def count(store: Store) -> int:
    """Of a store that another process may have left in the middle of anything."""
    await store.open("after")
    found = len(await store.logs("conversation"))
    await store.close()
    return found


def main(kind: str, bundle: Path, folder: Path) -> None:
    for step in range(1, STEPS_MAX):
        place = folder / f"{kind}-{step}"
        child = os.fork()
        if child == 0:
            killing = Killing(step)
            os.pwrite = killing.write  # type: ignore[assignment]
            asyncio.run(imported(store_at(kind, place, killing), bundle))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status) == 0
        found = asyncio.run(count(store_at(kind, place, lambda _: None)))
        sys.stdout.write(f"{found} {'ended' if ended else 'killed'}\n")
        sys.stdout.flush()
        if ended:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
