"""Stores of every kind by name, work in them, and what verify names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.history import Report
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from tests.history.support import Desk, office

KINDS = ("memory", "file", "sqlite", "postgresql")
Make = Callable[[str], Store]
"""A new handle on the store of this name, which is made by whoever opens it first."""


def maker(kind: str, request: pytest.FixtureRequest, folder: Path) -> Make:
    kept: dict[str, MemoryStore] = {}
    urls: dict[str, str] = {}

    def make(name: str) -> Store:
        if kind == "memory":
            return MemoryStore(beside=kept.setdefault(name, MemoryStore()))
        if name not in urls:
            urls[name] = {
                "file": lambda: f"file:{folder / name}",
                "sqlite": lambda: f"sqlite:///{folder / name}.db",
                "postgresql": lambda: str(request.getfixturevalue("postgres").new_schema_url()),
            }[kind]()
        return open_store(urls[name])

    return make


async def work(store: Store, desk: Desk, said: str, conversation: str | None = None) -> str:
    """One turn of a clerk in this conversation, or in a new one, by a kernel of its own; gives its id."""
    async with office(store, desk) as kernel:
        clerk = await kernel.get(conversation) if conversation is not None else await kernel.start("clerk")
        await clerk.ask(said)
        return str(clerk.id)


def named(report: Report) -> set[tuple[str, str, str]]:
    """log, table and field of each difference."""
    return {(one.log, one.table, one.field) for one in report.differences}
