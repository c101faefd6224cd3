"""How a file store overwrites texts in the middle of its segments, and what others see while it does."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos import codec
from agentos.persistence.base import Durability, Unit, Verdict
from agentos.persistence.erasing import emptied, without_posts, without_texts
from agentos.persistence.file import FileStore
from agentos.persistence.file.blanking import blank_of, blanked
from agentos.persistence.file.folder import write_all
from agentos.persistence.file.lines import Post, Whole, decode_whole, encode_line, is_whole
from agentos.persistence.file.segments import Place
from agentos.persistence.file.units import line_of, unit_of
from agentos.testing.log_units import SALT, LogUnits, append, post_of
from tests.persistence.erase_support import bodies, erasing, files_with, fill, stored
from tests.persistence.file_support import open_file, segment

BODIES = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ['","payloads":[{"seq":1,"salt":"', "\\", '\\"', '{"crc":"00000000","op":"unit"}', "null", "", "\n\r\t\u2028 🐎"]
)
HOSTILE_HEAD = '{"payloads":[{"seq":1,"salt":"AAAA","body":"x"}],"messages":[],"text":"[{,:"}'


def _unit(texts: list[str]) -> Unit:
    """Three entries, all of whose values are texts of these, and posts to the log itself and to another."""
    log = LogUnits("a", 1)
    unit = log.unit("a", "b", "c", text=codec.encode_body(texts[0]))
    unit.entries[1] = (*unit.entries[1][:6], HOSTILE_HEAD, unit.entries[1][7])
    some = [codec.encode_body(text) for text in texts]
    unit.payloads = [(seq, i, "x", SALT, body) for seq in (1, 2, 3) for i, body in enumerate(some, 1)]
    unit.posts = [post_of(id_, f"{id_} {i}", body) for i, body in enumerate(some) for id_ in (log.id, "other")]
    return unit


@given(st.lists(BODIES, min_size=1, max_size=3), st.integers(0, 3))
def test_a_blank_takes_the_values_up_to_a_seq_and_the_posts_to_the_log_and_nothing_else(
    texts: list[str], upto: int
) -> None:
    unit = _unit(texts)
    line = encode_line(line_of(unit))[:-1]
    blank = blank_of(Place(1, 0, len(line)), line, unit.log, upto)
    assert blank is not None
    after = blanked(line, blank)
    told = decode_whole(after)

    assert len(after) == len(line)
    assert is_whole(after)
    assert isinstance(told, Whole)
    expected = without_posts(without_texts(unit, upto), unit.log)
    assert _values(unit_of(told)) == _values(expected)
    assert blank_of(Place(1, 0, len(line)), after, unit.log, upto) is None


@given(st.lists(BODIES, min_size=1, max_size=2), st.lists(st.integers(0, 2_000), max_size=8), st.booleans())
def test_whatever_part_of_a_line_is_overwritten_the_blank_leads_to_the_same_line(
    texts: list[str], cuts: list[int], first: bool
) -> None:
    unit = _unit(texts)
    before = encode_line(line_of(unit))[:-1]
    blank = blank_of(Place(1, 0, len(before)), before, unit.log, 3)
    assert blank is not None
    after = blanked(before, blank)
    half, is_after, start = b"", first, 0
    for cut in [*sorted(cut % len(before) for cut in cuts), len(before)]:
        half += (after if is_after else before)[start:cut]
        is_after, start = not is_after, cut

    assert blanked(half, blank) == after


@given(BODIES)
def test_a_post_of_its_own_keeps_its_key(text: str) -> None:
    row = post_of("a", "key", codec.encode_body(text))
    line = encode_line(Post(log=row.log, key=row.key, kind=row.kind, salt=row.salt, body=row.body))[:-1]
    blank = blank_of(Place(1, 0, len(line)), line, "a", 0)
    assert blank is not None
    told = decode_whole(blanked(line, blank))

    assert isinstance(told, Post)
    assert told.row() == emptied(row)


def _values(unit: Unit) -> list[object]:
    return [[row[:5] for row in unit.payloads], list(unit.messages), list(unit.posts), [row[6] for row in unit.entries]]


async def test_a_reader_that_comes_in_the_middle_sees_all_of_it_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    halfway, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        halfway.set()
        go_on.wait(60)

    _interrupt(monkeypatch, wait)
    async with open_file(path) as (store, writer):
        log = await fill(store, writer, rounds=2)
        reader = FileStore(str(path))
        before = await bodies(reader, log), await _queried(reader)
        appending = asyncio.ensure_future(append(store, erasing(log)))
        await asyncio.to_thread(halfway.wait, 60)
        reading = [asyncio.ensure_future(work) for work in (bodies(reader, log), _queried(reader))]
        await asyncio.sleep(0.05)
        go_on.set()
        found = await asyncio.gather(*reading)
        verdicts = await appending
        damages = await reader.damages()
        await reader.close()

    assert None not in before[0]
    assert before[1] > 0
    assert verdicts == [Verdict.STORED]
    assert found == [{None}, 0]
    assert damages == []


@pytest.mark.parametrize("durability", Durability)
async def test_an_overwriting_that_fails_is_seen_by_nobody_and_done_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, durability: Durability
) -> None:
    path = tmp_path / "store"

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with open_file(path, durability=durability, segment_bytes=20_000) as (store, writer):
        log = await fill(store, writer, rounds=4)
        earlier = FileStore(str(path))
        assert None not in await bodies(earlier, log)
        _interrupt(monkeypatch, fail)
        verdicts = await append(store, erasing(log))
        told, still = caplog.text, files_with(path)
        fresh = FileStore(str(path))
        for reader in (earlier, fresh, store):
            assert await bodies(reader, log) == {None}
            assert await _queried(reader) == 0
            assert await reader.damages() == []
            assert await reader.inbox(log.id) == []
        await earlier.close()
        await fresh.close()
        await stored(store, LogUnits("next", writer).unit())
        found = files_with(path)

    assert verdicts == [Verdict.STORED]
    assert "EIO" in told or "Input/output error" in told
    assert still
    assert found == []


async def test_a_log_with_a_damaged_line_is_not_erased_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log, other = await fill(store, writer, rounds=2), LogUnits("next", writer)
        data = bytearray(segment(path).read_bytes())
        at = data.index(b"an input")
        with segment(path).open("r+b") as file:
            file.seek(at)
            file.write(b"X")
        verdicts = await append(store, other.unit(text="kept"), erasing(log))
        row = await store.log(log.id)

    assert verdicts == [Verdict.STORED, Verdict.CONFLICT]
    assert row is not None
    assert row.erased_at is None


async def test_a_line_that_stands_twice_loses_its_texts_twice(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log = LogUnits("a", writer)
        await stored(store, log.unit(text="secret"))
        await stored(store, log.unit(text="more"))
    lines = segment(path).read_bytes().splitlines(keepends=True)
    with segment(path).open("ab") as file:
        file.writelines(line for line in lines if b"secret" in line)
    async with open_file(path) as (store, writer):
        row = await store.claim(log.id)
        assert row is not None
        await stored(store, erasing(log.owned(row)))
        found = segment(path).read_bytes().count(b"secret")

    assert found == 0


async def test_a_line_that_went_bad_before_it_was_overwritten_loses_its_texts_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with open_file(path) as (store, writer):
        log, other = await fill(store, writer, rounds=2), await fill(store, writer, name="next", rounds=2)
        _interrupt(monkeypatch, fail)
        await stored(store, erasing(log))
        data = segment(path).read_bytes()
        with segment(path).open("r+b") as file:
            file.seek(data.index(b'"call.finished"'))
            file.write(b"X")
        await stored(store, erasing(other))
        found = files_with(path)

    assert found == []


async def test_a_unit_that_is_erased_within_its_batch_never_comes_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    steps: list[str] = []
    async with open_file(path, point=steps.append) as (store, writer):
        log, other = LogUnits("a", writer), LogUnits("b", writer)
        first = log.unit(text="secret", payloads=[(1, 1, "x", SALT, "secret")])
        posting = other.unit(posts=[post_of(log.id, "k", "secret")])
        steps.clear()
        await stored(store, first, posting, erasing(log))
        done = list(steps)
        line = next(line for line in segment(path).read_bytes().splitlines() if b"payload.erased" in line)

    assert done == ["write", "fsync"]
    assert b"secret" not in segment(path).read_bytes()
    assert "blanks" not in msgspec.json.decode(line)


def _interrupt(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Once, after one line was overwritten by half."""
    place = "agentos.persistence.file.overwriting.write_all"

    def half(descriptor: int, data: bytes, offset: int) -> None:
        monkeypatch.setattr(place, write_all)
        write_all(descriptor, data[: len(data) // 2], offset)
        work()
        write_all(descriptor, data, offset)

    monkeypatch.setattr(place, half)


async def _queried(store: FileStore) -> int:
    """How many texts a query finds in the log that is to be erased."""
    found = await store.query(
        "select count(text) from messages join logs on logs.n = messages.n where logs.id = ?",
        (LogUnits("erased", 0).id,),
    )
    count: int = found.rows[0][0]
    return count
