"""A long conversation as a kernel writes it, turn by turn, and how long it takes to open one that is not in memory.

    python -m agentos.testing.long_log --entries 100000 --window 1000

Prints the milliseconds of each opening: everything that a message to an idle conversation waits for before its turn
begins, reading included. The first one finds caches of the file as the writing left them.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import agentos.kernel
from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.ids import ConversationId, LogId
from agentos.kernel import Conversation, Kernel
from agentos.models.scripted import ScriptedModel
from agentos.toolboxes.python import PythonToolbox, tool

SLUG = "chronicler"
TEXT = "please keep this line, and tell me where it went"
_KEEP = ModelReply(calls=(ToolCall("keep", {"line": "a line that is worth keeping"}),), usage=Usage(10, 5))
_KEPT = ModelReply(text="it is kept with all the others", usage=Usage(20, 5))


@tool
async def keep(line: str) -> str:
    """Keeps a line.

    Args:
        line: what to keep
    """
    return f"kept: {line}"


async def install_chronicler(kernel: Kernel, window_messages: int | None = None) -> None:
    """The agent of long conversations: one call a turn, of a toolbox with one tool; a turn is eleven entries."""
    await kernel.add_toolbox(PythonToolbox("archive", [keep]))
    spec = AgentSpec(slug=SLUG, model="scripted", toolboxes=["archive"], window_messages=window_messages)
    await kernel.install(spec, model=ScriptedModel(_reply))


async def long_conversation(kernel: Kernel, entries: int) -> Conversation:
    """A conversation whose log has at least so many entries; the agent has to be installed."""
    conversation = await kernel.start(SLUG)
    while await _length(kernel, conversation.id) < entries:
        await conversation.ask(TEXT)
    return conversation


async def opening_ms(kernel: Kernel, id_: ConversationId, rounds: int) -> list[float]:
    """The wall time of each of several openings; the conversation is idle, and leaves the memory after each."""
    elapsed_ms: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        conversation = await kernel.get(id_)
        loaded = await kernel.logs.get(LogId(conversation.id))
        elapsed_ms.append((time.perf_counter() - begun) * 1_000)
        kernel.logs.unload(loaded)
    return elapsed_ms


async def _length(kernel: Kernel, id_: str) -> int:
    loaded = kernel.ticker.loaded.get(LogId(id_)) or await kernel.logs.get(LogId(id_))
    return loaded.head.row.seq


def _reply(request: ModelRequest) -> ModelReply:
    return _KEEP if request.messages[-1].role is Role.USER else _KEPT


async def measure(url: str, entries: int, window_messages: int | None, rounds: int) -> list[float]:
    """Writes such a conversation into a store, and opens it in another kernel."""
    async with agentos.kernel.open(url) as kernel:
        await install_chronicler(kernel, window_messages)
        conversation = await long_conversation(kernel, entries)
    async with agentos.kernel.open(url) as kernel:
        return await opening_ms(kernel, conversation.id, rounds)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agentos.testing.long_log", description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--window", type=int, default=1_000, help="window_messages; 0 for none")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--store", help="a URL; by default SQLite in a temporary folder")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="agentos-long-") as folder:
        url = options.store or f"sqlite:///{Path(folder) / 'long.db'}"
        found = asyncio.run(measure(url, options.entries, options.window or None, options.rounds))
    print(f"{options.entries} entries, window {options.window or 'none'}:", " ".join(f"{ms:.1f}" for ms in found))
    print(f"median {statistics.median(found):.1f} ms, longest {max(found):.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
