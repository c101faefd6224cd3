"""A directory that calls write and read below: what its handle does, how much there may be, and how it ends."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Access
from agentos.errors import FolderGone, FolderLimitReached, ResourceBroken, ResourceClosed
from agentos.ids import RandomIds
from agentos.ports import CallContext
from agentos.resources import Level, Resources, Scope
from agentos.resources.folders.below import PathRefused, open_regular
from agentos.resources.folders.entries import Entry, FileKind
from agentos.resources.folders.held import HeldFolder
from agentos.resources.folders.measuring import Usage
from agentos.resources.kinds.sandbox import SANDBOX, SandboxDirectory, SandboxLimits, sandbox_directory
from agentos.testing.clock import ManualClock
from tests.support import Mind, call, calls, lab, results, until

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")


def made(parent: Path | None = None, **limits: int) -> SandboxDirectory:
    return SandboxDirectory(HeldFolder.new(parent), SandboxLimits(**limits))


def given(path: Path, **limits: int) -> SandboxDirectory:
    return SandboxDirectory(HeldFolder.given(path), SandboxLimits(**limits))


def names(directory: SandboxDirectory, path: str = ".") -> list[str]:
    return [entry.name for entry in directory.list(path)]


async def test_what_is_written_is_read_listed_told_renamed_and_removed() -> None:
    box = made()
    box.write("a/b/one", b"1")
    box.write("a/two", b"22")
    box.write("a/two", b"again")
    box.make_folder("empty/folder")
    (box.path / "link").symlink_to("a")
    os.mkfifo(box.path / "pipe")
    listed, told = box.list(), box.stat("a/two")
    box.rename("a/b", "moved/here")
    one, two = box.read("moved/here/one"), box.read("a/two")
    box.remove("link")
    box.remove("pipe")
    box.remove("a/two")
    box.remove("a")
    box.remove("empty", tree=True)
    left, usage = names(box), (box.usage, box.measure())
    await box.close()

    assert listed == (
        Entry("a", FileKind.DIRECTORY, None),
        Entry("empty", FileKind.DIRECTORY, None),
        Entry("link", FileKind.LINK, None),
        Entry("pipe", FileKind.OTHER, None),
    )
    assert told == Entry("two", FileKind.FILE, 5)
    assert (one, two, left) == (b"1", b"again", ["moved"])
    assert usage == (Usage(1, 3), Usage(1, 3))
    assert not box.path.exists()


async def test_a_file_is_opened_to_read_to_write_to_make_and_to_append() -> None:
    box = made()
    with box.open("f/new", "x") as file:
        file.write(b"abc")
    with pytest.raises(FileExistsError):
        box.open("f/new", "x")
    with box.open("f/new", "a") as file:
        file.write(b"def")
    appended = box.read("f/new")
    with box.open("f/new", "w") as file:
        file.write(b"0123456789")
        file.seek(2)
        file.write(b"xx")
        file.truncate(5)
    with box.open("f/new") as file:
        lines = file.readlines()
    with pytest.raises(FileNotFoundError, match="f/none"):
        box.open("f/none")
    with box.open("f/new") as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    usage = box.usage, box.measure()
    await box.close()

    assert (appended, lines) == (b"abcdef", [b"01xx4"])
    assert usage == (Usage(5, 2), Usage(5, 2))


async def test_it_is_its_owners_alone_and_a_file_that_is_replaced_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("old")
    (tmp_path / "script").chmod(0o4755)
    before = os.umask(0)
    try:
        box = given(tmp_path)
        box.write("a/new", b"")
        box.write("script", b"new")
    finally:
        os.umask(before)
    await box.close()

    modes = [stat.S_IMODE(os.stat(tmp_path / path).st_mode) for path in ("a", "a/new", "script")]
    assert modes == [0o700, 0o600, 0o755], "nobody else's, and no longer with the rights of its owner"


async def test_one_that_was_given_stays_with_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "to folder").symlink_to("folder")
    (tmp_path / "folder" / "before").write_text("kept")
    factory = sandbox_directory(tmp_path / "to folder")
    box = await factory.make()
    box.write("after", b"kept too")
    assert factory.takes is not None
    takes = factory.takes(box)
    await box.close()
    await box.close()

    assert (takes.path, takes.bytes) == (str(tmp_path / "folder"), 12)
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["after", "before"]
    with pytest.raises(ResourceClosed):
        box.read("before")


@pytest.mark.parametrize("what", ["nothing", "a file"])
async def test_a_folder_that_cannot_be_opened_or_made_is_named_and_leaves_nothing(tmp_path: Path, what: str) -> None:
    path = tmp_path / "place"
    if what == "a file":
        path.touch()

    with pytest.raises(ResourceBroken, match=f"folder {path} cannot be opened"):
        await sandbox_directory(path).make()
    with pytest.raises(ResourceBroken, match=f"no folder can be made in {path}"):
        await sandbox_directory(parent=path).make()


# How much


async def test_a_write_over_a_bound_names_it_and_changes_nothing() -> None:
    box = made(bytes_max=10, files_max=3)
    box.write("a/f", b"1234567")
    with pytest.raises(FolderLimitReached, match=r"it would hold 11 bytes, over 10 \(bytes_max\)") as bytes_:
        box.write("a/f", b"12345678901")
    with pytest.raises(FolderLimitReached, match="would hold 11 bytes"):
        box.write("g", b"1234")
    box.write("g", b"123")
    with pytest.raises(FolderLimitReached, match=r"4 files and folders, over 3 \(files_max\)"):
        box.write("h", b"")
    with pytest.raises(FolderLimitReached, match="files_max"):
        box.make_folder("folder")
    with pytest.raises(FolderLimitReached, match="files_max"):
        box.open("x/y", "w")
    kept, usage, left = box.read("a/f"), box.usage, (names(box), names(box, "a"))
    box.remove("g")
    box.write("a/h", b"abc")
    await box.close()

    assert (bytes_.value.limit, bytes_.value.maximum) == ("bytes_max", 10)
    assert (kept, usage, left) == (b"1234567", Usage(10, 3), (["a", "g"], ["f"]))


async def test_an_open_file_grows_to_the_bound_and_not_over_it() -> None:
    box = made(bytes_max=10)
    with box.open("f", "w") as file:
        file.write(b"12345678")
        with pytest.raises(FolderLimitReached):
            file.write(b"901")
        with pytest.raises(FolderLimitReached):
            file.truncate(11)
        file.seek(100)
        with pytest.raises(FolderLimitReached):
            file.write(b"1")
        file.seek(0)
        file.write(b"ab")
        file.seek(8)
        file.write(b"90")
    with box.open("f", "a") as file, pytest.raises(FolderLimitReached):
        file.write(b"!")
    content = box.read("f")
    with box.open("f", "w") as file:
        file.write(b"anew")
    usage = box.usage, box.measure()
    await box.close()

    assert content == b"ab34567890"
    assert usage == (Usage(4, 1), Usage(4, 1))


async def test_what_others_put_in_is_counted_and_what_they_took_out_is_room_again() -> None:
    box = made(bytes_max=10, files_max=5)
    box.write("mine", b"12345")
    (box.path / "theirs").write_bytes(b"1" * 20)
    counted = box.measure()
    with pytest.raises(FolderLimitReached, match="it would hold 26 bytes"):
        box.write("more", b"1")
    box.write("mine", b"1")  # who takes nothing is let through
    (box.path / "theirs").unlink()
    box.write("more", b"123456789")
    await box.close()

    assert counted == Usage(25, 2)


async def test_counting_stops_once_it_is_known_that_there_are_too_many() -> None:
    box = made(files_max=10)
    for number in range(50):
        (box.path / f"{number}").mkdir()
    usage = box.measure()
    await box.close()

    assert usage.files == 11


async def test_what_is_read_at_once_and_listed_has_a_bound() -> None:
    box = made(read_bytes_max=5, listed_max=2)
    box.write("f/five", b"12345")
    box.write("f/six", b"123456")
    five = box.read("f/five")
    with pytest.raises(FolderLimitReached, match=r"'f/six' has more bytes, over 5 \(read_bytes_max\); open it"):
        box.read("f/six")
    two = names(box, "f")
    box.write("f/third", b"")
    with pytest.raises(FolderLimitReached, match=r"'f' has more things in it, over 2 \(listed_max\)"):
        box.list("f")
    await box.close()

    assert (five, two) == (b"12345", ["five", "six"])


async def test_so_many_files_are_open_at_once_and_no_more() -> None:
    box = made(open_max=2)
    box.write("f", b"text")
    with box.open("f"), box.open("f", "a"):
        with pytest.raises(FolderLimitReached, match=r"3 files open, over 2 \(open_max\); close those"):
            box.open("f")
        with pytest.raises(FolderLimitReached, match="open_max"):
            box.open("f", "w")
    text = box.read("f")
    await box.close()

    assert text == b"text"


async def test_a_file_that_is_opened_just_as_it_closes_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread that nobody waits for any more."""
    box = made()
    box.write("f", b"text")

    def late(*way: Any) -> int:
        box._folder.shut()
        return open_regular(*way)

    with monkeypatch.context() as patch:
        patch.setattr("agentos.resources.kinds.sandbox.directory.open_regular", late)
        with pytest.raises(ResourceClosed):
            box.open("f")
    await box.close()

    assert not box.path.exists()


