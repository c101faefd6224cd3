"""The agent that is measured, and its turns: one model that answers at once, one tool, one call a turn."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from agentos.components import Outcome
from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.kernel import Conversation, Kernel
from agentos.models.scripted import ScriptedModel
from agentos.toolboxes.python import PythonToolbox, tool

SLUG = "bench"


class Words(msgspec.Struct, frozen=True):
    """What is said in a turn: the input, the argument of the call (the result repeats it), and the answer."""

    text: str = "please note hello"
    note: str = "hello world"
    answer: str = "done"

    @property
    def asks(self) -> ModelReply:
        return ModelReply(calls=(ToolCall("note", {"text": self.note}),), usage=Usage(10, 5))

    @property
    def ends(self) -> ModelReply:
        return ModelReply(text=self.answer, usage=Usage(20, 5))


TINY = Words()
LONGER = Words(text="What the input says. " * 12, note="What is noted. " * 14, answer="What the answer says. " * 11)
"""0.9 KB in four texts."""


@tool
async def note(text: str) -> str:
    """Keeps a note.

    Args:
        text: what to keep
    """
    return f"ok:{text}"


async def install(kernel: Kernel, words: Words = TINY, window_messages: int | None = None) -> None:
    """The agent, warmed up by one turn."""
    asks, ends = words.asks, words.ends

    def reply(request: ModelRequest) -> ModelReply:
        return asks if request.messages[-1].role is Role.USER else ends

    await kernel.add_toolbox(PythonToolbox("bench", [note]))
    spec = AgentSpec(
        slug=SLUG,
        announce="benchmark",
        system_prompt="You take notes.",
        model="scripted",
        toolboxes=["bench"],
        window_messages=window_messages,
    )
    await kernel.install(spec, model=ScriptedModel(reply))
    await (await kernel.start(SLUG)).ask(words.text)


async def started(kernel: Kernel, conversations: int) -> list[Conversation]:
    return await asyncio.gather(*(kernel.start(SLUG) for _ in range(conversations)))


async def by_tens(kernel: Kernel, turns: int) -> None:
    """One turn after the other, ten in each conversation."""
    for _ in range(turns // 10):
        await ask(await kernel.start(SLUG), 10)


async def at_once(conversations: Sequence[Conversation], turns: int) -> None:
    """So many turns in each, all conversations at the same time."""
    await asyncio.gather(*(ask(conversation, turns) for conversation in conversations))


async def ask(conversation: Conversation, turns: int, words: Words = TINY) -> None:
    """One turn after the other. A turn that ended otherwise would cost less, and must not count."""
    for _ in range(turns):
        outcome = await conversation.ask(words.text)
        assert outcome.outcome is Outcome.COMPLETED, outcome


async def cpu_us(work: Callable[[], Awaitable[object]], count: int, repeat: int = 1) -> float:
    """CPU microseconds for each of the things that one call of the work does."""
    gc.collect()
    before = time.process_time()
    for _ in range(repeat):
        await work()
    return (time.process_time() - before) / (count * repeat) * 1e6


async def wall_s(work: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    before = time.perf_counter()
    await work()
    return time.perf_counter() - before
