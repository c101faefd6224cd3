"""Waits for the ends of turns, and notices when all that is left waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from agentos.components import CallConfig, ConversationConfig
from agentos.ids import CallId, ConversationId
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.kernel.reading import Reading
from agentos.kernel.rest import at_rest, open_doubts, open_requests

LOOK_S = 0.05
"""How often a kernel that has not finished is looked at; it counts as parked when it rests twice in a row."""


class Waited:
    """outcomes of the turns that ended, in the order asked; requests are the approvals that the others wait for, doubts the
    calls that nobody knows the outcome of."""

    def __init__(
        self, outcomes: list[RunOutcome], requests: list[CallId], doubts: list[CallId], kernel: Kernel
    ) -> None:
        self.outcomes, self.requests, self.doubts = outcomes, requests, doubts
        self.tools = {call: tool_of(kernel, call) for call in (*requests, *doubts)}
        self._children = {
            ConversationId(id_) for id_, config in kernel.world.find(ConversationConfig) if config.parent is not None
        }

    def is_child(self, conversation: ConversationId) -> bool:
        return conversation in self._children

    def roots(self) -> list[RunOutcome]:
        return [outcome for outcome in self.outcomes if not self.is_child(outcome.conversation)]


async def wait_for(
    kernel: Kernel, asked: Mapping[ConversationId, Coroutine[Any, Any, RunOutcome | None]], *, stay: bool = False
) -> Waited:
    """Until every turn has ended, or nothing goes on before somebody answers; with stay, until they have."""
    loop = asyncio.get_running_loop()
    tasks = {id_: loop.create_task(coroutine) for id_, coroutine in asked.items()}
    pending = set(tasks.values())
    rested = False
    try:
        while pending:
            _, pending = await asyncio.wait(pending, timeout=LOOK_S)
            waits = not stay and at_rest(kernel) and bool(open_requests(kernel) or open_doubts(kernel))
            if waits and rested:
                break
            rested = waits
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    ended = [task.result() for task in tasks.values() if task not in pending]
    outcomes = [outcome for outcome in ended if outcome is not None]
    if not pending:
        return Waited(outcomes, [], [], kernel)
    return Waited(outcomes, open_requests(kernel), open_doubts(kernel), kernel)


async def end_of_turn(kernel: Kernel, talk: Conversation) -> RunOutcome | None:
    """The outcome of the open turn, or of the last one when it has ended meanwhile."""
    return await kernel.outcome(talk.id) or await Reading(kernel.store).last_outcome(talk.id)


def tool_of(kernel: Kernel, call: CallId) -> str:
    """The name of a call's tool, as far as its conversation is loaded."""
    config = kernel.world.get(call, CallConfig)
    return config.tool if config is not None else "a call"
