"""A torn or damaged segment loses what was torn or damaged, says so, and nothing else is lost (F15, C50)."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from agentos.errors import StoreDamaged
from agentos.history import verify_store
from agentos.persistence.base import Durability, Verdict
from agentos.persistence.file import FileStore
from agentos.persistence.file.held import Torn
from agentos.persistence.file.segments import pieces
from agentos.testing.log_units import LogUnits, append, post_of
from tests.persistence.file_support import (
    STORED,
    offsets,
    open_file,
    said,
    segment,
    store_of_three_logs,
    texts,
)

ROUNDS = 4


async def test_a_segment_cut_at_any_byte_of_its_last_line_loses_that_line_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    start, end = offsets(whole)[-2:]
    expected = [said(logs[0], ROUNDS), said(logs[1], ROUNDS), said(logs[2], ROUNDS - 1)]
    for cut in range(start, end):
        segment(path).write_bytes(whole[:cut])
        caplog.clear()
        async with open_file(path) as (store, _):
            after = [await texts(store, log) for log in logs]
            row = await store.claim(logs[2].id)
            assert row is not None
            assert await append(store, LogUnits("c", 0).owned(row).unit(create=None, text="more")) == STORED
            lines = [json.loads(line) for line in segment(path).read_bytes().splitlines()]
            repaired = [line for line in lines if line["op"] == "repaired"]

        assert after == expected, cut
        assert [(line["offset"], line["bytes"]) for line in repaired] == ([(start, cut - start)] if cut > start else [])
        told = [record.message for record in caplog.records if "torn" in record.message]
        assert [f"{cut - start} bytes at offset {start}" in message for message in told] == [True] * len(repaired)
        assert [str(segment(path)) in message for message in told] == [True] * len(repaired)


@pytest.mark.parametrize("filler", [b"\0" * 512, b"\0" * 70_000, b'{"crc":"0', b"\0\n\0\n"])
async def test_a_tail_of_rubbish_is_cut_off_before_the_next_line(tmp_path: Path, filler: bytes) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    segment(path).write_bytes(whole + filler)
    reader = FileStore(str(path))
    told = await reader.torn()
    damages = await reader.damages()
    before = [await texts(reader, log) for log in logs]
    await reader.close()
    unchanged = segment(path).read_bytes()
    async with open_file(path) as (store, _):
        after = [await texts(store, log) for log in logs]
        left = await store.torn()

    assert unchanged == whole + filler
    assert (told, damages) == (Torn(1, len(whole), len(filler)), [])
    assert before == after == [said(log, ROUNDS) for log in logs]
    assert left is None
    assert segment(path).read_bytes().startswith(whole + b'{"crc":"')


def _beginning(log: LogUnits) -> bytes:
    """How the line of a unit of this log goes on behind `op` and `synced`."""
    return f',"log":"{log.id}","seq"'.encode()


async def _after_harm(path: Path, logs: Sequence[LogUnits]) -> list[list[str] | str]:
    async with open_file(path) as (store, _):
        return [await texts(store, log) for log in logs]


async def test_a_damaged_line_anywhere_costs_its_log_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    places = offsets(whole)
    seen = set()
    for line, (start, end) in enumerate(pairwise(places)):
        if json.loads(whole[start:end])["op"] != "unit":
            continue
        hurt = line % len(logs)
        middle = (start + end) // 2
        segment(path).write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        found = await _after_harm(path, logs)
        damaged = [i for i, text in enumerate(found) if text == "damaged"]

        assert len(damaged) == 1, (line, found)
        assert [text for text in found if text != "damaged"] == [
            said(log, ROUNDS) for i, log in enumerate(logs) if i not in damaged
        ]
        seen.add((hurt, damaged[0]))
    assert len(seen) == len(logs)


async def test_a_block_of_nuls_in_the_middle_hides_nothing_behind_it(tmp_path: Path) -> None:
    """A log that lost its last unit, with the id in it, ends before; that something is lost is told all the same."""
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    places = offsets(whole)
    for start in range(places[2], places[-2] - 512, 97):
        segment(path).write_bytes(whole[:start] + b"\0" * 512 + whole[start + 512 :])
        hit = {json.loads(whole[a:b]).get("log") for a, b in pairwise(places) if a < start + 512 and b > start}
        last = {log.id for log in logs if start - 120 < whole.rindex(_beginning(log)) < start + 512}
        async with open_file(path) as (store, _):
            found = [await texts(store, log) for log in logs]
            damages = await store.damages()

        assert damages
        for log, text in zip(logs, found, strict=True):
            if log.id in last:
                assert text in ("damaged", said(log, ROUNDS - 1)), start
            else:
                assert text == ("damaged" if log.id in hit else said(log, ROUNDS)), start


async def test_a_log_whose_last_unit_is_lost_is_known_by_the_id_that_its_line_still_shows(tmp_path: Path) -> None:
    """Its heads fit, since nothing follows; the others go on."""
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    async with open_file(path) as (store, writer):
        later = LogUnits("later", writer)
        await append(store, later.unit(text=f"{later.id} 0"))
    lines = segment(path).read_bytes().splitlines(keepends=True)
    hurt = next(i for i in range(len(lines) - 1, 0, -1) if logs[2].id.encode() in lines[i])
    keep = lines[hurt].index(b'"seq"')
    blank = lines[hurt][:keep] + b"\0" * (len(lines[hurt]) - 1 - keep) + b"\n"
    segment(path).write_bytes(b"".join([*lines[:hurt], blank, *lines[hurt + 1 :]]))
    found = await _after_harm(path, [*logs, later])

    assert found == [said(logs[0], ROUNDS), said(logs[1], ROUNDS), "damaged", said(later, 1)]


async def test_verify_tells_of_a_line_that_nothing_names(tmp_path: Path) -> None:
    """The log that it was the last unit of is shorter, and its chain is in order."""
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, 1)
    async with open_file(path) as (store, _):
        pass
    lines = segment(path).read_bytes().splitlines(keepends=True)
    lines[3] = b"#" * (len(lines[3]) - 1) + b"\n"
    segment(path).write_bytes(b"".join(lines))
    store = FileStore(str(path))
    report = await verify_store(store)
    found = [await texts(store, log) for log in logs]
    await store.close()
    told = [str(difference) for difference in report.differences if difference.table == "files"]

    assert found == [said(logs[0], 1), [], said(logs[2], 1)]
    assert [
        f"{len(lines[3])} bytes at offset {len(b''.join(lines[:3]))} are not as they were" in one for one in told
    ] == [True]
    assert not report.ok


async def test_the_damaged_log_says_where_and_its_whole_part_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    places = offsets(whole)
    start = places[2 + 2 * len(logs)]  # the third round begins
    segment(path).write_bytes(whole[: start + 40] + b"#" + whole[start + 41 :])
    async with open_file(path) as (store, writer):
        with pytest.raises(StoreDamaged, match=rf"00000001\.jsonl: \d+ bytes at offset {start} ") as error:
            await store.entries(logs[0].id)
        with pytest.raises(StoreDamaged, match=str(start)):
            await store.claim(logs[0].id)
        stale = LogUnits("a", writer)
        stale.create, stale.seq = None, ROUNDS
        refused = await append(store, stale.unit())
        whole_part = await store.entries(logs[0].id, upto=2)
        left = await store.query("select text from messages where text like ? order by seq", (f"{logs[0].id}%",))
        claimed = await store.claim(logs[1].id)

    assert logs[0].id in str(error.value)
    assert refused == [Verdict.CONFLICT]
    assert [entry.seq for entry in whole_part] == [1, 2]
    assert [text for (text,) in left.rows] == [said(logs[0], ROUNDS)[i] for i in (0, 1, 3)]
    assert claimed is not None
    assert claimed.seq == ROUNDS


async def test_verify_names_the_log_that_lost_something_and_checks_the_others(tmp_path: Path) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    place = whole.index(f"{logs[1].id} 2".encode())
    segment(path).write_bytes(whole[:place] + b"#" + whole[place + 1 :])
    store = FileStore(str(path))
    report = await verify_store(store)
    await store.close()
    told = [difference for difference in report.differences if difference.field == "units"]

    assert [difference.log for difference in told] == [logs[1].id]
    assert str(told[0].stored).startswith("segments/00000001.jsonl: ")
    assert report.logs == 2


@pytest.mark.parametrize("other", [b"#", b""])
@pytest.mark.parametrize("lost", [slice(3, 4), slice(1, -1)])
async def test_lost_newlines_cost_no_line_that_is_whole(tmp_path: Path, other: bytes, lost: slice) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, ROUNDS)
    whole = segment(path).read_bytes()
    lines = whole.splitlines(keepends=True)
    lines[lost] = [line[:-1] + other for line in lines[lost]]
    segment(path).write_bytes(b"".join(lines))
    found = await _after_harm(path, logs)
    async with open_file(path) as (store, _):
        counted = await store.query("select count(*) from messages")

    assert found == [said(log, ROUNDS) for log in logs]
    assert counted.rows == [(len(logs) * ROUNDS,)]


def test_a_stretch_without_newlines_is_looked_at_once(tmp_path: Path) -> None:
    """What stands behind each mark is looked at up to the next one, however many there are."""
    mark = b'{"crc":"00000000","op":"x"}'
    (tmp_path / "lines").write_bytes(mark * 200_000 + b"\n")
    with (tmp_path / "lines").open("rb") as file:
        found = list(pieces(file.fileno(), 0, len(mark) * 200_000 + 1))

    assert [(piece.offset, piece.end, piece.whole) for piece in found] == [(0, len(mark) * 200_000 + 1, False)]


async def test_a_fork_of_the_whole_part_of_a_damaged_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log = LogUnits("root", writer)
        await append(store, log.unit(text="shared"))
        fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
        await append(store, fork.unit(text="own"))
        await append(store, log.unit(text="lost"))
    whole = segment(path).read_bytes()
    segment(path).write_bytes(whole.replace(b'"lost"', b'"LOST"'))
    found = await _after_harm(path, [log, fork])

    assert found == ["damaged", ["shared", "own"]]


async def test_a_write_that_a_power_cut_left_with_holes_is_cut_off_from_its_first_hole(tmp_path: Path) -> None:
    """Its last pages may have reached the disk and others not; nothing of it was acknowledged."""
    path = tmp_path / "store"
    store = FileStore(str(path))
    logs = [LogUnits(str(i), await store.open("program")) for i in range(6)]
    await append(store, *(log.unit(text="first") for log in logs))
    acknowledged = segment(path).stat().st_size
    await append(store, *(log.unit(text="second") for log in logs))
    store.abandon()
    whole = segment(path).read_bytes()
    places = [place for place in offsets(whole) if place >= acknowledged]
    segment(path).write_bytes(whole[: places[2] + 10] + b"\0" * 64 + whole[places[2] + 74 :])
    found = await _after_harm(path, logs)

    assert found == [["first", "second"]] * 2 + [["first"]] * 4


async def test_a_power_cut_takes_the_last_units_of_a_normal_store_and_none_before_another(tmp_path: Path) -> None:
    """Pages reach the disk in any order: from the first that did not, all that was not synced goes."""
    path = tmp_path / "store"
    store = FileStore(str(path), durability=Durability.NORMAL)
    logs = [LogUnits(str(i), await store.open("program")) for i in range(3)]
    for log in logs:
        await append(store, log.unit(text="synced"))
    await store.close()
    store = FileStore(str(path), durability=Durability.NORMAL)
    await store.open("program")
    rows = [await store.claim(log.id) for log in logs]
    start = segment(path).stat().st_size
    for text in ("first", "second"):
        for log, row in zip(logs, rows, strict=True):
            assert row is not None
            if text == "first":
                log.owned(row)
            assert await append(store, log.unit(text=text)) == STORED
    store.abandon()
    whole = segment(path).read_bytes()
    hole = whole.index(b'"first"', whole.index(b'"first"') + 1)
    segment(path).write_bytes(whole[:hole] + b"\0" * 64 + whole[hole + 64 :])
    found = await _after_harm(path, logs)

    assert hole > start
    assert found == [["synced", "first"], ["synced"], ["synced"]]


async def test_a_hole_in_a_write_that_others_followed_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        logs = [LogUnits(str(i), writer) for i in range(3)]
        await append(store, *(log.unit(text="first") for log in logs))
        hurt = segment(path).read_bytes().index(logs[1].id.encode())
        await append(store, *(log.unit(text="second") for log in logs))
    whole = segment(path).read_bytes()
    segment(path).write_bytes(whole[: hurt + 60] + b"\0" * 64 + whole[hurt + 124 :])
    found = await _after_harm(path, logs)

    assert found == [["first", "second"], "damaged", ["first", "second"]]


async def test_a_lost_command_is_told_and_may_be_sent_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="hello"))
        for key in ("lost", "kept", "taken"):
            assert await store.post(post_of(log.id, key, "do it"))
        await append(store, log.unit(taken=["taken"]))
    whole = segment(path).read_bytes()
    for named in (b'"lost"', b'"taken","kind"'):
        whole = whole.replace(named, named.upper())
    segment(path).write_bytes(whole)
    with caplog.at_level(logging.WARNING):
        async with open_file(path) as (store, _):
            keys = [row.key for row in await store.inbox(log.id)]
            seqs = [await store.inbox_seq(log.id, key) for key in ("lost", "taken")]
            again = [await store.post(post_of(log.id, key, "do it")) for key in ("lost", "taken")]
            entries = len(await store.entries(log.id))

    assert (keys, seqs, again, entries) == (["kept"], [None, 2], [True, False], 2)
    assert sum(f"post {log.id}" in record.message for record in caplog.records) == 2


async def test_a_lost_claim_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="one"))
        row = await store.claim(log.id)
        assert row is not None
        await append(store, log.owned(row).unit(text="two"))
    whole = segment(path).read_bytes()
    segment(path).write_bytes(whole.replace(b'"op":"claim"', b'"op":"CLAIM"'))
    async with open_file(path) as (store, _):
        found = await texts(store, log)
        again = await store.claim(log.id)

    assert found == ["one", "two"]
    assert again is not None
    assert again.epoch == 3


async def test_the_number_of_a_writer_is_not_used_again_when_its_line_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, first):
        log = LogUnits("a", first)
        await append(store, log.unit(text="one"))
    whole = segment(path).read_bytes()
    segment(path).write_bytes(whole.replace(b'"op":"begin"', b'"op":"BEGIN"'))
    async with open_file(path) as (_, second):
        pass

    assert second > first


async def test_a_store_that_lost_its_first_segment_is_no_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await store_of_three_logs(path)
    segment(path).unlink()

    with pytest.raises(StoreDamaged, match=r"00000001\.jsonl is missing"):
        await FileStore(str(path)).open("program")
    with pytest.raises(StoreDamaged, match="is missing"):
        await FileStore(str(path)).logs()


@pytest.mark.parametrize("size", [0, 40])
async def test_a_store_whose_first_segment_was_emptied_is_no_empty_store(tmp_path: Path, size: int) -> None:
    path = tmp_path / "store"
    await store_of_three_logs(path)
    os.truncate(segment(path), size)

    for look in (FileStore(str(path)).logs, lambda: FileStore(str(path)).open("program")):
        with pytest.raises(StoreDamaged, match=rf"00000001\.jsonl has {size} bytes"):
            await look()
    assert segment(path).stat().st_size == size


async def test_a_segment_is_not_begun_anew_over_lines_that_nothing_leads_to(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path, segment_bytes=100) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit(text="one"))
        await append(store, log.unit(text="two"))
    for number in (2, 3):  # the line that leads to the third, and the first line of the third
        data = segment(path, number).read_bytes()
        place = data.index(b'"op":"continued"') if number == 2 else data.index(b'"op":"segment"')
        segment(path, number).write_bytes(data[:place] + b"#" + data[place + 1 :])
    async with open_file(path, segment_bytes=100) as (store, writer):
        row = await store.claim(log.id)
        assert row is not None
        assert await append(store, log.owned(row).unit(text="three")) == STORED
        found = await texts(store, log)

    assert found == ["one", "two", "three"]


async def test_a_line_that_stands_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    logs = await store_of_three_logs(path, 2)
    lines = segment(path).read_bytes().splitlines(keepends=True)
    segment(path).write_bytes(b"".join([*lines, *lines[3:6]]))
    async with open_file(path) as (store, _):
        found = [await texts(store, log) for log in logs]
        counted = await store.query("select count(*) from messages")
        damages = [str(damage) for damage in await store.damages()]

    assert found == [said(log, 2) for log in logs]
    assert counted.rows == [(6,)]
    assert len([damage for damage in damages if "twice" in damage]) == 3


async def test_a_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        await store_of_three_logs(tmp_path / name)
    shutil.copy(segment(tmp_path / "one"), segment(tmp_path / "two"))

    with pytest.raises(StoreDamaged, match="segment 1 of store"):
        await FileStore(str(tmp_path / "two")).open("program")
