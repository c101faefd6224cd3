"""A kernel whose PostgreSQL server is killed under it: turns go on, and what was acknowledged is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentos.components import Outcome
from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, Role, Usage
from agentos.history import verify_store
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.models.base import OnDelta
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.settings import Settings
from agentos.testing.postgres import PostgresServer
from agentos.toolboxes.python import PythonToolbox
from tests.persistence.postgresql_support import HARMS, until
from tests.support import call, calls

pytestmark = pytest.mark.anyio

CONVERSATIONS, TURNS = 6, 8


def note(text: str) -> str:
    """Notes it."""
    return f"noted {text}"


class Noter:
    """A model that notes something and then answers."""

    async def complete(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        if request.messages[-1].role is Role.TOOL:
            return ModelReply("done", usage=Usage(10, 5))
        return calls(call("note", text=request.messages[-1].text))

    async def close(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize("harm", HARMS)
async def test_turns_go_on_over_a_server_that_dies(
    server: PostgresServer, harm: Callable[[PostgresServer], None]
) -> None:
    store = PostgreSQLStore(server.new_schema_url(), settings=Settings(reconnect_s=60.0))
    outcomes: list[RunOutcome] = []
    async with Kernel(store) as kernel:
        await kernel.add_toolbox(PythonToolbox("box", [note]))
        await kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=Noter())
        talks = [await kernel.start("main") for _ in range(CONVERSATIONS)]
        talking = [asyncio.ensure_future(_talk(conversation, outcomes)) for conversation in talks]
        await until(lambda: len(outcomes) >= CONVERSATIONS)
        await asyncio.to_thread(harm, server)
        await asyncio.gather(*talking)
        kinds = [[entry.kind for entry in await store.entries(conversation.id)] for conversation in talks]

    reader = PostgreSQLStore(store.url)
    try:
        report = await verify_store(reader)
    finally:
        await reader.close()
    assert [outcome.outcome for outcome in outcomes] == [Outcome.COMPLETED] * (CONVERSATIONS * TURNS)
    assert [found.count("call.finished") for found in kinds] == [TURNS] * CONVERSATIONS
    assert [found.count("call.doubted") for found in kinds] == [0] * CONVERSATIONS
    assert report.ok, report


async def _talk(conversation: Conversation, outcomes: list[RunOutcome]) -> None:
    for turn in range(TURNS):
        outcome = await conversation.ask(f"go {turn}")
        outcomes.append(outcome)
