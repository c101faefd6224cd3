"""A process that takes one input and dies by SIGKILL at a chosen place; run by the tests of kill -9.

    python -m tests.cases.dying FOLDER POINT TOOL...

POINT is `KIND before` or `KIND after` (the storing of a unit with such an entry), or `in N`: inside the tool N, after its
effect. The tools are called in one reply, in this order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentos.components import ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.models.scripted import ScriptedModel
from agentos.persistence.base import Unit
from agentos.persistence.sqlite import SQLiteStore
from agentos.ports import CallContext
from agentos.toolboxes.python import PythonToolbox, tool

STORE, EFFECTS = "dying.db", "effects.log"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingStore:
    """A store whose process dies right before or right after it writes an entry of a kind."""

    def __init__(self, inner: SQLiteStore, kind: str, when: str) -> None:
        self._inner, self._kind, self._when = inner, kind, when

    def append(self, units: Sequence[Unit]) -> Any:
        hit = any(entry[2] == self._kind for unit in units for entry in unit.entries)
        if hit and self._when == "before":
            die()
        verdicts = self._inner.append(units)
        if hit and self._when == "after":
            die()
        return verdicts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def toolbox(folder: Path, deadly: str = "") -> PythonToolbox:
    """Tools that append a line with their key to the effect file, and sync it: only then are they done."""

    def append(name: str, context: CallContext) -> str:
        file = os.open(folder / EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{name} {context.key}\n".encode())
        os.fsync(file)
        os.close(file)
        if name == deadly:
            die()
        return f"{name} done"

    async def mail(context: CallContext) -> str:
        return append("mail", context)

    async def notify(context: CallContext) -> str:
        return append("notify", context)

    @tool(effect="idempotent")
    async def sync(context: CallContext) -> str:
        return append("sync", context)

    return PythonToolbox("box", [mail, notify, sync], ToolboxSharing.EXCLUSIVE)


def effects(folder: Path) -> list[str]:
    """The names of the tools that had their effect, in order."""
    path = folder / EFFECTS
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


async def live(folder: Path, point: str, tools: Sequence[str]) -> None:
    kind, when = point.split()
    store: Any = SQLiteStore(str(folder / STORE))
    if kind != "in":
        store = DyingStore(store, kind, when)
    model = ScriptedModel(
        [{"when": {"last_role": "user"}, "calls": [{"tool": name} for name in tools]}, {"text": "said: {results}"}]
    )
    async with Kernel(store) as kernel:
        await kernel.add_toolbox(toolbox(folder, when if kind == "in" else ""))
        await kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=model)
        conversation = await kernel.start("main")
        os.write(sys.stdout.fileno(), f"{conversation.id}\n".encode())
        os.write(sys.stdout.fileno(), f"{await conversation.send('go')}\n".encode())
        await kernel.outcome(conversation.id)


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
