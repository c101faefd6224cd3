"""What is not copied, and why: one store onto itself, into a place that is taken, and whatever is damaged."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import CopyRefused, StoreDamaged, StoreUnavailable
from agentos.history import copy_store
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.file import FileStore
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.log_units import post_of
from tests.history.copy_support import Left, goes_on
from tests.history.support import Desk, office


async def test_a_store_is_not_copied_onto_itself(left: Left, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "source.db")
    memory = MemoryStore()
    await memory.open("somebody")
    for source, destination in (
        (left.store, left.store),
        (left.store, SQLiteStore(str(tmp_path / "link.db"))),
        (memory, MemoryStore(beside=memory)),
    ):
        with pytest.raises(CopyRefused, match="one store"):
            await copy_store(source, destination)

    assert {row.owner for row in await left.store.logs()} != {0}


async def test_a_place_where_something_else_stands_is_refused(
    left: Left, make: Callable[[str], Store], desk: Desk
) -> None:
    other = make("other")
    async with office(other, desk) as kernel:
        await (await kernel.start("clerk")).ask("note text=mine")
    await copy_store(make("other"), make("strange"))
    await copy_store(left.store, make("worked"))
    await goes_on(make("worked"), desk, left)
    posted = make("posted")
    await posted.open("somebody")
    await posted.post(post_of(left.settled, "mine"))
    await posted.close()
    for name, reason in (
        ("other", "worked with"),
        ("strange", "is no beginning of|has not"),
        ("worked", "worked with"),
        ("posted", "waits in its"),
    ):
        with pytest.raises(CopyRefused, match=reason):
            await copy_store(left.store, make(name))


async def test_a_place_where_somebody_is_at_work_is_refused(left: Left, make: Callable[[str], Store]) -> None:
    other = make("other")
    await other.open("somebody")
    with pytest.raises(CopyRefused, match=r"writer 1 \(somebody\) is at work"):
        await copy_store(left.store, make("other"))
    await other.close()


async def test_another_beginning_is_refused(left: Left, make: Callable[[str], Store], desk: Desk) -> None:
    """Two that went on from one copy, each by itself."""
    await copy_store(left.store, make("one"))
    await copy_store(make("one"), make("two"))
    await goes_on(make("one"), desk, left)
    await copy_store(make("one"), make("three"))
    with pytest.raises(CopyRefused, match="is no beginning of that in"):
        await copy_store(make("two"), make("three"))


async def test_a_source_that_is_damaged_is_refused_with_log_and_seq(
    left: Left, make: Callable[[str], Store], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "source.db")) as db, db:
        n = db.execute("select n from logs where id = ?", (left.settled,)).fetchone()[0]
        db.execute("update entries set head = head || ' ' where n = ? and seq = 9", (n,))
    db.close()
    with pytest.raises(StoreDamaged, match=f"{left.settled} seq 9: entries.head"):
        await copy_store(left.store, make("copy"))
    found = make("copy")

    assert left.settled not in {row.id for row in await found.logs()}
    await found.close()


async def test_a_folder_that_lost_a_line_is_refused_before_anything_is_copied(left: Left, tmp_path: Path) -> None:
    """The log that the line was of is shorter, and its chain is in order: a copy of it would look whole."""
    await copy_store(left.store, FileStore(str(tmp_path / "folder")))
    file = tmp_path / "folder" / "segments" / "00000001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    hurt = max(i for i, line in enumerate(lines) if left.settled.encode() in line and b'"op":"unit"' in line)
    for kept in (0, 150):
        lines[hurt] = lines[hurt][:kept].ljust(len(lines[hurt]) - 1, b"#") + b"\n"
        file.write_bytes(b"".join(lines))
        source = FileStore(str(tmp_path / "folder"))
        with pytest.raises(StoreDamaged, match=rf"segments/00000001\.jsonl: {len(lines[hurt])} bytes at offset"):
            await copy_store(source, FileStore(str(tmp_path / "copy")))
        await source.close()

    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ("update messages set text = 'other' where n = {n} and seq = 2", "seq 2: messages.text"),
        ("delete from entries where n = {n} and seq = 4", "seq 4: entries.row"),
        ("update logs set digest = zeroblob(32) where n = {n}", "logs.digest"),
        ("update logs set seq = seq + 1 where n = {n}", "entries.row"),
        ("update inbox set seq = 2 where seq is not null and log = (select id from logs where n = {n})", "seq 2: keys"),
        ("delete from logs where n = {n}", "forks from .* which is not there"),
    ],
)
async def test_whatever_is_edited_in_a_source_is_found(
    left: Left, make: Callable[[str], Store], tmp_path: Path, edit: str, reason: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "source.db")) as db, db:
        n = db.execute("select n from logs where id = ?", (left.settled,)).fetchone()[0]
        db.execute(edit.format(n=n))
    db.close()
    with pytest.raises(StoreDamaged, match=reason):
        await copy_store(left.store, make("copy"))


async def test_a_source_that_is_not_there_makes_no_destination(make: Callable[[str], Store], tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        await copy_store(make("nowhere"), make("copy"))

    assert not (tmp_path / "copy.db").exists()


async def test_somebody_who_writes_into_the_destination_is_noticed(left: Left, tmp_path: Path) -> None:
    class Shared(SQLiteStore):
        def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
            units[-1].epoch += 1
            return super().append(units)

    with pytest.raises(CopyRefused, match="somebody else writes there"):
        await copy_store(left.store, Shared(str(tmp_path / "copy.db")))
