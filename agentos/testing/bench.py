"""`make bench`: what the road costs, as ratios against bare loops that do the same work, in one interleaved run.

Each figure is the median over rounds of ours / bare, both measured in the same round: single times say nothing on a busy
machine. CPU time of the process, so that the work of other processes does not count as ours.

    memory   a turn (input, reply with one call, async tool, final reply; no latency) against a bare asyncio loop
    durable  the same on SQLite `normal` against a bare loop that commits one sqlite3 row a step
    fan-out  1,000 durable conversations x 3 turns at once against a bare loop with one commit for all that is ready
    flat     turn 1,000 of a conversation against turn 10, in CPU and in bytes stored
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import agentos.kernel
from agentos.definitions import AgentSpec
from agentos.events.model import ModelReply, ModelRequest, Role, ToolCall, Usage
from agentos.kernel import Conversation, Kernel
from agentos.models.scripted import ScriptedModel
from agentos.toolboxes.python import PythonToolbox, tool

TEXT = "please note hello"
CALL = ModelReply(calls=(ToolCall("note", {"text": "hello world"}),), usage=Usage(10, 5))
DONE = ModelReply(text="done", usage=Usage(20, 5))
BOUNDS = {"memory": 20.0, "durable": 6.0, "fan-out": 4.0, "flat cpu": 1.2, "flat bytes": 1.2}

Keep = Callable[[int, str, object], Awaitable[None] | None]
"""Told the place of a step in its conversation, the role and what was said; may have it wait."""
Bench = Callable[[Path], Coroutine[Any, Any, dict[str, tuple[float, float]]]]
"""Measures in a folder; gives for each figure ours and the bare one, in the same unit."""


@tool
async def note(text: str) -> str:
    """Keeps a note.

    Args:
        text: what to keep
    """
    return f"ok:{text}"


def reply(request: ModelRequest) -> ModelReply:
    return CALL if request.messages[-1].role is Role.USER else DONE


async def bare_turn(messages: list[tuple[str, object]], keep: Keep) -> None:
    """The same input, reply, call and final reply in a plain loop; keep is told each step."""
    loop = asyncio.get_running_loop()

    async def model() -> ModelReply:
        return CALL if messages[-1][0] == "user" else DONE

    async def add(role: str, value: object) -> None:
        messages.append((role, value))
        waiting = keep(len(messages), role, value)
        if waiting is not None:
            await waiting

    await add("user", TEXT)
    while True:
        answer = await model()
        await add("assistant", answer)
        if not answer.calls:
            return
        for call in answer.calls:
            await add("tool", await loop.create_task(note(**call.arguments)))


async def memory(_folder: Path, turns: int = 600) -> dict[str, tuple[float, float]]:
    async def bare() -> None:
        for _ in range(turns // 10):
            messages: list[tuple[str, object]] = []
            for _ in range(10):
                await bare_turn(messages, lambda *_step: None)

    bare_us = await _cpu_us(bare, turns * 5, repeat=5)
    async with agentos.kernel.open("memory:") as kernel:
        await _prepare(kernel)
        ours_us = await _cpu_us(lambda: _by_tens(kernel, turns), turns)
    return {"memory": (ours_us, bare_us)}


async def durable(folder: Path, turns: int = 300) -> dict[str, tuple[float, float]]:
    database = _bare_database(folder / "bare.db")

    async def bare() -> None:
        for conversation in range(turns // 10):
            messages: list[tuple[str, object]] = []

            def keep(seq: int, role: str, value: object, conversation: int = conversation) -> None:
                database.execute(_INSERT, _row(conversation, seq, role, value))

            for _ in range(10):
                await bare_turn(messages, keep)

    bare_us = await _cpu_us(bare, turns)
    database.close()
    async with agentos.kernel.open(f"sqlite:///{folder / 'ours.db'}") as kernel:
        await _prepare(kernel)
        ours_us = await _cpu_us(lambda: _by_tens(kernel, turns), turns)
    return {"durable": (ours_us, bare_us)}


async def fan_out(folder: Path, conversations: int = 1_000) -> dict[str, tuple[float, float]]:
    database = _bare_database(folder / "bare_fan.db")
    turns = conversations * 3
    bare_us = await _cpu_us(lambda: _bare_fan_out(database, conversations), turns)
    database.close()
    async with agentos.kernel.open(f"sqlite:///{folder / 'ours_fan.db'}") as kernel:
        await _prepare(kernel)
        started = await asyncio.gather(*(kernel.start("bench") for _ in range(conversations)))
        ours_us = await _cpu_us(lambda: _three_turns_each(started), turns)
    return {"fan-out": (ours_us, bare_us)}


async def flat(folder: Path, turns: int = 1_000, window: int = 100) -> dict[str, tuple[float, float]]:
    """The first figure of each pair is about turn 1,000, the second from turn 10 on. The lower quartile of a window
    leaves out turns in which something else ran: a collection of garbage, a checkpoint."""
    path = folder / "flat.db"
    async with agentos.kernel.open(f"sqlite:///{path}") as kernel:
        await _prepare(kernel)
        conversation = await kernel.start("bench")
        cpu: list[float] = []
        for _ in range(turns + window // 2):
            before = time.process_time()
            await conversation.ask(TEXT)
            cpu.append((time.process_time() - before) * 1e6)
        rows = (await kernel.query(_BYTES_OF_TURNS, (conversation.id,))).rows
    sizes = [float(row[0]) for row in rows]
    early, late = slice(9, 9 + window), slice(turns - window // 2, turns + window // 2)
    return {
        "flat cpu": (statistics.quantiles(cpu[late])[0], statistics.quantiles(cpu[early])[0]),
        "flat bytes": (statistics.mean(sizes[late]), statistics.mean(sizes[early])),
    }


_BYTES_OF_TURNS = """
select sum(length(e.head) + 32) from entries e join logs l on l.n = e.n
where l.id = ? and e.turn > 0 and e.kind <> 'snapshot' group by e.turn order by e.turn
"""


async def _prepare(kernel: Kernel) -> None:
    await kernel.add_toolbox(PythonToolbox("bench", [note]))
    spec = AgentSpec(
        slug="bench", announce="benchmark", system_prompt="You take notes.", model="scripted", toolboxes=["bench"]
    )
    await kernel.install(spec, model=ScriptedModel(reply))
    await (await kernel.start("bench")).ask(TEXT)


async def _by_tens(kernel: Kernel, turns: int) -> None:
    for _ in range(turns // 10):
        conversation = await kernel.start("bench")
        for _ in range(10):
            await conversation.ask(TEXT)


async def _three_turns_each(conversations: Sequence[Conversation]) -> None:
    async def three(conversation: Conversation) -> None:
        for _ in range(3):
            await conversation.ask(TEXT)

    await asyncio.gather(*(three(conversation) for conversation in conversations))


async def _bare_fan_out(database: sqlite3.Connection, conversations: int) -> None:
    """Steps of all conversations that are ready at once share one commit, and each waits for it."""
    loop = asyncio.get_running_loop()
    batch: list[tuple[int, int, str, str, int]] = []
    waiting: list[asyncio.Future[None]] = []

    def commit() -> None:
        database.execute("begin immediate")
        database.executemany(_INSERT, batch)
        database.execute("commit")
        batch.clear()
        for future in waiting:
            future.set_result(None)
        waiting.clear()

    def keep(conversation: int, seq: int, role: str, value: object) -> asyncio.Future[None]:
        if not batch:
            loop.call_soon(commit)
        batch.append(_row(conversation, seq, role, value))
        future: asyncio.Future[None] = loop.create_future()
        waiting.append(future)
        return future

    async def three(conversation: int) -> None:
        messages: list[tuple[str, object]] = []
        for _ in range(3):
            await bare_turn(messages, partial(keep, conversation))

    await asyncio.gather(*(three(conversation) for conversation in range(conversations)))


def _bare_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.executescript(
        "pragma journal_mode=wal; pragma synchronous=normal; pragma wal_autocheckpoint=0;"
        "create table steps (conversation int, seq int, role text, body text, at int, primary key (conversation, seq));"
    )
    return database


_INSERT = "insert into steps (conversation, seq, role, body, at) values (?, ?, ?, ?, ?)"


def _row(conversation: int, seq: int, role: str, value: object) -> tuple[int, int, str, str, int]:
    """A step as any such program would keep it: found by conversation and place, with its content as JSON."""
    if isinstance(value, ModelReply):
        content: object = {
            "text": value.text,
            "calls": [{"name": c.name, "arguments": c.arguments} for c in value.calls],
        }
    else:
        content = value
    return conversation, seq, role, json.dumps(content), time.time_ns()


async def _cpu_us(work: Callable[[], Coroutine[Any, Any, None]], turns: int, repeat: int = 1) -> float:
    """CPU microseconds a turn."""
    gc.collect()
    before = time.process_time()
    for _ in range(repeat):
        await work()
    return (time.process_time() - before) / turns * 1e6


def run(rounds: int, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Every benchmark in turn, round by round."""
    figures: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for name in names:
            if name == "flat" and number >= 2:
                continue
            with tempfile.TemporaryDirectory(prefix="agentos-bench-") as folder:
                for figure, pair in asyncio.run(_BENCHES[name](Path(folder))).items():
                    figures.setdefault(figure, []).append(pair)
    return figures


_BENCHES: dict[str, Bench] = {"memory": memory, "durable": durable, "fan-out": fan_out, "flat": flat}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agentos.testing.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bound is missed")
    parser.add_argument("names", nargs="*", choices=[*_BENCHES, []], help="all when none is named")
    options = parser.parse_args(argv)
    figures = run(options.rounds, options.names or list(_BENCHES))
    print(f"{'figure':12} {'ours':>10} {'bare':>10} {'ratio':>7} {'bound':>7}")
    missed = 0
    for figure, pairs in figures.items():
        ours, bare = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(mine / its for mine, its in pairs)
        missed += ratio > BOUNDS[figure]
        verdict = "" if ratio <= BOUNDS[figure] else "  missed"
        print(f"{figure:12} {ours:10.1f} {bare:10.1f} {ratio:7.2f} {BOUNDS[figure]:7.1f}{verdict}")
    print("ours and bare: CPU microseconds a turn (flat: turn 1,000 and turn 10; bytes of heads and digests)")
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
