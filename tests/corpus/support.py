"""The stores of the corpus, and the kernel that wrote them and goes on with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentos import AgentSpec, Kernel, tool
from agentos.ids import Kind, hashed_id
from agentos.persistence.base import Store
from agentos.ports import CallContext
from agentos.testing.clock import ManualClock
from agentos.toolboxes.python import PythonToolbox
from tests.history.support import Desk, office

HERE = Path(__file__).parent
STORES = sorted(HERE.glob("version*.db"))
ASKING: dict[str, Any] = {"approval": "park", "policy": [{"tool": "fail", "verdict": "ask"}]}


def conversation(agent: str, key: str) -> str:
    """The id of one that was begun with a key."""
    return hashed_id(Kind.CONVERSATION, agent, key)


@asynccontextmanager
async def staffed(store: Store, desk: Desk, **options: Any) -> AsyncIterator[Kernel]:
    """An office whose clerk has to ask before `fail`, and a scribe, who has a tool that calls others."""

    @tool
    async def each(context: CallContext, names: list[str]) -> str:
        """Calls tools, one after the other."""
        return ", ".join([(await context.call(name, {"text": f"inner {name}"})).text for name in names])

    async with office(store, desk, clerk=ASKING, clock=ManualClock(), **options) as kernel:
        await kernel.add_toolbox(PythonToolbox("portal", [each]))
        await kernel.install(AgentSpec(slug="scribe", toolboxes=["desk", "portal"], **ASKING))
        yield kernel
