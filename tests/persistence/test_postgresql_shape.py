"""What stands before the tables of a store in PostgreSQL, and hides or changes rows, is told."""

from __future__ import annotations

import pytest

from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.shape import Misfit
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store

pytestmark = pytest.mark.anyio

FUNCTION = "create function nothing() returns trigger language plpgsql as 'begin return null; end'"
TRIGGER = "create trigger x before insert on entries for each row execute function nothing()"


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of a store that has its tables."""
    url = postgres.new_schema_url()
    async with open_store(url):
        return url


async def misfits(url: str) -> list[Misfit]:
    store = PostgreSQLStore(url)
    try:
        return await store.misfits()
    finally:
        await store.close()


async def test_a_store_as_it_was_made_has_none(url: str) -> None:
    async with beside(url) as other:
        await other.execute("create view mine as select 1; create table notes (a int); create index i on calls (tool)")

    assert await misfits(url) == []


@pytest.mark.parametrize(
    ("sql", "field", "stored"),
    [
        (f"{FUNCTION}; {TRIGGER}", "x", "a trigger on entries"),
        ("create rule r as on delete to calls do instead nothing", "r", "a rule on calls"),
        ("alter table messages enable row level security", "messages", "row security, which hides rows"),
        ("alter table messages rename to m; create view messages as select * from m limit 1", "messages", "view"),
        ("drop view history", "history", None),
    ],
)  # fmt: skip
async def test_what_hides_or_changes_rows_is_named(url: str, sql: str, field: str, stored: str | None) -> None:
    async with beside(url) as other:
        await other.execute(sql)

    assert [(one.table, one.field, one.stored) for one in await misfits(url)] == [("schema", field, stored)]
