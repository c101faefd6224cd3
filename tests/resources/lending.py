"""What the tests of lending share: a printer that belongs to the program, and looks at the log."""

from __future__ import annotations

from typing import Any

from agentos.components import Pattern
from agentos.events.kinds import ResourceNoted
from agentos.history import Identical, replay_log
from agentos.kernel import Conversation, Kernel
from agentos.resources import Factory
from tests.support import Lab, entries_of


async def printer(here: Lab, pattern: Pattern = Pattern.EXCLUSIVE, name: str = "printer", **options: Any) -> list[str]:
    """A resource of the program, and what became of its handles."""
    told: list[str] = []

    async def make() -> str:
        told.append("made")
        return name

    factory = Factory(make, close=lambda handle: told.append("closed"))
    await here.kernel.resources.create(here.kernel.scope, "device", name, factory, pattern=pattern, **options)
    return told


async def replays(kernel: Kernel, log: str) -> bool:
    return isinstance(await replay_log(kernel.store, log), Identical)


async def notes_of(conversation: Conversation) -> list[tuple[int, ResourceNoted]]:
    """What was noted of resources, each with the call that holds or waits."""
    entries = await entries_of(conversation, "resource.noted")
    return [(entry.call, entry.data) for entry in entries if isinstance(entry.data, ResourceNoted)]
