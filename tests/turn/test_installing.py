"""What an agent's log and the World say of its definitions."""

from __future__ import annotations

from agentos.components import AgentState
from agentos.definitions import AgentSpec
from agentos.ids import agent_id
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from tests.support import Mind


async def installed(store: MemoryStore, *announcements: str) -> AgentState | None:
    """The agent's state after these definitions were installed, in a kernel of their own."""
    async with Kernel(store) as kernel:
        for announce in announcements:
            await kernel.install(AgentSpec(slug="main", announce=announce), model=Mind())
        return kernel.world.get(agent_id("main"), AgentState)


async def test_definitions_are_counted_over_all_processes() -> None:
    store = MemoryStore()

    assert await installed(store, "first", "second") == AgentState(revision=2)
    assert await installed(store, "second") == AgentState(revision=2)
    assert await installed(store, "third") == AgentState(revision=3)


async def test_an_agent_that_was_removed_and_installed_again_is_counted_on() -> None:
    store = MemoryStore()
    await installed(store, "first")

    async with Kernel(store) as kernel:
        await kernel.install(AgentSpec(slug="main", announce="first"), model=Mind())
        await kernel.remove("main")
        removed = kernel.world.get(agent_id("main"), AgentState)

    assert removed == AgentState(revision=1, removed=True)
    assert await installed(store, "first") == AgentState(revision=2)