async def test_a_write_that_fails_leaves_the_file_before_and_nothing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    box = made()
    box.write("f", b"before")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agentos.resources.kinds.sandbox.writing.os.rename", full)
        with pytest.raises(OSError, match=r"No space left on device: 'f'"):
            box.write("f", b"longer than before")
    content, left, usage = box.read("f"), names(box), (box.usage, box.measure())
    await box.close()

    assert (content, left) == (b"before", ["f"])
    assert usage == (Usage(6, 1), Usage(6, 1))


# What becomes of the folder


async def test_a_rename_replaces_and_what_was_replaced_is_counted_no_more() -> None:
    box = made()
    box.write("one", b"1")
    box.write("two", b"22")
    os.link(box.path / "two", box.path / "same")
    box.measure()
    box.rename("one", "two")
    box.rename("same", "three")
    with pytest.raises(FileNotFoundError, match="'none'"):
        box.rename("none", "two")
    with pytest.raises(PathRefused, match="'two/new': a part of it is a link, or no folder"):
        box.rename("three", "two/new")
    left, usage = names(box), (box.usage, box.measure())
    await box.close()

    assert left == ["three", "two"]
    assert usage == (Usage(3, 2), Usage(3, 2))


async def test_a_folder_with_something_in_it_goes_as_a_tree_alone_whatever_its_rights_and_depth() -> None:
    box = made()
    box.write("tree/f", b"1")
    descriptor = os.open(box.path / "tree", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("deep", dir_fd=descriptor)
        descriptor, above = os.open("deep", os.O_RDONLY, dir_fd=descriptor), descriptor
        os.close(above)
    os.close(descriptor)
    (box.path / "tree").chmod(0o000)
    with pytest.raises(OSError, match="not empty: 'tree'"):
        box.remove("tree")
    box.remove("tree", tree=True)
    left, usage = names(box), box.usage
    await box.close()

    assert (left, usage) == ([], Usage(0, 0))


@pytest.mark.parametrize("how", ["removed", "moved", "another stands there"])
async def test_a_folder_that_is_no_longer_there_is_told_and_the_next_borrower_has_another(
    how: str, tmp_path: Path
) -> None:
    resources, scope = _table()
    shared = await resources.create(
        scope, "sandbox", "box", sandbox_directory(parent=tmp_path), pattern=SANDBOX.pattern
    )
    async with shared.borrow() as box:
        box.write("f", b"1")
        if how == "removed":
            (box.path / "f").unlink()
            box.path.rmdir()
        else:
            box.path.rename(tmp_path / "moved")
        if how == "another stands there":
            box.path.mkdir()
            (box.path / "f").write_text("of others")
        for work in (
            box.measure,
            lambda: box.read("f"),
            lambda: box.write("f", b""),
            box.list,
            lambda: box.remove("f"),
        ):
            with pytest.raises(FolderGone, match=f"folder {box.path}: ") as told:
                work()
    async with shared.borrow() as anew:
        anew.write("f", b"2")
    await scope.close()
    resources.shut()

    assert told.value.folder == str(box.path)
    assert anew.path != box.path
    assert shared.statistics().broken == 1
    left = {"removed": [], "moved": ["moved"], "another stands there": sorted(["moved", box.path.name])}
    assert sorted(os.listdir(tmp_path)) == left[how]


def _table() -> tuple[Resources, Scope]:
    resources = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    resources.register(SANDBOX)
    return resources, Scope(Level.PROGRAM, "program")


# How it ends


async def test_files_that_are_still_open_end_with_it_also_while_a_thread_writes(tmp_path: Path) -> None:
    box = given(tmp_path)
    writing = box.open("written", "w")
    box.write("read", b"text")
    reading = box.open("read")
    begun = threading.Event()

    def write_on() -> None:
        while True:
            writing.write(b"x")
            writing.seek(0)
            begun.set()

    def write() -> None:
        with pytest.raises(ValueError, match="closed file"):
            write_on()

    thread = threading.Thread(target=write)
    thread.start()
    await asyncio.to_thread(begun.wait)
    await box.close()
    thread.join()

    assert writing.closed
    assert reading.closed
    with pytest.raises(ValueError, match="closed file"):
        reading.read()


@pytest.mark.parametrize("turns", [*range(12), 40])
async def test_a_making_that_is_cancelled_at_any_await_leaves_no_descriptor(tmp_path: Path, turns: int) -> None:
    """The thread that counts what is there is waited for: it reads what is closed then."""
    for number in range(30):
        (tmp_path / f"{number}").mkdir()
    making = asyncio.ensure_future(sandbox_directory(tmp_path).make())
    for _ in range(turns):
        await asyncio.sleep(0)
    making.cancel()
    await asyncio.wait([making])
    if not making.cancelled():
        await making.result().close()


@pytest.mark.parametrize("turns", range(1, 9))
async def test_a_close_that_is_cancelled_at_any_await_still_removes_it(tmp_path: Path, turns: int) -> None:
    resources, scope = _table()
    shared = await resources.ensure(scope, "sandbox", options={"parent": tmp_path})
    async with shared.borrow() as box:
        for number in range(20):
            box.write(f"{number}/f", b"x")
        file = box.open("0/f", "a")
    closing = asyncio.create_task(scope.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    resources.shut()

    assert file.closed
    assert os.listdir(tmp_path) == []


async def test_calls_of_a_conversation_read_together_and_write_alone_and_it_goes_with_the_conversation() -> None:
    seen: list[Path] = []

    async def put(text: str, context: CallContext) -> str:
        async with context.resource("sandbox") as box:
            box.write("notes/one", text.encode())
            seen.append(box.path)
        return "put"

    def look(context: CallContext) -> str:
        with context.borrow_from_thread("sandbox", access=Access.READ) as box:
            return str(box.read("notes/one").decode())

    def escape(context: CallContext) -> str:
        with context.borrow_from_thread("sandbox", access=Access.READ) as box:
            return str(box.read("../../etc/hostname"))

    mind = Mind(calls(call("put", text="kept")), "one", calls(call("look"), call("look"), call("escape")), "two")
    async with lab(mind, [put, look, escape]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        await conversation.ask("again")
        (row,) = here.kernel.resources.rows()
        found = await results(conversation)
        existed = seen[0].exists()
        await conversation.close()
        await until(lambda: not here.kernel.resources.rows())

        assert (row.kind, row.level, row.takes[0].path, row.takes[0].bytes) == (
            "sandbox",
            Level.CONVERSATION,
            str(seen[0]),
            4,
        )
        assert sorted(found)[:3] == [("done", "kept"), ("done", "kept"), ("done", "put")]
        status, text = max(found)
        assert (status, "it does not stay inside the folder" in text) == ("failed(resource)", True)
        assert (existed, seen[0].exists()) == (True, False)


def _example() -> dict[str, Any]:
    """What the page of resources defines in its section on directories."""
    section = (Path(__file__).parents[2] / "docs/resources.md").read_text().split("## A directory for tools")[1]
    defined: dict[str, Any] = {}
    exec(section.split("```python")[1].split("```")[0], defined)
    return defined


async def test_the_example_of_the_page_works() -> None:
    example = _example()
    mind = Mind(
        calls(call("note", path="a/b.txt", text="one")),
        calls(call("note", path="a/b.txt", text="two")),
        calls(call("look", path="a/b.txt")),
        calls(call("note", path="../b.txt", text="three")),
        calls(call("note", path="a/c.txt", text="x" * 1_000)),
    )
    async with lab(mind, [example["note"], example["look"]]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        found = await results(conversation)

        assert found[:3] == [
            ("done", "4 bytes in 2 files and folders"),
            ("done", "8 bytes in 2 files and folders"),
            ("done", "one\ntwo\n"),
        ]
        assert [status for status, _ in found[3:]] == ["failed(resource)"] * 2
        assert "it would hold 1,009 bytes, over 1,000 (bytes_max)" in found[4][1]


async def test_a_kernel_that_closes_while_a_call_has_one_removes_it() -> None:
    held: asyncio.Queue[Path] = asyncio.Queue()

    async def hold(context: CallContext) -> str:
        async with context.resource("sandbox", scope="turn") as box:
            box.write("f", b"1")
            held.put_nowait(box.path)
            await asyncio.Event().wait()
        return "never"

    async with lab(Mind(calls(call("hold"))), [hold]) as here:
        asked = asyncio.ensure_future((await here.start()).ask("go"))
        path = await held.get()
        await here.kernel.close(0)
        await asyncio.wait([asked])

        assert asked.exception() is not None
        assert not path.exists()


async def test_pathrefused_says_the_whole_path() -> None:
    box = made()
    box.write("a/file", b"")
    with pytest.raises(PathRefused, match="'a/file/below': a part of it is a link, or no folder"):
        box.read("a/file/below")
    with pytest.raises(PathRefused, match="'a': it is no regular file"):
        box.write("a", b"")
    await box.close()
