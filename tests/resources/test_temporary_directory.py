"""A folder for a while: whose it is, what stays inside, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentos.errors import ResourceClosed
from agentos.resources.folders import below
from agentos.resources.folders.below import PathRefused
from agentos.resources.folders.emptying import GONE_PREFIX
from agentos.resources.kinds.tempdir import TempDir, temporary_directory
from agentos.resources.scope import Level, Scope

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")


def write(folder: TempDir, path: str, text: str = "x") -> None:
    with folder.create(path) as file:
        file.write(text.encode())


def read(folder: TempDir, path: str) -> str:
    with folder.read(path) as file:
        return file.read().decode()


async def test_it_is_its_owners_alone_and_gone_with_its_scope() -> None:
    before = os.umask(0)
    try:
        folder = TempDir()
        write(folder, "a/b/c.txt", "kept")
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE(os.stat(path).st_mode) for path in (folder.path, folder.path / "a", folder.path / "a/b/c.txt")
    ]
    text = read(folder, "a/b/c.txt")
    scope = Scope(Level.PROGRAM, "program")
    scope.push("folder", folder.close)
    await scope.close()

    assert modes == [0o700, 0o700, 0o600]
    assert text == "kept"
    assert not folder.path.exists()


@pytest.mark.parametrize(
    "path", ["", "..", "../x", "a/../../x", "/etc/hostname", "a\0b", ".", "link/x", "link", "file/x", "pipe", "folder"]
)
async def test_no_path_leads_outside_or_to_what_is_no_file(path: str, tmp_path: Path) -> None:
    folder = TempDir()
    (tmp_path / "x").write_text("secret")
    (folder.path / "link").symlink_to(tmp_path)
    (folder.path / "folder").mkdir()
    os.mkfifo(folder.path / "pipe")
    write(folder, "file")

    with pytest.raises((PathRefused, IsADirectoryError)):
        folder.read(path).close()
    with pytest.raises((PathRefused, FileExistsError)):
        folder.create(path).close()
    await folder.close()

    assert (tmp_path / "x").read_text() == "secret"


async def test_a_mount_in_it_is_a_way_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by its number, without the right to mount."""
    folder = TempDir()
    write(folder, "mounted/file")
    there, mount_of = os.stat(folder.path / "mounted").st_ino, below.mount_of

    def told(descriptor: int) -> below.Mount:
        own = mount_of(descriptor)
        return (own[0], b"mnt_id: another") if os.fstat(descriptor).st_ino == there else own

    with monkeypatch.context() as patch:
        patch.setattr(below, "mount_of", told)
        for work in (lambda: read(folder, "mounted/file"), lambda: write(folder, "mounted/new")):
            with pytest.raises(PathRefused, match="another file system is mounted there"):
                work()
    left = os.listdir(folder.path / "mounted")
    await folder.close()

    assert left == ["file"]


async def test_a_file_is_made_once_and_a_closed_folder_makes_none() -> None:
    folder = TempDir()
    write(folder, "a")
    with pytest.raises(FileExistsError):
        folder.create("a")
    await folder.close()
    await folder.close()

    with pytest.raises(ResourceClosed):
        folder.read("a")


def read_only_tree(folder: Path) -> None:
    """Folders that their owner may not list, enter or write to, with files that nobody may read."""
    for mode in (0o000, 0o100, 0o400, 0o500):
        inner = folder / f"{mode:o}" / "inner"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        (inner / "file").chmod(0o000)
        inner.chmod(mode)
        inner.parent.chmod(mode)


async def test_what_was_made_read_only_goes_too() -> None:
    folder = TempDir()
    read_only_tree(folder.path)
    folder.path.chmod(0o500)
    await folder.close()

    assert not folder.path.exists()


async def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    os.chmod(tmp_path, 0o755)
    folder = TempDir()
    (folder.path / "to folder").symlink_to(tmp_path)
    (folder.path / "to file").symlink_to(tmp_path / "kept")
    (folder.path / "to nothing").symlink_to("nowhere")
    os.link(tmp_path / "kept", folder.path / "hard")
    await folder.close()

    assert (tmp_path / "kept").read_text() == "kept"
    assert stat.S_IMODE(os.stat(tmp_path).st_mode) == 0o755
    assert not folder.path.exists()


