"""No way leads out of a sandbox directory: by its path, by what stands there, by a swap while it is walked, or by a mount."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agentos.resources.folders import below
from agentos.resources.folders.below import PathRefused
from agentos.resources.folders.entries import FileKind
from agentos.resources.folders.held import HeldFolder
from agentos.resources.kinds.sandbox import SandboxDirectory
from agentos.resources.kinds.sandbox.writing import Mode
from tests.mounting import said_with_mounts

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")
ROOT = Path(__file__).parents[2]
ROUNDS = 300
SECRET = b"secret"
Work = Callable[[SandboxDirectory, str], object]


def _close(box: SandboxDirectory, path: str, mode: Mode) -> None:
    box.open(path, mode).close()


WORKS: dict[str, Work] = {
    "read": SandboxDirectory.read,
    "open to read": lambda box, path: _close(box, path, "r"),
    "open to write": lambda box, path: _close(box, path, "w"),
    "open to append": lambda box, path: _close(box, path, "a"),
    "open to make": lambda box, path: _close(box, path, "x"),
    "write": lambda box, path: box.write(path, b"changed"),
    "list": SandboxDirectory.list,
    "make a folder": SandboxDirectory.make_folder,
    "stat": SandboxDirectory.stat,
    "rename to it": lambda box, path: box.rename("fine", path),
    "rename it": lambda box, path: box.rename(path, "taken"),
    "remove": SandboxDirectory.remove,
    "remove a tree": lambda box, path: box.remove(path, tree=True),
}
OF_NAMES = frozenset({"stat", "rename it", "rename to it", "remove", "remove a tree"})
"""Those that look at a thing, or give it another name, and never open it."""


@pytest.fixture(params=[True, False], ids=["held", "not held"])
def _on_both_roads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a system has no /proc, or no O_PATH, the second road is all there is."""
    monkeypatch.setattr(below, "HAS_DESCRIPTOR_FILES", request.param and below.HAS_DESCRIPTOR_FILES)


