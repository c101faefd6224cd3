"""Requests made by hand, and a list of deltas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentos.components import AgentContext, ModelRef, ToolSpec, TurnLimits
from agentos.events.model import Message, ModelRequest, Role, ToolCall
from agentos.ids import Digest, LogId, Name, agent_id


def _message(told: Any) -> Message:
    """("user", text), ("assistant", text), ("call", name, arguments, id) or ("tool", name, text, id)."""
    match told:
        case ("call", name, arguments, id_):
            return Message(Role.ASSISTANT, calls=(ToolCall(name, arguments, id_),))
        case ("tool", name, text, id_):
            return Message(Role.TOOL, text, call_id=id_, name=name)
        case Message():
            return told
    return Message(Role(told[0]), told[1])


@pytest.fixture
def request_of() -> Callable[..., ModelRequest]:
    def make(*messages: Any, tools: tuple[ToolSpec, ...] = (), agent: str = "tester", **more: Any) -> ModelRequest:
        context = AgentContext(
            agent=agent_id(agent),
            slug=Name(agent),
            prompt=("Be brief.",),
            model=ModelRef(kind="scripted"),
            limits=TurnLimits(),
            tools=tools,
        )
        told = [_message(message) for message in messages]
        return ModelRequest(context, told, LogId("conversation_x"), Digest("d"), **more)

    return make


@pytest.fixture
def deltas() -> list[str]:
    return []
