"""Erases in a process of its own that kills itself at the nth step of its store: `python -m tests.erase.killing`.

For each n, in strides, the store is copied, and erased in a fork of this process, until one comes to its end. Writes a JSON
list of the folders, the last of which was not cut short.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

from agentos.kernel import open as open_kernel
from agentos.persistence.file.store import FileStore
from agentos.persistence.sqlite.store import SQLiteStore

STEPS_MAX = 400


def killing_at(n: int) -> None:
    """From here on the nth step of any store is the last thing that this process does."""
    steps = count(1)

    def step(_: str) -> None:
        if next(steps) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    for kind in (SQLiteStore, FileStore):
        defaults = kind.__init__.__kwdefaults__
        assert defaults is not None
        assert "point" in defaults
        defaults["point"] = step


async def erase(url: str, conversation: str) -> None:
    async with open_kernel(url) as kernel:
        await kernel.erase(conversation, forks=True)


def is_killed(url: str, conversation: str, n: int) -> bool:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    code = 1
    try:
        killing_at(n)
        asyncio.run(erase(url, conversation))
        code = 0
    finally:
        os._exit(code)


def main(folder: str, name: str, conversation: str, stride: str) -> None:
    found = []
    for n in range(1, STEPS_MAX, int(stride)):
        place = Path(f"{folder}-{n}")
        shutil.copytree(folder, place)
        found.append(str(place))
        if not is_killed(name.replace("FOLDER", str(place)), conversation, n):
            break
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
