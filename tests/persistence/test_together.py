"""Units that are stored together are there all or not at all, whichever step fails, and the store goes on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from agentos.errors import StoreUnavailable
from agentos.persistence import open_store
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.together import append_together
from agentos.testing.log_units import LogUnits, append
from agentos.testing.postgres import PostgresServer
from tests.persistence.file_support import STORED, open_file, texts


class FailsAt:
    """Raises at the nth step from when it is set."""

    def __init__(self) -> None:
        self.step = 0

    def __call__(self, _: str) -> None:
        self.step -= 1
        if self.step == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def two_logs(writer: int) -> tuple[LogUnits, LogUnits, list[Unit]]:
    first, second = LogUnits("first", writer), LogUnits("second", writer)
    return first, second, [first.unit(text="a"), second.unit(text="b"), first.unit(text="c")]


@pytest.mark.parametrize("step", range(1, 6))
async def test_whatever_step_fails_none_or_all_are_stored(tmp_path: Path, step: int) -> None:
    path, fails = tmp_path / "store", FailsAt()
    async with open_file(path, point=fails) as (store, writer):
        first, second, units = two_logs(writer)
        before = LogUnits("before", writer)
        await append(store, before.unit(text="0"))
        fails.step = step
        try:
            stored = await append_together(store, units) == [Verdict.STORED] * 3
        except StoreUnavailable:
            stored = False
        fails.step = 0
        found = [row.id for row in await store.logs()]
        async with open_file(path) as (other, _):
            elsewhere = [row.id for row in await other.logs()]
        again = await append_together(store, units)
        verdicts = await append(store, before.unit(text="1"))
    async with open_file(path) as (store, _):
        expected = [await texts(store, log) for log in (before, first, second)]
        damages = await store.damages()

    assert found == elsewhere == ([before.id, first.id, second.id] if stored else [before.id])
    assert again == [Verdict.CONFLICT if stored else Verdict.STORED] * 3
    assert verdicts == STORED
    assert expected == [["0", "1"], ["a", "c"], ["b"]]
    assert damages == []


async def test_a_handle_that_had_read_to_the_end_sees_them(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_file(path) as (store, writer), open_file(path) as (other, other_writer):
        first, second, units = two_logs(writer)
        assert await other.logs() == []
        assert await append_together(store, units) == [Verdict.STORED] * 3
        seen = {row.id: row.seq for row in await other.logs()}
        later = await append(other, LogUnits("later", other_writer).unit(text="d"))
        found = len(await store.logs())

    assert seen == {first.id: 2, second.id: 1}
    assert (later, found) == (STORED, 3)


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/store.db", "file:{}/store"])
async def test_every_store_takes_none_when_one_does_not_fit(tmp_path: Path, url: str) -> None:
    store = open_store(url.format(tmp_path))
    writer = await store.open("one")
    first, second, units = two_logs(writer)
    await append_together(store, units[:1])

    await check_none_of_them(store, first, second, units)


async def test_postgresql_takes_none_when_one_does_not_fit(postgres: PostgresServer) -> None:
    store = open_store(postgres.new_schema_url())
    writer = await store.open("one")
    first, second, units = two_logs(writer)
    await append_together(store, units[:1])

    await check_none_of_them(store, first, second, units)


async def check_none_of_them(store: Store, first: LogUnits, second: LogUnits, units: list[Unit]) -> None:
    """The first unit is there; it does not fit any more, nor does one that is fenced, and the others fit by themselves."""
    verdicts = await append_together(store, units)
    of_another = [*units[1:2], msgspec.structs.replace(units[2], epoch=77), *units[2:]]
    fenced = await append_together(store, of_another)
    rest = await append_together(store, units[1:])

    assert verdicts == [Verdict.CONFLICT] * 3
    assert Verdict.STORED not in fenced
    assert rest == [Verdict.STORED] * 2
    assert [entry.seq for entry in await store.entries(first.id)] == [1, 2]
    assert [entry.seq for entry in await store.entries(second.id)] == [1]
    await store.close()
