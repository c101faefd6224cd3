"""The loops that a turn is compared with: what is left when nothing is recorded but the messages."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from agentos.events.model import ModelReply
from agentos.testing.bench.turns import TINY, note

Keep = Callable[[int, str, object], Awaitable[None] | None]
"""Told the place of a step in its conversation, the role and what was said; may have it wait."""

_ASKS, _ENDS = TINY.asks, TINY.ends


async def bare_turn(messages: list[tuple[str, object]], keep: Keep) -> None:
    """The same input, reply, call and final reply in a plain loop; keep is told each step."""
    loop = asyncio.get_running_loop()

    async def model() -> ModelReply:
        return _ASKS if messages[-1][0] == "user" else _ENDS

    async def add(role: str, value: object) -> None:
        messages.append((role, value))
        waiting = keep(len(messages), role, value)
        if waiting is not None:
            await waiting

    await add("user", TINY.text)
    while True:
        answer = await model()
        await add("assistant", answer)
        if not answer.calls:
            return
        for call in answer.calls:
            await add("tool", await loop.create_task(note(**call.arguments)))


async def bare_turns(turns: int, database: sqlite3.Connection | None = None) -> None:
    """Ten in each conversation; with a database, each step is a row and a commit."""
    for conversation in range(turns // 10):
        messages: list[tuple[str, object]] = []

        def keep(seq: int, role: str, value: object, conversation: int = conversation) -> None:
            if database is not None:
                database.execute(_INSERT, _row(conversation, seq, role, value))

        for _ in range(10):
            await bare_turn(messages, keep)


async def bare_fan_out(database: sqlite3.Connection, conversations: int, turns: int) -> None:
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

    async def all_of(conversation: int) -> None:
        messages: list[tuple[str, object]] = []
        for _ in range(turns):
            await bare_turn(messages, partial(keep, conversation))

    await asyncio.gather(*(all_of(conversation) for conversation in range(conversations)))


def bare_database(path: Path) -> sqlite3.Connection:
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
