"""A bundle is of one moment, whatever is written meanwhile; and what cannot be exported leaves no file."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ExportRefused, StoreDamaged, UnknownConversation
from agentos.history import copy_store
from agentos.history.bundle import BundleLimits, export_bundle
from agentos.history.reading import PAGE_ENTRIES
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from tests.bundle.archive_support import checked, manifest_of, members_of
from tests.history.copy_support import Left, again
from tests.history.support import Desk, office

CANARY = "canary-4711"


class _Busy(MemoryStore):
    """A store to which somebody writes while it is read, and which counts how much one read gives."""

    largest = 0
    kernel: Any = None

    async def entries(self, log: str, after: int = 0, *args: Any, **options: Any) -> Any:
        if self.kernel is not None:
            kernel, self.kernel = self.kernel, None
            await (await kernel.get(log)).ask("note text=later")
            self.kernel = kernel
        found = await super().entries(log, after, *args, **options)
        if self.kernel is not None:
            self.largest = max(self.largest, len(found))
        return found


async def test_a_bundle_is_of_one_moment_with_a_kernel_at_work_and_reads_are_short(tmp_path: Path) -> None:
    store = _Busy()
    async with office(store, Desk()) as kernel:
        talks = [await kernel.start("aide") for _ in range(3)]
        for talk in talks:
            for n in range(2 if talk is not talks[0] else 130):
                await talk.ask(f"note text={n}")
        before = {str(row.id): (row.seq, row.digest.hex()) for row in await store.logs()}
        store.kernel = _Conversations(kernel, [talk.id for talk in talks])
        exported = await export_bundle(store, tmp_path / "all.zip")
        store.kernel = None
        after = {str(row.id): row.seq for row in await store.logs()}

    assert {log.id: (log.seq, log.digest) for log in exported.manifest.logs} == before
    assert all(after[talk.id] > before[talk.id][0] for talk in talks)
    assert max(seq for seq, _ in before.values()) > PAGE_ENTRIES >= store.largest
    assert checked(tmp_path / "all.zip").ok


async def test_a_living_kernel_and_an_export_of_its_file_do_not_hinder_each_other(tmp_path: Path) -> None:
    kept = SQLiteStore(str(tmp_path / "store.db"))
    async with office(kept, Desk()) as kernel:
        talk = await kernel.start("clerk")
        await talk.ask("note text=a")
        beside = again(kept)
        for n in range(3):
            await export_bundle(beside, tmp_path / f"{n}.zip", conversation=talk.id)
            await talk.ask("note text=b")
        await beside.close()
    seqs = [log.seq for n in range(3) for log in manifest_of(tmp_path / f"{n}.zip").logs]

    assert seqs == sorted(set(seqs))
    assert all(checked(tmp_path / f"{n}.zip").ok for n in range(3))


class _Conversations:
    """The conversations of a kernel alone: agents and toolboxes are not talked to."""

    def __init__(self, kernel: Any, ids: Sequence[str]) -> None:
        self._kernel, self._ids = kernel, ids

    async def get(self, log: str) -> Any:
        return await self._kernel.get(log if log in self._ids else self._ids[0])


class _Erasing(MemoryStore):
    """A store in which a conversation is erased while it is read, as often as it is said."""

    kernel: Any = None
    waiting: list[str] = []

    async def entries(self, log: str, *args: Any, **options: Any) -> Any:
        if self.kernel is not None and self.waiting:
            kernel, self.kernel = self.kernel, None
            await kernel.erase(self.waiting.pop())
            self.kernel = kernel
        return await super().entries(log, *args, **options)


async def test_what_is_erased_while_it_is_exported_is_not_in_the_bundle_and_no_damage(tmp_path: Path) -> None:
    store = _Erasing()
    async with office(store, Desk()) as kernel:
        talks = [await kernel.start("aide") for _ in range(2)]
        for talk in talks:
            await talk.ask(f"note text={CANARY}")
        store.waiting, store.kernel = [talk.id for talk in talks], kernel
        exported = await export_bundle(store, tmp_path / "all.zip")
        store.kernel = None

    assert exported.erased == 2
    assert checked(tmp_path / "all.zip").ok
    assert not [body for body in members_of(tmp_path / "all.zip").values() if CANARY.encode() in body]


async def test_what_was_edited_does_not_go_out_and_no_file_is_left(left: Left, tmp_path: Path) -> None:
    memory, source = MemoryStore(), again(left.store)
    await copy_store(source, memory)
    await source.close()
    store = _Edited(beside=memory)
    with pytest.raises(StoreDamaged, match=r"seq 2: messages\.text") as damaged:
        await export_bundle(store, tmp_path / "all.zip")

    assert "note" not in str(damaged.value)
    assert not os.listdir(tmp_path)


class _Edited(MemoryStore):
    """A store in which one text was edited."""

    async def entries(self, log: str, *args: Any, **options: Any) -> Any:
        found = await super().entries(log, *args, **options)
        for entry in found:
            if entry.kind == "input.received":
                entry.payloads = [(i, name, salt, "other") for i, name, salt, _ in entry.payloads]
        return found


async def test_nothing_is_written_over_unless_it_is_said(left: Left, bundles: Path, tmp_path: Path) -> None:
    path = tmp_path / "talk.zip"
    path.write_text("mine")
    (tmp_path / "link.zip").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    store = again(left.store)
    with pytest.raises(ExportRefused, match="it is a device, a pipe or a socket"):
        await export_bundle(store, tmp_path / "pipe", conversation=left.settled, force=True)
    for taken in (path, tmp_path / "link.zip"):
        with pytest.raises(ExportRefused, match="--force"):
            await export_bundle(store, taken, conversation=left.settled)
    kept = path.read_text()
    await export_bundle(store, path, conversation=left.settled, force=True)
    with pytest.raises(FileNotFoundError):
        await export_bundle(store, tmp_path / "nowhere" / "x.zip")
    with pytest.raises(UnknownConversation):
        await export_bundle(store, tmp_path / "other.zip", conversation="conversation_" + "0" * 26)
    await store.close()

    assert kept == "mine"
    assert checked(path).ok
    assert sorted(os.listdir(tmp_path)) == ["link.zip", "pipe", "talk.zip"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    "limits",
    [
        {"bundle_bytes_max": 5_000},
        {"bundle_files_max": 4},
        {"bundle_unpacked_bytes_max": 9_000},
        {"bundle_member_bytes_max": 2_000},
        {"bundle_manifest_bytes_max": 200},
        {"bundle_line_bytes_max": 100},
        {"bundle_log_entries_max": 20},
    ],
    ids=str,
)
async def test_what_no_reader_would_take_is_not_written(left: Left, tmp_path: Path, limits: dict[str, int]) -> None:
    store = again(left.store)
    with pytest.raises(ExportRefused) as refused:
        await export_bundle(store, tmp_path / "all.zip", limits=BundleLimits(**limits))
    await store.close()

    assert next(iter(limits)) in str(refused.value)
    assert not os.listdir(tmp_path)


async def test_a_text_that_packs_like_a_bomb_is_kept_and_read_back(tmp_path: Path) -> None:
    store = MemoryStore()
    async with office(store, Desk()) as kernel:
        talk = await kernel.start("aide")
        await talk.ask("a" * 3_000_000)
        await export_bundle(store, tmp_path / "talk.zip", conversation=talk.id)
    with zipfile.ZipFile(tmp_path / "talk.zip") as archive:
        info = archive.getinfo("logs/00001.jsonl")

    assert info.compress_type == zipfile.ZIP_STORED
    assert info.file_size > 3_000_000
    assert checked(tmp_path / "talk.zip").ok


async def test_a_file_system_without_links_gets_its_bundle_and_keeps_what_is_there(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    store = again(left.store)
    await export_bundle(store, tmp_path / "talk.zip", conversation=left.settled)
    with pytest.raises(ExportRefused, match="--force"):
        await export_bundle(store, tmp_path / "talk.zip", conversation=left.settled)
    await store.close()

    assert checked(tmp_path / "talk.zip").ok
    assert os.listdir(tmp_path) == ["talk.zip"]
