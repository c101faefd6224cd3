"""One life of the torture run: a kernel that takes up what is there, and works until it is killed.

It tells its parent signs of life, a letter and what belongs to it: see `agentos.testing.torture_run`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio.lowlevel

from agentos.components import Outcome
from agentos.definitions import AgentSpec
from agentos.errors import StoreUnavailable
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.kernel import Conversation, Kernel
from agentos.models.scripted import ScriptedModel
from agentos.ports import CallContext
from agentos.settings import Settings
from agentos.testing.forked import Tell
from agentos.testing.pairing import unpaired
from agentos.testing.torture_places import Place
from agentos.toolboxes.python import PythonToolbox, tool

T = TypeVar("T")

CONVERSATIONS = 4
AT_ONCE = 4
"""How many are asked once more at a time."""
ONCE_MORE = "once more"
"""How the last inputs begin. They are worked on without the help of other agents, who would begin new conversations."""
ASKING = frozenset({"ask_hand"})
LOOK_S = 0.01
AGAIN_S = 0.02
"""How soon a client asks again that was told that the store is out of reach."""
SETTINGS = Settings(live_conversations_max=6)
SHORT_PATIENCE = Settings(live_conversations_max=6, reconnect_s=0.3)
"""A server that stays away for longer than that is out of reach for the kernel, and not for its store alone."""


def warm() -> None:
    """Imports what a life imports when it first needs it, so that not each of hundreds of forks does it anew."""
    import_module("aiosqlite")
    asyncio.run(anyio.lowlevel.checkpoint())  # its part for asyncio


async def live(place: Place, seed: int, tell: Tell, *, last: bool) -> None:
    """Recovers, then sends inputs without end; the last life ends what is open, and asks everybody once more."""
    async with Kernel(place.url, settings=SETTINGS) as kernel:
        await others_are_dead(kernel, tell)
        await _enter(kernel, place.effects, tell)
        resumed = await kernel.recover()
        if last:
            await _end(kernel, resumed, tell)
        else:
            await _talk(kernel, seed, tell)


async def stay(place: Place, seed: int, tell: Tell) -> None:
    """One life for the whole run, while the server of its store comes and goes; it ends as a last one at SIGTERM."""
    async with Kernel(place.url, settings=SHORT_PATIENCE) as kernel:
        await _enter(kernel, place.effects, tell)
        talking = asyncio.create_task(_talk(kernel, seed, tell))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, talking.cancel)
        await asyncio.wait([talking])
        if not talking.cancelled():
            talking.result()
        ids = await patiently(kernel.conversations, tell)
        await _end(kernel, [Conversation(kernel, id_) for id_ in ids], tell)


async def others_are_dead(kernel: Kernel, tell: Tell) -> None:
    """The lives before this one were killed, which a store on another machine may hear of a moment later."""
    began = time.monotonic()
    while sum(writer.alive for writer in await kernel.writers()) > 1:  # noqa: ASYNC110 - a death tells nobody
        await asyncio.sleep(LOOK_S)
    tell(f"d{(time.monotonic() - began) * 1000:.0f}")


async def patiently(command: Callable[[], Awaitable[T]], tell: Tell) -> T:
    """Again and again while the store is out of reach, as a client may that has a key for it."""
    while True:
        try:
            return await command()
        except StoreUnavailable:
            tell("u")
            await asyncio.sleep(AGAIN_S)


async def _talk(kernel: Kernel, seed: int, tell: Tell) -> None:
    random = Random(seed)
    async with asyncio.TaskGroup() as talks:
        for number in range(CONVERSATIONS):
            talks.create_task(_hold_forth(kernel, Random(random.random()), number, tell))


async def _hold_forth(kernel: Kernel, random: Random, number: int, tell: Tell) -> None:
    """Half of the conversations go on over all lives, the others are new in each. Half of the inputs have a key."""
    while True:
        key = f"kept-{number}" if number % 2 else f"new-{random.getrandbits(64):x}"
        agent = random.choice(("lead", "hand")) if not number % 2 else "lead"
        conversation = await patiently(partial(kernel.start, agent, key), tell)
        for _ in range(3):
            await _say(conversation, f"work {random.getrandbits(64):x}", random.random() < 0.5, tell)
            await ended(kernel, conversation.id, tell)


async def ended(kernel: Kernel, id_: str, tell: Tell) -> bool:
    """Waits for the end of an open turn and tells its outcome; False when there was none."""
    outcome = await patiently(partial(kernel.outcome, id_), tell)
    if outcome is not None:
        tell(f"o{outcome.turn} {outcome.outcome.value}")
    return outcome is not None


async def _say(conversation: Conversation, text: str, keyed: bool, tell: Tell) -> None:
    """An input that was not acknowledged is sent again under its key, or is given up."""
    try:
        if keyed:
            seq = await patiently(partial(conversation.send, text, key=text), tell)
        else:
            seq = await conversation.send(text)
    except StoreUnavailable:
        tell("u")
        await asyncio.sleep(AGAIN_S)
    else:
        tell(f"a{conversation.id} {seq}")


async def _end(kernel: Kernel, open_: Iterable[Conversation], tell: Tell) -> None:
    """What is open comes to its end, and then every conversation takes one more input and completes."""
    for conversation in open_:
        while await ended(kernel, conversation.id, tell):
            continue
    await _all_at_rest(kernel, tell)
    free = asyncio.Semaphore(AT_ONCE)

    async def ask(id_: str) -> None:
        async with free:
            outcome = await (await kernel.get(id_)).ask(f"{ONCE_MORE} {id_}")
        tell(f"r{id_}" if outcome.outcome is Outcome.COMPLETED else f"!{id_} cannot go on: {outcome}, {outcome.error}")

    async with asyncio.TaskGroup() as asking:
        for id_ in await kernel.conversations():
            asking.create_task(ask(id_))


async def _all_at_rest(kernel: Kernel, tell: Tell) -> None:
    """What an ended turn asked of other agents may still be on its way."""
    while await patiently(kernel.store.open_logs, tell):  # noqa: ASYNC110 - rest tells nobody
        await asyncio.sleep(LOOK_S)


async def _enter(kernel: Kernel, effects: Path, tell: Tell) -> None:
    def append(context: CallContext, name: str) -> None:
        tell("b")
        note_effect(effects, context, name)
        tell("e")

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
    model = ScriptedModel(_checked(tell))
    for slug, subagents in (("lead", ["hand"]), ("hand", [])):
        spec = AgentSpec(slug=slug, announce=slug, model="scripted", toolboxes=["files"], subagents=subagents)
        await kernel.install(spec, model=model)


def note_effect(effects: Path, context: CallContext, name: str) -> None:
    """One line, and when this returns it is on the disk."""
    file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{context.key} {context.attempt} {name}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def _checked(tell: Tell) -> Callable[[ModelRequest], ModelReply]:
    def reply(request: ModelRequest) -> ModelReply:
        for problem in unpaired(request.messages):
            tell(f"!{request.conversation}: {problem}")
        tell("m")
        return _reply(request)

    return reply


def _reply(request: ModelRequest) -> ModelReply:
    """Calls tools for a step or two, then answers; told by the place alone, so that a second try says the same."""
    random = Random(f"{request.conversation} {request.turn} {request.step_index}")
    usage = Usage(10, 5)
    asked = sum(message.role is Role.ASSISTANT for message in request.messages)
    if request.step_index >= 2 or (request.step_index == 1 and random.random() < 0.5):
        return ModelReply(text=f"done after {asked} replies", usage=usage)
    said = next(message.text for message in reversed(request.messages) if message.role is Role.USER)
    names = [tool.name for tool in request.context.tools if not (said.startswith(ONCE_MORE) and tool.name in ASKING)]
    calls = tuple(_call(random, random.choice(names)) for _ in range(random.randint(1, 3)))
    return ModelReply(calls=calls, usage=usage)


def _call(random: Random, name: str) -> ToolCall:
    if name in ASKING:
        return ToolCall(name, {"task": f"part {random.getrandbits(16):x}"})
    return ToolCall(name, {"pause_ms": random.choice((0, 0, 1, 3))})
