"""A process whose one turn has these kinds all at once, and waits; run by the tests that end processes from outside.

    python -m tests.endings.program FOLDER URL KIND...

It says `held KIND` for each that it has, a line each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.kernel import open as open_kernel
from tests.endings.bench import uses
from tests.endings.kinds import Here, Meanwhile, boxes, user
from tests.support import Mind, hang

STORE = "endings.db"


async def hold(kind: str, handle: Any) -> None:
    os.write(sys.stdout.fileno(), f"held {kind}\n".encode())
    await hang()


async def furnish(kernel: Kernel, here: Here, meanwhile: Meanwhile) -> None:
    """The agent `main`, with resources as their kinds say."""
    toolboxes = boxes(here, user(here, meanwhile))
    for toolbox in toolboxes:
        await kernel.add_toolbox(toolbox)
    await kernel.install(AgentSpec(slug="main", toolboxes=[box.name for box in toolboxes]), model=Mind(uses, uses))


async def live(here: Here, kinds: Sequence[str]) -> None:
    async with open_kernel(f"sqlite:///{here.folder / STORE}", control=True) as kernel:
        await furnish(kernel, here, hold)
        conversation = await kernel.start("main")
        await conversation.ask(" ".join(kinds))


if __name__ == "__main__":
    asyncio.run(live(Here(Path(sys.argv[1]), sys.argv[2]), sys.argv[3:]))
