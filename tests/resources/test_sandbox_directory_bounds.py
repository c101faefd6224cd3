"""Bounds of a directory hold whatever is done to what is counted, and when the machine has nothing left to count with."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import FolderLimitReached
from agentos.resources.folders import below, held
from agentos.resources.folders.below import PATH_CHARS_MAX, PathRefused
from agentos.resources.folders.held import HeldFolder
from agentos.resources.folders.measuring import Usage
from agentos.resources.kinds.sandbox import SandboxDirectory, SandboxLimits
from agentos.resources.kinds.tempdir import TempDir

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")
DEEP = "/".join(["d"] * 90)


def made(**limits: int) -> SandboxDirectory:
    return SandboxDirectory(HeldFolder.new(), SandboxLimits(**limits))


async def test_what_is_moved_deeper_than_any_path_leads_is_no_room() -> None:
    box = made(bytes_max=10, files_max=1_000)
    box.write(f"{DEEP}/f", b"123456789")
    box.make_folder(f"e/{DEEP}")
    box.rename("d", f"e/{DEEP}/d")
    with pytest.raises(FolderLimitReached):
        box.write("more", b"12")
    with pytest.raises(FolderLimitReached):
        box.write("and more", b"12")
    box.remove("e", tree=True)
    box.write("room again", b"1234567890")
    usage = box.usage
    await box.close()

    assert usage == Usage(10, 1)


async def test_where_others_put_in_more_than_is_counted_no_file_grows() -> None:
    """Nobody knows how many bytes there are."""
    box = made(bytes_max=1_000, files_max=5)
    box.write("mine", b"")
    for number in range(20):
        (box.path / f"{number}").touch()
    box.measure()
    with box.open("mine", "a") as file, pytest.raises(FolderLimitReached, match=r"over 5 \(files_max\)"):
        file.write(b"1")
    box.write("mine", b"")
    for number in range(20):
        box.remove(f"{number}")
    box.write("mine", b"1")
    await box.close()


@pytest.mark.parametrize("how", ["removed", "replaced by a rename", "replaced by a write", "in a tree"])
async def test_files_that_lose_their_names_while_they_are_open_take_room_until_they_are_closed(how: str) -> None:
    box = made(bytes_max=10)
    box.write("another", b"")
    file = box.open("folder/f", "w")
    file.write(b"1234567")
    again = box.open("folder/f")
    match how:
        case "removed":
            box.remove("folder/f")
        case "replaced by a rename":
            box.rename("another", "folder/f")
        case "replaced by a write":
            box.write("folder/f", b"")
        case _:
            box.remove("folder", tree=True)
    with pytest.raises(FolderLimitReached, match="it would hold 11 bytes"):
        box.write("g", b"1234")
    with pytest.raises(FolderLimitReached, match="it would hold 11 bytes"):
        file.write(b"8901")
    file.write(b"890")
    file.truncate(5)
    file.truncate(6)
    file.truncate(10)
    usages = box.usage, box.measure()
    file.close()
    again.close()
    box.write("g", b"1234567890")
    await box.close()

    assert usages[0] == usages[1]


async def test_a_file_that_is_open_is_replaced_only_where_there_is_room_for_both() -> None:
    box = made(bytes_max=10)
    box.write("f", b"123456")
    with box.open("f"):
        with pytest.raises(FolderLimitReached, match="it would hold 11 bytes"):
            box.write("f", b"12345")
        box.write("f", b"1234")
        usage = box.usage
    box.write("f", b"1234567890")
    usages = usage, box.usage, box.measure()
    await box.close()

    assert usages == (Usage(4, 1), Usage(10, 1), Usage(10, 1))


async def test_what_may_be_listed_and_not_looked_at_counts_as_empty() -> None:
    """Root may look at everything."""
    box = made()
    box.write("listed/f", b"1234")
    box.write("g", b"1")
    (box.path / "listed").chmod(0o400)
    usage = box.measure()
    await box.close()

    assert usage == Usage(5 if os.geteuid() == 0 else 1, 3)


async def test_a_folder_that_no_descriptor_is_left_for_is_not_counted_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    box = made(bytes_max=10)
    box.write("folder/f", b"12345678")
    opened = os.open

    def none_left(path: str, *how: int, **where: int) -> int:
        if path == "folder":
            raise OSError(errno.EMFILE, "Too many open files", path)
        return opened(path, *how, **where)

    with monkeypatch.context() as patch:
        patch.setattr("agentos.resources.folders.measuring.os.open", none_left)
        with pytest.raises(OSError, match="Too many open files"):
            box.write("g", b"123")
    left, usage = [entry.name for entry in box.list()], box.measure()
    await box.close()

    assert (left, usage) == (["folder"], Usage(8, 2))


async def test_a_folder_whose_mount_cannot_be_asked_for_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def none_left(descriptor: int) -> below.Mount:
        asked.append(descriptor)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(held, "mount_of", none_left)
        for making in (HeldFolder.given, HeldFolder.new):
            with pytest.raises(OSError, match="Too many open files"):
                making(tmp_path)

    assert len(asked) == 2
    for descriptor in asked:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    assert os.listdir(tmp_path) == []


async def test_a_process_that_is_told_no_mounts_has_directories_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As older kernels do with one that has given up the rights of root."""

    def closed(path: str, *how: Any, **more: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(below, "open", closed, raising=False)
    box = made()
    box.write("a/f", b"1")
    found, usage = box.read("a/f"), box.measure()
    await box.close()

    assert (found, usage) == (b"1", Usage(1, 2))


async def test_a_machine_without_a_thread_left_still_removes_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    folder, box = TempDir(), made()
    box.write("a/f", b"1")
    file = box.open("a/f")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        await folder.close()
        await box.close()

    assert file.closed
    assert not folder.path.exists()
    assert not box.path.exists()


@pytest.mark.parametrize("part", ["../", "a/", "a"])
async def test_a_path_of_any_length_is_refused_in_a_few_words(part: str) -> None:
    box = made()
    with pytest.raises(PathRefused, match=f"it has over {PATH_CHARS_MAX:,} characters") as refused:
        box.write(part * 1_000_000, b"")
    await box.close()

    assert len(str(refused.value)) < 300


async def test_a_rename_that_the_system_refuses_names_the_target_alone() -> None:
    box = made()
    box.write("folder/inner/f", b"")
    box.write("file", b"")
    with pytest.raises(IsADirectoryError) as refused:
        box.rename("file", "folder/inner")
    await box.close()

    assert str(refused.value).endswith("Is a directory: 'folder/inner'")
