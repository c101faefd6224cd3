"""A bundle cannot hang its conversations below those of a store, nor take these for its own children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.errors import ImportRefused
from agentos.history.bundle import BundleReader, export_bundle, import_bundle
from agentos.history.bundle.kinship import Kinship
from agentos.ids import log_and_seq
from agentos.persistence.base import LogRow, Store
from agentos.persistence.memory import MemoryStore
from tests.bundle.archive_support import OneId, forged, manifest_of, reheaded
from tests.history.copy_support import Left, again
from tests.history.support import Desk, office

OTHER = "conversation_00000000000000000000000000"


@pytest.fixture
async def child(left: Left, tmp_path: Path) -> Path:
    """A bundle of a subagent's conversation alone."""
    source = again(left.store)
    row = await a_child(source, left.settled)
    await export_bundle(source, tmp_path / "child.zip", conversation=row.id)
    await source.close()
    return tmp_path / "child.zip"


async def a_child(store: Store, parent: str) -> LogRow:
    rows = await store.logs("conversation")
    return next(row for row in rows if row.parent_call and log_and_seq(row.parent_call)[0] == parent)


async def begin(store: Store, log: str) -> None:
    """A conversation of somebody else under this id."""
    async with office(store, Desk(), ids=OneId(log)) as kernel:
        await (await kernel.start("clerk")).ask("something of mine")


async def refused(store: Store, path: Path, reason: str) -> None:
    before = await store.logs()
    with BundleReader(path) as bundle, pytest.raises(ImportRefused, match=reason):
        await import_bundle(store, bundle)
    assert await store.logs() == before


async def test_a_child_comes_in_by_itself_where_nobody_knows_its_parent(child: Path, store: MemoryStore) -> None:
    with BundleReader(child) as bundle:
        arrived = await import_bundle(store, bundle)

    assert [log.place for log in arrived.conversations] == ["new"]


async def test_a_child_comes_in_where_its_parent_is_there(
    child: Path, bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    with BundleReader(bundles / "talk.zip") as bundle:
        await import_bundle(store, bundle)

    with BundleReader(child) as bundle:
        arrived = await import_bundle(store, bundle)

    assert [log.place for log in arrived.conversations] == ["there"]


async def test_a_child_that_the_parent_of_the_store_never_began_is_refused(
    child: Path, left: Left, store: MemoryStore
) -> None:
    await begin(store, left.settled)

    await refused(store, child, f"began it, of which {left.settled} knows nothing")


async def test_a_conversation_that_no_call_began_is_its_own_root(
    bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """Else it would be listed below another, and erased with it."""
    path = reheaded(
        bundles / "talk.zip",
        tmp_path / "root.zip",
        left.settled,
        lambda head: head.replace(f'"root":"{left.settled}"', f'"root":"{OTHER}"'),
        lambda part: part.update(root=OTHER),
    )

    await refused(store, path, f"{left.settled}: no call began it, and yet it says that its root is {OTHER}")


async def test_a_fork_is_its_own_root(bundles: Path, left: Left, tmp_path: Path, store: MemoryStore) -> None:
    def say(manifest: dict[str, Any]) -> None:
        (part,) = [one for one in manifest["logs"] if one["id"] == left.forked]
        part["root"] = left.settled

    path = forged(bundles / "fork.zip", tmp_path / "fork.zip", lambda _: None, say)

    await refused(store, path, f"{left.forked}: no call began it")


async def test_a_child_of_nobody_cannot_hang_below_a_conversation_of_the_store(
    child: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    await begin(store, left.settled)
    (part,) = manifest_of(child).logs
    assert part.parent_call is not None
    call, nobody = part.parent_call, part.parent_call.replace(left.settled.partition("_")[2], "0" * 26)
    path = reheaded(
        child,
        tmp_path / "hung.zip",
        part.id,
        lambda head: head.replace(call, nobody),
        lambda one: one.update(parent_call=nobody),
    )

    await refused(store, path, f"hangs below {left.settled} by {OTHER}, which is neither in it nor in the store")


async def test_a_parent_cannot_take_a_conversation_of_the_store_for_its_child(
    left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """Else whoever cancels the one would cancel the other."""
    source = again(left.store)
    row = await a_child(source, left.running)
    await export_bundle(source, tmp_path / "running.zip", conversation=left.running)
    await source.close()
    await begin(store, OTHER)
    path = reheaded(
        tmp_path / "running.zip", tmp_path / "takes.zip", left.running, lambda head: head.replace(row.id, OTHER)
    )

    await refused(store, path, f"{left.running} says that it began {OTHER}, which answers to no call")


async def test_a_child_cannot_hide_behind_a_part_of_a_parent_that_the_store_has_whole(
    bundles: Path, left: Left, tmp_path: Path, store: MemoryStore
) -> None:
    """fork.zip has a part of its parent, and a child that was begun in it: here by a call that stands behind that part."""
    with BundleReader(bundles / "talk.zip") as bundle:
        await import_bundle(store, bundle)
    parent = next(part for part in manifest_of(bundles / "fork.zip").logs if part.id == left.settled)
    child = next(part for part in manifest_of(bundles / "fork.zip").logs if part.parent_call)
    assert parent.prefix
    assert child.parent_call is not None
    other, call = child.id[:-8] + "0" * 8, f"{child.parent_call.rpartition('_')[0]}_9999"
    hung = msgspec.structs.replace(child, id=other, parent_call=call)
    parts = {part.id: part for part in (*manifest_of(bundles / "fork.zip").logs, hung)}
    nowhere = MemoryStore()

    await Kinship(nowhere, "it", parts).check(hung, ())
    with pytest.raises(
        ImportRefused, match=f"{other} says that {call} began it, of which {left.settled} knows nothing"
    ):
        await Kinship(store, "it", parts).check(hung, ())

    await nowhere.close()
