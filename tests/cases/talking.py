"""A process that talks to one conversation, which others talk to as well; run by the tests of two processes.

    python -m tests.cases.talking URL NAME

It begins the conversation, or finds it begun, and tells its id and its writer. Then each line on stdin is a number of sends
with keys (the same in every process) and as many asks, all at once; what became of each is told in one line. At the end of
stdin the kernel is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentos.components import ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.kernel import Kernel
from agentos.models.scripted import ScriptedModel
from agentos.settings import Settings
from agentos.toolboxes.python import PythonToolbox, tool

KEY = "the one"
SCRIPT = [
    {"when": {"last_role": "tool"}, "text": "done"},
    {"when": {}, "calls": [{"tool": "work", "arguments": {}}]},
]


@tool
async def work() -> str:
    """Takes a moment."""
    await asyncio.sleep(0.002)
    return "worked"


def say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def told(answer: Any) -> Any:
    """A seq, the outcome of a turn, or what it was refused with."""
    if isinstance(answer, int):
        return answer
    if isinstance(answer, BaseException):
        return f"{type(answer).__name__}: {answer}"
    return str(answer)


async def main(url: str, name: str) -> None:
    async with Kernel(url, settings=Settings(inbox_poll_ms=20)) as kernel:
        await kernel.add_toolbox(PythonToolbox("box", [work], ToolboxSharing.EXCLUSIVE))
        model = ScriptedModel(SCRIPT, kernel.clock)
        await kernel.install(AgentSpec(slug="main", toolboxes=["box"]), model=model)
        conversation = await kernel.start("main", key=KEY)
        say(id=conversation.id, writer=kernel.ticker.writer)
        while line := await asyncio.to_thread(sys.stdin.readline):
            first, count = json.loads(line)
            numbers = range(first, first + count)
            sends = [conversation.send(f"{name} sends {n}", key=f"key {n}") for n in numbers]
            asks = [conversation.ask(f"{name} asks {n}") for n in numbers]
            answers = await asyncio.gather(*sends, *asks, return_exceptions=True)
            say(sends=[told(answer) for answer in answers[:count]], asks=[told(answer) for answer in answers[count:]])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