async def test_a_tree_of_any_depth_goes() -> None:
    folder = TempDir()
    descriptor = os.open(folder.path, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("deep", dir_fd=descriptor)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
        descriptor, above = os.open("deep", os.O_RDONLY, dir_fd=descriptor), descriptor
        os.close(above)
    os.close(descriptor)
    await folder.close()

    assert not folder.path.exists()


async def test_names_that_it_would_itself_give_and_odd_ones_go() -> None:
    folder = TempDir()
    for name in (f"{GONE_PREFIX}0", f"{GONE_PREFIX}1", "-rf", "a\nb", "ä", os.fsdecode(b"\xff\xfe")):
        (folder.path / name / "inner").mkdir(parents=True)
    await folder.close()

    assert not folder.path.exists()


async def test_one_that_was_moved_is_emptied_and_what_stands_in_its_place_stays(tmp_path: Path) -> None:
    folder = TempDir(tmp_path)
    write(folder, "a/b")
    moved = tmp_path / "moved"
    folder.path.rename(moved)
    folder.path.mkdir()
    (folder.path / "another").write_text("kept")
    await folder.close()

    assert (folder.path / "another").read_text() == "kept"
    assert list(moved.iterdir()) == []


async def test_one_that_was_removed_by_others_is_no_error() -> None:
    folder = TempDir()
    folder.path.rmdir()
    await folder.close()

    assert not folder.path.exists()


async def test_a_folder_that_goes_on_being_filled_ends_with_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever fills it is quicker than we are: each look finds another file."""
    folder = TempDir()
    descriptors, number = [folder._folder._descriptor], 0
    listed = os.listdir

    def refilled(where: int | str) -> list[str]:
        nonlocal number
        if where in descriptors:
            number += 1
            (folder.path / f"file {number}").touch()
        return listed(where)

    with monkeypatch.context() as patch:
        patch.setattr("agentos.resources.folders.emptying.os.listdir", refilled)
        with pytest.raises(OSError, match="something goes on filling the folder") as refused:
            await folder.close()
    for file in folder.path.iterdir():
        file.unlink()
    folder.path.rmdir()

    assert refused.value.filename == str(folder.path)


async def test_what_cannot_be_removed_keeps_nothing_else_from_going(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even root removes a mount, or a file that is immutable."""
    folder = TempDir()
    for path in ("deep/er/stays", "deep/er/goes", "another/goes", "goes"):
        write(folder, path)
    unlink = os.unlink

    def refused(name: str, **where: int) -> None:
        if name == "stays":
            raise PermissionError(errno.EPERM, "Operation not permitted", name)
        unlink(name, **where)

    with monkeypatch.context() as patch:
        patch.setattr("agentos.resources.folders.emptying.os.unlink", refused)
        with pytest.raises(OSError, match=r"Operation not permitted \(1 of them left\)") as told:
            await folder.close()
    left = [path for path in folder.path.rglob("*") if path.is_file()]
    shutil.rmtree(folder.path)

    assert left == [folder.path / "deep/er/stays"]
    assert told.value.filename == str(folder.path)


async def test_a_folder_that_is_filled_while_it_is_emptied_goes_all_the_same() -> None:
    folder = TempDir()
    for number in range(200):
        write(folder, f"{number}/file")
    done = threading.Event()

    def fill() -> None:
        for number in range(300):
            try:
                (folder.path / f"more {number}").mkdir()
                (folder.path / f"more {number}" / "file").touch()
            except FileNotFoundError:
                break
        done.set()

    thread = threading.Thread(target=fill)
    thread.start()
    await folder.close()
    await asyncio.to_thread(done.wait)
    thread.join()

    assert not folder.path.exists()


async def test_a_close_that_is_cancelled_by_its_scope_still_removes_it() -> None:
    folder = TempDir()
    for number in range(50):
        write(folder, f"{number}/file")
    scope = Scope(Level.PROGRAM, "program")
    scope.push("folder", folder.close)
    closing = asyncio.create_task(scope.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])

    assert closing.cancelled()
    assert not folder.path.exists()


async def test_as_a_resource_it_tells_its_path() -> None:
    factory = temporary_directory(prefix="mine-")
    folder = await factory.make()
    assert factory.takes is not None
    assert factory.close is not None
    assert factory.check is not None
    takes, sound = factory.takes(folder), factory.check(folder)
    await folder.close()

    assert (takes.path, takes.pid) == (str(folder.path), None)
    assert folder.path.name.startswith("mine-")
    assert (sound, factory.check(folder)) == (True, False)


PLAIN_USER = """
import asyncio, os, sys
import anyio
from pathlib import Path
from agentos.resources.kinds.tempdir import TempDir
from tests.resources.test_temporary_directory import read_only_tree
asyncio.run(anyio.sleep(0))  # what is imported late may stand in a folder that is closed to others
os.setgid(65534)
os.setuid(65534)
folder = TempDir(Path(sys.argv[1]))
read_only_tree(folder.path)
asyncio.run(folder.close())
print(folder.path.exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here runs as a plain user then")
def test_a_plain_user_removes_what_was_made_read_only(tmp_path: Path) -> None:
    """Root may do anything; so this one goes on as somebody else."""
    place = Path(os.sep, "tmp") / f"agentos-plain-{os.getpid()}"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    try:
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", PLAIN_USER, str(place)], cwd=root, capture_output=True, text=True, check=False
        )
    finally:
        place.rmdir()

    assert (done.stdout, done.stderr) == ("False\n", "")
