"""Whatever units a batch holds, PostgreSQL keeps of it what SQLite keeps of it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Table

from agentos.persistence import schema
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.postgresql import statements
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.log_units import AT, SALT, LogUnits, append, post_of, wakeup_of
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import open_store

pytestmark = pytest.mark.anyio

NAMES = "abcdefgh"
KEYS = ("k1", "k2", "k3")
ROUNDS = 40


def _select(table: Table) -> str:
    """All of a table, with the names of logs for their numbers: numbers may be left out."""
    columns = [column.name for column in table.columns if column.name != "n"]
    if "n" not in table.columns or table.name in ("logs", "inbox"):
        order = ["n"] if table.name == "inbox" else [column.name for column in table.primary_key]
        order = ["id"] if table.name == "logs" else order
        return f"select {', '.join(columns)} from {table.name} order by {', '.join(order)}"
    order = [column.name for column in table.primary_key if column.name != "n"]
    return (
        f"select logs.id, {', '.join(f't.{name}' for name in columns)} from {table.name} as t"
        f" join logs on logs.n = t.n order by {', '.join(['logs.id', *(f't.{name}' for name in order)])}"
    )


TABLES = {
    table.name: _select(table)
    for table in schema.metadata.sorted_tables
    if table.name not in ("accounts", "writers", "store_version")
}


class Author:
    """Makes up batches of units over a few logs, by chance and the same for the same seed."""

    def __init__(self, seed: int, writer: int, *, crossing: bool) -> None:
        """crossing: units of one batch share logs, and take what others of the batch post, which a kernel never does."""
        self._random, self._crossing = Random(seed), crossing
        self._batches = 0
        self._logs = {name: LogUnits(name, writer) for name in NAMES}
        self._ids = [log.id for log in self._logs.values()]

    def batch(self) -> list[Unit]:
        self._batches += 1
        count = self._random.randint(1, 12)
        names = self._random.choices(NAMES, k=count) if self._crossing else self._random.sample(NAMES, min(count, 8))
        units = [self._unit(name) for name in names]
        if self._random.random() < 0.3:
            units.append(self._misfit())
        return units

    def settle(self, units: list[Unit], verdicts: list[Verdict]) -> None:
        """Logs go on from what was stored."""
        for unit, verdict in zip(units, verdicts, strict=True):
            log = next(log for log in self._logs.values() if log.id == unit.log)
            if verdict is Verdict.STORED:
                log.seq, log.digest = unit.seq, unit.digest

    def _unit(self, name: str) -> Unit:
        log, chance = self._logs[name], self._random
        unit = log.unit(*chance.choices(["a", "b", "snapshot"], k=chance.randint(1, 3)))
        first = unit.entries[0][0]
        if chance.random() < 0.5:
            unit.messages = [(first, "user", 1, 0, SALT, self._text())]
        unit.payloads = [(first, i, "text", SALT, self._text()) for i in range(1, chance.randint(1, 3))]
        if chance.random() < 0.5:
            unit.conversation = log.conversation(open_turn=chance.randint(0, 2), updated_at=AT + first)
        unit.turns = [self._turn() for _ in range(chance.randint(0, 2))]
        unit.calls = [self._call() for _ in range(chance.randint(0, 3))]
        unit.resolved = [(chance.randint(1, 4), chance.choice(["done", "failed"])) for _ in range(chance.randint(0, 2))]
        unit.components = [(log.id, chance.choice(["x", "y"]), self._text()) for _ in range(chance.randint(0, 2))]
        unit.posts = [
            post_of(chance.choice(self._ids), self._key(self._batches), self._text())
            for _ in range(chance.randint(0, 3))
        ]
        unit.taken = [self._key(self._batches - 1) for _ in range(chance.randint(0, 2))]
        unit.wakeups = [
            wakeup_of(log.id, chance.choice(KEYS), chance.randint(0, 9)) for _ in range(chance.randint(0, 2))
        ]
        unit.woken = [wakeup_of(log.id, chance.choice(KEYS), 0) for _ in range(chance.randint(0, 2))]
        unit.definitions = [(chance.choice(KEYS), "agent", self._text()) for _ in range(chance.randint(0, 2))]
        return unit

    def _key(self, batch: int) -> str:
        return self._random.choice(KEYS) + ("" if self._crossing else f" of batch {batch % 9}")

    def _misfit(self) -> Unit:
        """On a head that is not there, of another owner, or a log once more."""
        log = self._logs[self._random.choice(NAMES)]
        twin = LogUnits("", log.owner).owned(_row_of(log))
        twin.id, create = log.id, twin.create
        unit = twin.unit("never", previous=bytes(32), create=None)
        if self._random.random() < 0.3:
            unit.epoch = 5
        elif create is not None and self._random.random() < 0.3:
            create.id = log.id
            unit.create = create
        return unit

    def _turn(self) -> tuple[Any, ...]:
        counters = [self._random.randint(0, 99) for _ in range(5)]
        return (self._random.randint(1, 3), "running", None, None, *counters, None, self._text())

    def _call(self) -> tuple[Any, ...]:
        seq, step, attempt = (self._random.randint(1, 4) for _ in range(3))
        tool = self._random.choice(["note", "sum"])
        return (seq, 1, step, 0, tool, None, "once", "started", None, attempt, None, AT, None, 1, 0, None, None)

    def _text(self) -> str:
        return self._random.choice(["plain", "žluť 🐎", 'a "quoted\\" text', "{1,2}", "", "NULL", "\x01\n\t", "\u2028"])


def _row_of(log: LogUnits) -> Any:
    return type("Head", (), {"owner": log.owner, "epoch": log.epoch, "seq": log.seq, "digest": log.digest})


async def _whole(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {name: (await store.query(select)).rows for name, select in TABLES.items()}


@pytest.mark.parametrize("bytes_max", [16 * 1024 * 1024, 2_000], ids=["whole", "in parts"])
@pytest.mark.parametrize("seed", range(4))
async def test_batches_leave_what_they_leave_in_sqlite(
    postgres: PostgresServer, tmp_path: Path, seed: int, bytes_max: int
) -> None:
    lite = SQLiteStore(str(tmp_path / "store.db"))
    settings = Settings(append_bytes_max=bytes_max)
    async with open_store(postgres.new_schema_url(), settings=settings) as (store, writer):
        try:
            assert await lite.open("program") == writer
            author = Author(seed, writer, crossing=bytes_max > 2_000)
            for _ in range(ROUNDS):
                units = author.batch()
                expected = await append(lite, *units)

                assert await append(store, *units) == expected
                author.settle(units, expected)
            there, here = await _whole(lite), await _whole(store)
            for name in TABLES:
                assert here[name] == there[name], name
            assert all(there.values())
        finally:
            await lite.close()


def test_every_column_of_every_table_is_written() -> None:
    written = " ".join([statements.LOGS, *statements.ROWS.values()])
    for name in ("logs", "entries", "payloads", "messages", "components", "conversations", "turns", "calls"):
        columns = {column.name for column in schema.metadata.tables[name].columns} - {"erased_at"}
        (listed,) = [part.split(")")[0] for part in written.split("insert into ")[1:] if part.startswith(f"{name} (")]
        names = {word.strip() for word in listed.partition("(")[2].split(",")}

        assert names == columns - ({"n"} if name == "logs" else set()), name


async def test_a_batch_of_many_logs_and_a_large_text_go_through(postgres: PostgresServer) -> None:
    async with open_store(postgres.new_schema_url()) as (store, writer):
        logs = [LogUnits(str(i), writer) for i in range(600)]
        large = "ž" * 9_000_000
        created = await append(store, *(log.unit(text=str(i)) for i, log in enumerate(logs)))
        verdicts = await append(store, logs[0].unit(text=large), *(log.unit() for log in logs[1:]))

        assert {*created, *verdicts} == {Verdict.STORED}
        assert (await store.query("select count(*) from entries")).rows == [(1_200,)]
        assert (await store.entries(logs[0].id))[1].payloads == [(0, "text", SALT, large)]
