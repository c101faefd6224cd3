"""What an import costs goes with what is in the bundle, also when that is many conversations."""

from __future__ import annotations

from pathlib import Path

from agentos.history.bundle import BundleReader, arrival, export_bundle, import_bundle
from agentos.history.sessions import import_session
from agentos.history.sessions.model import ModelTurn, Session, UserTurn
from agentos.persistence.memory import MemoryStore
from tests.steps import Steps

SMALL, LARGE = 10, 80
"""How many conversations two bundles have."""


async def bundle_of_many(path: Path, count: int) -> Path:
    """Of so many conversations of one turn each."""
    store = MemoryStore()
    writer = await store.open("it")
    for n in range(count):
        turns = (UserTurn(query=f"question {n}"), ModelTurn(text=f"answer {n}"))
        await import_session(store, writer, Session(id=f"session {n}", turns=turns), "helper")
    await export_bundle(store, path)
    await store.close()
    return path


async def steps_of_import(path: Path) -> int:
    store = MemoryStore()
    with BundleReader(path) as bundle, Steps(arrival).counted() as steps:
        arrived = await import_bundle(store, bundle)
    await store.close()
    assert len(arrived.conversations) == len(bundle.manifest.logs)
    return steps.count


async def test_no_conversation_of_a_bundle_costs_more_because_there_are_others(tmp_path: Path) -> None:
    small = await steps_of_import(await bundle_of_many(tmp_path / "small.zip", SMALL))
    large = await steps_of_import(await bundle_of_many(tmp_path / "large.zip", LARGE))

    assert small > SMALL
    assert large / LARGE < 1.5 * small / SMALL
