"""What a file store's folder is, who may have it, and what becomes of one that somebody else laid hands on (F09, F18)."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agentos.errors import StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from agentos.ids import LogId
from agentos.persistence.base import Durability, Verdict
from agentos.persistence.file import FileStore
from agentos.persistence.file.held import FileLog
from agentos.persistence.file.segments import Place, Segments
from agentos.testing.log_units import LogUnits, append, post_of
from tests.persistence.file_support import STORED, open_file, segment, store_of_three_logs, texts

ODD_IDS = [
    "../../outside", "/etc/outside", "a:b", "a_b", "A_b", "a/b", "a\\b", ".", "..", "con", "x" * 300, "a\nb", "a\0b",
    "é", "e\u0301",
]  # fmt: skip


async def test_a_folder_is_made_with_all_that_explains_it(tmp_path: Path) -> None:
    path = tmp_path / "below" / "store"
    async with open_file(path) as (_, writer):
        modes = {str(file.relative_to(path)): stat.S_IMODE(file.stat().st_mode) for file in path.rglob("*")}
    shown = json.loads((path / "store.json").read_text())
    left = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())

    assert writer == 1
    assert {modes[name] for name in ("segments", "writers")} == {0o700}
    assert {mode for name, mode in modes.items() if "." in name or name == "lock"} == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert (shown["format"], shown["version"]) == ("agentos file store", 1)
    assert left == [
        "README.txt", "lock", "segments/00000001.jsonl", "store.json",
    ]  # fmt: skip
    assert "jq" in (path / "README.txt").read_text()


async def test_ids_are_never_part_of_a_path(tmp_path: Path) -> None:
    path = tmp_path / "below" / "store"
    async with open_file(path) as (store, writer):
        for i, odd in enumerate(ODD_IDS):
            log = LogUnits(str(i), writer)
            log.id = LogId(odd)
            assert log.create is not None
            log.create.id = log.id
            assert await append(store, log.unit(text=str(i))) == STORED
            assert await store.post(post_of(odd, odd))
    async with open_file(path) as (store, _):
        found = [[text for entry in await store.entries(odd) for *_, text in entry.payloads] for odd in ODD_IDS]
        posted = [(row.log, row.key) for row in await store.inbox()]
    everything = sorted(_all_of(tmp_path))

    assert found == [[str(i)] for i in range(len(ODD_IDS))]
    assert posted == [(odd, odd) for odd in ODD_IDS]
    assert everything == [
        f"below/store/{name}" for name in ("README.txt", "lock", "segments/00000001.jsonl", "store.json")
    ]


async def test_a_page_of_a_log_finds_and_reads_no_more_units_than_it_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Place] = []
    read: list[Place] = []
    units, read_line = FileLog.units, Segments.read

    def finding(log: FileLog, after: int, upto: int) -> Iterator[Place]:
        for place in units(log, after, upto):
            found.append(place)
            yield place

    def reading(segments: Segments, place: Place) -> bytes:
        read.append(place)
        return read_line(segments, place)

    monkeypatch.setattr(FileLog, "units", finding)
    monkeypatch.setattr(Segments, "read", reading)
    async with open_file(tmp_path / "store") as (store, writer):
        log = LogUnits("a", writer)
        await append(store, *(log.unit("a", "b") for _ in range(100)))
        page = await store.entries(log.id, 100, limit=5)

    assert [entry.seq for entry in page] == [101, 102, 103, 104, 105]
    assert (len(found), len(read)) == (5, 3)  # a unit has one entry at least


async def test_definitions_that_came_with_one_unit_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definitions = [(f"{n:03}", "agent", "{}") for n in range(50)]
    read = 0
    read_line = Segments.read

    def reading(segments: Segments, place: Place) -> bytes:
        nonlocal read
        read += 1
        return read_line(segments, place)

    monkeypatch.setattr(Segments, "read", reading)
    async with open_file(tmp_path / "store") as (store, writer):
        await append(store, LogUnits("a", writer).unit(definitions=definitions[::-1]))
        given = await store.definitions("009", 20)

    assert given == definitions[10:30]
    assert read == 1


async def test_segments_follow_one_another_and_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path, segment_bytes=2_000) as (store, writer), open_file(path) as (other, _):
        logs = [LogUnits(name, writer) for name in "ab"]
        for i in range(12):
            assert await append(store, *(log.unit("a", text=str(i)) for log in logs)) == STORED * 2
            assert other.changed()
            assert [await texts(other, log) for log in logs] == [[str(n) for n in range(i + 1)]] * 2
        count = await store.query("select count(*) from messages")
    files = sorted(file.name for file in (path / "segments").glob("*.jsonl"))
    before = [segment(path, n + 1).read_bytes() for n in range(len(files) - 1)]
    async with open_file(path, segment_bytes=2_000) as (store, writer):
        again = [await texts(store, log) for log in logs]
        row = await store.claim(logs[0].id)
        assert row is not None
        assert await append(store, logs[0].owned(row).unit(text="12")) == STORED
    ends = [json.loads(data.splitlines()[-1]) for data in before]

    assert len(files) > 3
    assert again == [[str(n) for n in range(12)]] * 2
    assert count.rows == [(24,)]
    assert [segment(path, n + 1).read_bytes() for n in range(len(files) - 1)] == before
    assert [(end["op"], end["number"]) for end in ends] == [("continued", n + 2) for n in range(len(ends))]


async def test_a_missing_last_segment_is_told_and_no_shorter_history(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path, segment_bytes=1_000) as (store, writer):
        log = LogUnits("a", writer)
        for _ in range(6):
            await append(store, log.unit(text="x"))
    last = max((path / "segments").glob("*.jsonl"))
    last.unlink()

    with pytest.raises(StoreDamaged, match=f"{last.name} is missing"):
        await FileStore(str(path)).open("program")


async def test_a_segment_that_ends_too_early_is_told_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path, segment_bytes=3_000) as (store, writer):
        logs = [LogUnits(name, writer) for name in "abcdefgh"]
        for log in logs:
            await append(store, log.unit(text="first"))
        await append(store, logs[0].unit(text="second"))
    data = segment(path).read_bytes()
    lines = data.splitlines(keepends=True)
    segment(path).write_bytes(b"".join(lines[:-2]))
    hurt = json.loads(lines[-2])["log"]
    async with open_file(path) as (store, _):
        found = {log.id: await texts(store, log) for log in logs}
        damages = [str(damage) for damage in await store.damages()]

    assert [id_ for id_, text in found.items() if not text] == [hurt]
    assert found[logs[0].id] == ["first", "second"]
    assert [f"ends at offset {sum(map(len, lines[:-2]))}, and had more lines" in damage for damage in damages] == [True]


async def test_a_segment_that_was_begun_and_not_used_is_begun_again(tmp_path: Path) -> None:
    """A crash between the making of the next segment and the line that leads to it."""
    path = tmp_path / "store"
    logs = await store_of_three_logs(path)
    for left in (b"", b'{"crc":"00', segment(path).read_bytes().splitlines(keepends=True)[0]):
        segment(path, 2).write_bytes(left)
        async with open_file(path) as (store, _):
            assert await texts(store, logs[0]) != "damaged"
    async with open_file(path, segment_bytes=100) as (store, writer):
        log = LogUnits("new", writer)
        assert await append(store, log.unit(text="x")) == STORED
    async with open_file(path) as (store, _):
        assert await texts(store, log) == ["x"]
        assert await store.damages() == []


async def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path)
    with segment(path).open("ab") as file:
        file.write(b'{"crc":"torn')
    before = _all_of(path)
    _set_modes(path, 0o500, 0o400)
    try:
        store = FileStore(str(path))
        found = await texts(store, logs[0])
        rows = await store.query("select count(*) from messages")
        writers = await store.writers()
        await store.close()
    finally:
        _set_modes(path, 0o700, 0o600)

    assert len(found) == 4
    assert rows.rows == [(12,)]
    assert [(row.n, row.alive) for row in writers] == [(1, False)]
    assert _all_of(path) == before


def _all_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def _set_modes(path: Path, folder: int, file: int) -> None:
    for found in [path, *path.rglob("*")]:
        found.chmod(folder if found.is_dir() else file)


async def test_a_copy_of_the_folder_without_its_locks_can_be_read(tmp_path: Path) -> None:
    logs = await store_of_three_logs(tmp_path / "store")
    for name in ("segments/00000001.jsonl", "store.json"):
        (tmp_path / "copy" / name).parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(tmp_path / "store" / name, tmp_path / "copy" / name)
    store = FileStore(str(tmp_path / "copy"))
    found = await texts(store, logs[0])
    await store.close()

    assert len(found) == 4
    assert sorted(os.listdir(tmp_path / "copy")) == ["segments", "store.json"]


async def test_a_newer_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await store_of_three_logs(path)
    shown = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps({**shown, "version": 9, "more": True}))

    with pytest.raises(StoreTooNew, match=r"version 9.* up to 1"):
        await FileStore(str(path)).open("program")
    with pytest.raises(StoreTooNew):
        await FileStore(str(path)).logs()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "mine"),
        ("store.json", '{"format": "other", "version": 1, "id": "x"}'),
        ("store.json", "[]"),
        ("store.json", ""),
        ("segments.jsonl", ""),
    ],
)
async def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)

    for store in (FileStore(str(tmp_path)), FileStore(str(tmp_path))):
        with pytest.raises(StoreDamaged):
            await store.open("program")
        with pytest.raises(StoreDamaged):
            await store.logs()
    assert _all_of(tmp_path) == {name: content.encode()}


async def test_a_store_that_lost_its_name_is_not_made_anew_over_its_segments(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await store_of_three_logs(path)
    (path / "store.json").unlink()
    before = _all_of(path)

    with pytest.raises(StoreDamaged, match=r"store\.json"):
        await FileStore(str(path)).open("program")
    assert _all_of(path) == before


async def test_a_making_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "above" / "store"
    failed = [steps for steps in range(20) if await _making_fails_after(path, steps)]
    async with open_file(path) as (store, writer):
        assert await append(store, LogUnits("a", writer).unit()) == STORED

    assert failed == list(range(11))  # then the store is there


async def test_the_names_of_all_folders_that_are_made_last(tmp_path: Path) -> None:
    counts = []
    for path in (tmp_path / "one", tmp_path / "a" / "b" / "three"):
        steps: list[str] = []
        async with open_file(path, durability=Durability.RELAXED, point=steps.append):
            counts.append(steps.count("fsync"))

    assert counts[1] == counts[0] + 2


async def _making_fails_after(path: Path, steps: int) -> bool:
    left = steps

    def dies(_: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, "on purpose")

    store = FileStore(str(path), point=dies)
    try:
        await store.open("program")
    except StoreUnavailable as error:
        return "on purpose" in str(error)
    store.abandon()
    return False


@pytest.mark.parametrize("what", ["a file", "below a file", "a dead link"])
async def test_a_place_that_cannot_be_a_folder_is_told_when_it_is_opened(tmp_path: Path, what: str) -> None:
    path = tmp_path / "place"
    if what == "a dead link":
        path.symlink_to(tmp_path / "file" / "gone")
        (tmp_path / "file").write_text("")
    else:
        path.write_text("")
    place = path / "store" if what == "below a file" else path

    with pytest.raises(StoreUnavailable, match=r"\((EEXIST|ENOTDIR)\)"):
        await FileStore(str(place)).open("program")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
async def test_a_folder_that_cannot_be_written_is_told_when_it_is_opened(tmp_path: Path, number: int) -> None:
    def forbidden(step: str) -> None:
        if step == "create":
            raise OSError(number, os.strerror(number), str(tmp_path / "README.txt"))

    with pytest.raises(StoreUnavailable, match=rf"README\.txt: .*\({errno.errorcode[number]}\)"):
        await FileStore(str(tmp_path), point=forbidden).open("program")


async def test_a_store_that_is_not_there_is_not_made_by_a_reader(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(StoreUnavailable, match=r"there is no such folder|the folder is empty"):
            await FileStore(str(path)).logs()

    assert os.listdir(tmp_path) == []


HARMS = ["removed", "replaced", "truncated", "folder removed"]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_store_that_is_harmed_while_open_says_so_and_is_never_empty(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "store"
    store = FileStore(str(path))
    log = LogUnits("a", await store.open("program"))
    await append(store, log.unit(text="x"))
    await store.query("select 1")
    _harm(path, harm)
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: store.log(log.id),
        lambda: store.entries(log.id),
        store.logs,
        store.inbox,
        lambda: store.query("select count(*) from entries"),
        lambda: store.claim(log.id),
        lambda: store.post(post_of(log.id, "k")),
        lambda: append(store, log.unit()),
    ]
    for read in reads:
        with pytest.raises((StoreDamaged, StoreUnavailable), match=r"00000001\.jsonl|segments|lock"):
            await read()
    assert store.changed()
    await store.close()


def _harm(path: Path, harm: str) -> None:
    file = segment(path)
    if harm == "removed":
        file.unlink()
    elif harm == "replaced":
        data = file.read_bytes()
        file.rename(file.with_suffix(".old"))
        file.write_bytes(data)
    elif harm == "truncated":
        os.truncate(file, file.stat().st_size // 2)
    else:
        shutil.rmtree(path)


async def test_a_byte_that_changes_while_open_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="hello"))
        data = segment(path).read_bytes()
        with segment(path).open("r+b") as file:
            file.write(data.replace(b"hello", b"HELLO"))

        with pytest.raises(StoreDamaged, match="offset"):
            await store.entries(log.id)


async def test_a_removed_lock_does_not_let_two_in(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer), open_file(path) as (other, second):
        one, two = LogUnits("a", writer), LogUnits("b", second)
        for i in range(6):
            (path / "lock").unlink(missing_ok=True)
            assert await append(store, one.unit(text=str(i))) == STORED
            assert await append(other, two.unit(text=str(i))) == STORED
        assert [await texts(store, log) for log in (one, two)] == [[str(i) for i in range(6)]] * 2
        assert await store.damages() == []


async def test_a_handle_that_failed_to_open_can_be_opened_later(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_text("in the way")
    store = FileStore(str(path))
    with pytest.raises(StoreError):
        await store.open("program")
    path.unlink()
    writer = await store.open("program")
    verdicts = await append(store, LogUnits("a", writer).unit())
    await store.close()

    assert verdicts == [Verdict.STORED]