@pytest.fixture
async def box(_on_both_roads: None, tmp_path: Path) -> AsyncIterator[SandboxDirectory]:
    """A folder `ws` with ways out of it, beside `outside` and `ws-secret`."""
    for name in ("outside", "ws-secret", "ws"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(SECRET)
    ws = tmp_path / "ws"
    (ws / "fine").write_text("fine")
    (ws / "to-file").symlink_to(tmp_path / "outside/x")
    (ws / "to-folder").symlink_to(tmp_path / "outside")
    (ws / "up").symlink_to("..")
    (ws / "to-self").symlink_to("/proc/self")
    (ws / "loop").symlink_to("loop")
    os.mkfifo(ws / "pipe")
    os.mknod(ws / "socket", stat.S_IFSOCK | 0o600)
    directory = SandboxDirectory(HeldFolder.given(ws))
    try:
        yield directory
    finally:
        await directory.close()
        for name in ("outside", "ws-secret"):
            assert (tmp_path / name / "x").read_bytes() == SECRET
            assert [path.name for path in (tmp_path / name).iterdir()] == ["x"]


OUT = [
    "",
    "..",
    "../ws-secret/x",
    "../ws/fine",
    "sub/../../outside/x",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "fine\0",
    "\0",
    "to-folder/x",
    "to-folder/new",
    "up/ws-secret/x",
    "up/ws/fine",
    "to-self/environ",
    "loop/x",
    "pipe/x",
    "fine/x",
    "\ud800",
    "a/" * 200 + "b",
    "a" * 5_000,
]


@pytest.mark.parametrize("path", OUT, ids=[f"{n}-{ascii(path)[:20]}" for n, path in enumerate(OUT)])
async def test_s04_a_path_that_leads_out_is_refused(box: SandboxDirectory, path: str) -> None:
    for work in WORKS.values():
        with pytest.raises(PathRefused):
            work(box, path)


@pytest.mark.parametrize("path", ["to-file", "to-folder", "up", "to-self", "loop", "pipe", "socket"])
async def test_s04_what_is_no_file_is_told_renamed_or_removed_and_never_opened(
    box: SandboxDirectory, path: str
) -> None:
    before = os.lstat(box.path / path)
    for name in WORKS.keys() - OF_NAMES:
        with pytest.raises((PathRefused, FileExistsError)):
            WORKS[name](box, path)
    box.rename(path, "another name")
    told = box.stat("another name")
    same = os.lstat(box.path / "another name")
    box.remove("another name", tree=True)

    assert told.kind in (FileKind.LINK, FileKind.OTHER)
    assert (before.st_ino, before.st_mode) == (same.st_ino, same.st_mode)
    with pytest.raises(FileNotFoundError):
        box.stat("another name")


@pytest.mark.parametrize("path", ["%2e%2e", "...", " name ", "‥", "~", "C:\\x", "-rf", "a\nb", os.fsdecode(b"\xff")])
async def test_s04_what_only_looks_like_a_way_out_is_a_name(box: SandboxDirectory, path: str) -> None:
    box.write(f"names/{path}", b"text")

    assert box.read(f"names/./{path}") == b"text"
    assert [entry.name for entry in box.list("names")] == [path]


@pytest.mark.usefixtures("_on_both_roads")
async def test_s04_a_device_is_never_opened() -> None:
    """One that is there for everybody: not every user may make one."""
    box = SandboxDirectory(HeldFolder.given(Path(os.devnull).parent))
    for mode in ("r", "w", "a"):
        with pytest.raises(PathRefused, match="'null': it is no regular file"):
            _close(box, "null", mode)
    await box.close()


async def test_a_file_with_a_name_outside_is_never_written(box: SandboxDirectory, tmp_path: Path) -> None:
    os.link(tmp_path / "outside/x", box.path / "hard")
    for mode in ("w", "a"):
        with pytest.raises(PathRefused, match="'hard': it has another name too, which may lie outside"):
            _close(box, "hard", mode)
    box.write("hard", b"put in its place")

    assert box.read("hard") == b"put in its place"


class Swapper:
    """A hostile thread: it swaps things for others, as long as it is in force."""

    def __init__(self, *swaps: Callable[[], None]) -> None:
        self._swaps, self._over = swaps, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0

    def _run(self) -> None:
        while not self._over.is_set():
            for swap in self._swaps:
                with contextlib.suppress(OSError):  # what it swaps is made and removed meanwhile
                    swap()
            self.rounds += 1

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def swap_of(one: Path, other: Path) -> Callable[[], None]:
    """Exchanges what stands at two paths, by a third name beside."""
    third = one.with_name("third")

    def swap() -> None:
        for from_, to in ((one, third), (other, one), (third, other)):
            os.rename(from_, to)

    return swap


async def test_s04_a_folder_that_is_swapped_for_a_link_all_the_time_leads_nowhere(
    box: SandboxDirectory, tmp_path: Path
) -> None:
    (box.path / "a").mkdir()
    (box.path / "a/x").write_bytes(b"inside")
    (box.path / "b").symlink_to(tmp_path / "outside")
    seen: set[bytes] = set()
    done = 0
    works: list[Callable[[], object]] = [
        lambda: seen.add(box.read("a/x")),
        lambda: seen.update(entry.name.encode() for entry in box.list("a") if entry.name != "x"),
        lambda: box.stat("a/new"),
        lambda: box.rename("a/x", "a/y"),
        lambda: box.rename("a/y", "a/x"),
        lambda: box.open("a/x", "a").close(),
        lambda: box.remove("a/none"),
    ]
    with Swapper(swap_of(box.path / "a", box.path / "b")) as swapper:
        while done < ROUNDS or swapper.rounds < ROUNDS:
            for work in works:
                with contextlib.suppress(OSError, PathRefused):
                    work()
            done += 1

    assert seen <= {b"inside", b"", b"y"}, "nothing from outside, and what was made empty when it had another name"


async def test_s04_a_file_that_is_swapped_for_a_link_or_a_pipe_all_the_time_is_never_followed_or_waited_for(
    box: SandboxDirectory, tmp_path: Path
) -> None:
    (box.path / "file").write_bytes(b"inside")
    (box.path / "link").symlink_to(tmp_path / "outside/x")
    swaps = [swap_of(box.path / "file", box.path / name) for name in ("link", "pipe")]
    seen: set[bytes] = set()
    done = 0
    works: list[Callable[[], object]] = [
        lambda: seen.add(box.read("file")),
        lambda: box.open("file", "a").close(),
        lambda: box.write("file", b"inside"),
    ]
    with Swapper(*swaps) as swapper:
        while done < ROUNDS or swapper.rounds < ROUNDS:
            for work in works:
                with contextlib.suppress(OSError, PathRefused):
                    work()
            done += 1

    assert seen <= {b"inside"}


@pytest.mark.usefixtures("_on_both_roads")
async def test_what_is_swapped_while_a_tree_is_removed_keeps_nothing_and_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_bytes(SECRET)
    for _ in range(10):
        box = SandboxDirectory(HeldFolder.new(tmp_path))
        for number in range(40):
            box.write(f"a/{number}/f", b"x")
        (box.path / "b").symlink_to(tmp_path / "outside")
        box.write("c", b"x")
        swaps = [swap_of(box.path / "a", box.path / name) for name in ("b", "c")]
        with Swapper(*swaps):
            await box.close()

        assert not box.path.exists()
    assert (tmp_path / "outside/x").read_bytes() == SECRET


async def test_files_that_appear_while_it_is_removed_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look and the end of the folder itself, which is the hardest moment."""
    box = SandboxDirectory(HeldFolder.new(tmp_path))
    rmdir, put = os.rmdir, 0

    def late(path: str | Path, **where: int) -> None:
        nonlocal put
        if path == box.path and put < 3:
            put += 1
            (box.path / f"late {put}").touch()
        rmdir(path, **where)

    monkeypatch.setattr(os, "rmdir", late)
    await box.close()

    assert put == 3
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("what", ["a folder", "a file"])
async def test_a_mount_is_a_way_out_and_refused(
    box: SandboxDirectory, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told by its number, without the right to mount: see below for a real one."""
    box.write("mounted/file", b"of another file system")
    there = os.stat(box.path / ("mounted" if what == "a folder" else "mounted/file")).st_ino
    mount_of = below.mount_of

    def told(descriptor: int) -> below.Mount:
        own = mount_of(descriptor)
        return (own[0], b"mnt_id: another") if os.fstat(descriptor).st_ino == there else own

    for module in ("below", "emptying", "measuring"):
        monkeypatch.setattr(f"agentos.resources.folders.{module}.mount_of", told)
    for mode in ("r", "w", "a"):
        with pytest.raises(PathRefused, match="'mounted/file': another file system is mounted there"):
            _close(box, "mounted/file", mode)
    if what == "a folder":
        for work in (box.make_folder, box.list, lambda path: box.write(f"{path}/new", b"")):
            with pytest.raises(PathRefused, match="another file system is mounted there"):
                work("mounted")
        with pytest.raises(PathRefused, match="another file system is mounted there"):
            box.remove("mounted", tree=True)
        (box.path / "above").mkdir()
        (box.path / "mounted").rename(box.path / "above/mounted")
        with pytest.raises(OSError, match=r"another file system is mounted in it \(1 of them left\): 'above'"):
            box.remove("above", tree=True)
        (box.path / "above/mounted").rename(box.path / "mounted")
        assert sorted(os.listdir(box.path / "mounted")) == ["file"]


MOUNTS = """
import asyncio, os, subprocess, sys
from pathlib import Path
from agentos.errors import FolderGone
from agentos.resources.folders.held import HeldFolder
from agentos.resources.kinds.sandbox import SandboxDirectory

async def main(place):
    outside = place / "outside"
    outside.mkdir()
    (outside / "x").write_text("secret")
    box, over = (SandboxDirectory(HeldFolder.new(place)) for _ in range(2))
    box.write("deep/bound/own", b"hidden")
    box.write("goes", b"x")
    over.write("goes", b"x")
    subprocess.run(["mount", "--bind", outside, box.path / "deep/bound"], check=True)
    subprocess.run(["mount", "--bind", outside, over.path], check=True)
    for work in (lambda: box.read("deep/bound/x"), lambda: box.write("deep/bound/y", b""), lambda: box.list("deep/bound")):
        try:
            work()
            print("reached")
        except Exception as error:
            print(type(error).__name__)
    print(box.measure().files)
    try:
        over.read("goes")
    except FolderGone as error:
        print(error.why)
    try:
        await box.close()
    except OSError as error:
        print(error.strerror)
    await over.close()
    print(sorted(os.listdir(box.path)), sorted(os.listdir(outside)))
    for path in (over.path, box.path / "deep/bound"):
        subprocess.run(["umount", path], check=True)
    print(os.listdir(over.path))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_real_mount_inside_or_over_it_is_refused_and_what_it_shows_stays(tmp_path: Path) -> None:
    """Where the machine lets nobody mount, the one before asks the same of the number alone."""
    assert said_with_mounts(MOUNTS, tmp_path) == [
        *["PathRefused"] * 3,
        "3",
        "something else stands there, or is mounted",
        "another file system is mounted in it (1 of them left)",
        "['deep'] ['x']",
        "[]",
    ]


PLAIN_USER = """
import asyncio, os, sys
import anyio
from pathlib import Path
from agentos.resources.folders.held import HeldFolder
from agentos.resources.kinds.sandbox import SandboxDirectory
from tests.resources.test_temporary_directory import read_only_tree
foreign = Path(sys.argv[1], "foreign")
foreign.mkdir()
foreign.chmod(0o777)
asyncio.run(anyio.sleep(0))  # what is imported late may stand in a folder that is closed to others
os.setgid(65534)
os.setuid(65534)

async def main():
    box = SandboxDirectory(HeldFolder.new(Path(sys.argv[1])))
    foreign.rename(box.path / "foreign")
    box.write("foreign/f", b"text")
    box.remove("foreign", tree=True)
    box.write("a/f", b"text")
    box.path.joinpath("tree").mkdir()
    read_only_tree(box.path / "tree")
    os.mkdir(box.path / "closed", 0o100)
    (box.path / "a").chmod(0o300)
    box.write("listed/f", b"text")
    (box.path / "listed").chmod(0o400)
    print(box.read("a/f"), box.measure().bytes > 0)
    for work in (lambda: box.list("closed"), lambda: box.write("closed/f", b"")):
        try:
            work()
        except PermissionError as error:
            print(error)
    box.remove("tree", tree=True)
    (box.path / "a").chmod(0o000)
    await box.close()
    print(box.path.exists())

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here runs as a plain user then")
def test_a_plain_user_has_what_root_has_but_for_what_is_closed_to_him() -> None:
    place = Path(os.sep, "tmp") / f"agentos-plain-sandbox-{os.getpid()}"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    try:
        done = subprocess.run(
            [sys.executable, "-c", PLAIN_USER, str(place)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(place)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "b'text' True",
        "[Errno 13] Permission denied: 'closed/.'",
        "[Errno 13] Permission denied: 'closed/f'",
        "False",
    ]
