"""One life of the torture run: a kernel that takes up what is there, and works until it is killed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.kernel import Conversation, Kernel
from agentos.models.scripted import ScriptedModel
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.testing.pairing import unpaired
from agentos.toolboxes.python import PythonToolbox, tool

STORE, EFFECTS = "torture.db", "effects.log"
CONVERSATIONS = 4
Sign = Callable[[str], object]


def store_url(folder: Path) -> str:
    return f"sqlite:///{folder / STORE}"


async def live(folder: Path, seed: int, sign: Sign, *, last: bool) -> None:
    """Recovers, then sends inputs without end; the last life only ends what is open."""
    settings = Settings(live_conversations_max=6)
    async with Kernel(store_url(folder), settings=settings) as kernel:
        await _enter(kernel, folder / EFFECTS, sign)
        resumed = await kernel.recover()
        if last:
            await asyncio.gather(*(_to_the_end(kernel, conversation) for conversation in resumed))
            return
        random = Random(seed)
        await asyncio.gather(*(_talk(kernel, Random(random.random()), n, sign) for n in range(CONVERSATIONS)))


async def _to_the_end(kernel: Kernel, conversation: Conversation) -> None:
    while await kernel.outcome(conversation.id) is not None:
        continue


async def _talk(kernel: Kernel, random: Random, number: int, sign: Sign) -> None:
    """Half of the conversations go on over all lives, the others are new in each."""
    while True:
        key = f"kept-{number}" if number % 2 else f"new-{random.getrandbits(64):x}"
        conversation = await kernel.start(random.choice(("lead", "hand")) if not number % 2 else "lead", key)
        for _ in range(3):
            seq = await conversation.send(f"work {random.getrandbits(32):x}")
            sign(f"a{conversation.id} {seq}")
            await kernel.outcome(conversation.id)


async def _enter(kernel: Kernel, effects: Path, sign: Sign) -> None:
    def append(context: CallContext, name: str) -> None:
        sign("b")
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{context.key} {context.attempt} {name}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        sign("e")

    @tool(effect="once")
    async def once(context: CallContext, pause_ms: int) -> str:
        """Appends a line, once."""
        await asyncio.sleep(pause_ms / 1000)
        append(context, "once")
        await asyncio.sleep(pause_ms / 1000)
        return "appended"

    @tool(effect="once")
    def once_in_a_thread(context: CallContext, pause_ms: int) -> str:
        """Appends a line, once, off the loop."""
        time.sleep(pause_ms / 1000)
        append(context, "once_in_a_thread")
        return "appended"

    @tool(effect="idempotent")
    async def again(context: CallContext, pause_ms: int) -> str:
        """Appends a line, maybe again."""
        append(context, "again")
        await asyncio.sleep(pause_ms / 1000)
        return "appended"

    await kernel.add_toolbox(PythonToolbox("files", [once, once_in_a_thread, again]))
    model = ScriptedModel(_checked(sign))
    for slug, subagents in (("lead", ["hand"]), ("hand", [])):
        spec = AgentSpec(slug=slug, announce=slug, model="scripted", toolboxes=["files"], subagents=subagents)
        await kernel.install(spec, model=model)


def _checked(sign: Sign) -> Callable[[ModelRequest], ModelReply]:
    def reply(request: ModelRequest) -> ModelReply:
        for problem in unpaired(request.messages):
            sign(f"!{request.conversation}: {problem}")
        sign("m")
        return _reply(request)

    return reply


def _reply(request: ModelRequest) -> ModelReply:
    """Calls tools for a step or two, then answers; told by the place alone, so that a second try says the same."""
    random = Random(f"{request.conversation} {request.turn} {request.step_index}")
    usage = Usage(10, 5)
    asked = sum(message.role is Role.ASSISTANT for message in request.messages)
    if request.step_index >= 2 or (request.step_index == 1 and random.random() < 0.5):
        return ModelReply(text=f"done after {asked} replies", usage=usage)
    names = [tool.name for tool in request.context.tools]
    calls = tuple(_call(random, random.choice(names)) for _ in range(random.randint(1, 3)))
    return ModelReply(calls=calls, usage=usage)


def _call(random: Random, name: str) -> ToolCall:
    if name.startswith("ask_"):
        return ToolCall(name, {"task": f"part {random.getrandbits(16):x}"})
    return ToolCall(name, {"pause_ms": random.choice((0, 0, 1, 3))})
