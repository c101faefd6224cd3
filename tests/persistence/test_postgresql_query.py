"""A person's query in PostgreSQL: what it may call, what its values are, and what stops it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import asyncpg
import pytest
from asyncpg.cursor import Cursor

from agentos.errors import QueryRefused, StoreUnavailable
from agentos.persistence.base import Verdict
from agentos.persistence.postgresql.querying import check_functions
from agentos.settings import Settings
from agentos.testing.log_units import SALT, LogUnits, append
from agentos.testing.postgres import PostgresServer
from tests.persistence.postgresql_support import beside, open_store, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "sql",
    [
        "select pg_sleep(1000)",
        "select pg_sleep /* so */ (1000)",
        "select pg_sleep -- so\n (1000)",
        'select "pg_sleep"(1000)',
        "select PG_SLEEP(1000)",
        "select pg_catalog.pg_sleep(1000)",
        'select pg_catalog . "pg_sleep" (1000)',
        "select U&\"pg\\005fsleep\"(1000)",
        "select U&\"pg!005fsleep\" uescape '!' (1000)",
        "select E'a'\n'\\'' , pg_sleep(1000) , ''",
        "select 1 --\r, pg_sleep(1000)",
        "select $\u00a0$ ' $\u00a0$ , pg_sleep(1000) , $\u00a0$ ' $\u00a0$",
        "select 1 as a\u00a0$$, pg_sleep(1000) as b\u00a0$$",
        "select pg_read_file('/etc/passwd')",
        "select * from pg_ls_dir('/')",
        "select pg_terminate_backend(pg_backend_pid())",
        "select pg_cancel_backend(1)",
        "select pg_reload_conf()",
        "select pg_advisory_lock(1)",
        "select pg_try_advisory_xact_lock(1)",
        "select pg_notify('agentos_agentos', '1')",
        "select set_config('statement_timeout', '0', false)",
        "select nextval('logs_n_seq')",
        "select setval('logs_n_seq', 1)",
        "select lo_export(1, '/tmp/x')",
        "select lo_import('/etc/passwd')",
        "select * from dblink('', 'drop table entries') as x(a int)",
        "select query_to_xml('delete from entries', true, true, '')",
        "select * from ts_stat('delete from entries')",
        "select 1 into other",
        "select * from entries for update",
        "copy entries to '/tmp/x'",
        "explain analyze select 1",
        "show all",
        "do 'begin end'",
        "call something()",
        "listen x",
        "set role postgres",
        "lock table logs",
        "prepare x as select 1",
        "table entries; table entries",
        "with x as (insert into definitions values ('d', 'agent', '{}') returning 1) select * from x",
        "select $1 || $2",
    ],
)  # fmt: skip
async def test_what_reaches_beyond_reading_is_refused(postgres: PostgresServer, sql: str) -> None:
    async with open_store(postgres.new_schema_url(), settings=Settings(query_s=5.0)) as (store, writer):
        log = LogUnits("a", writer)
        await append(store, log.unit())
        with pytest.raises(QueryRefused, match="one statement that only reads"):
            await store.query(sql)

        assert (await store.query("select seq from logs")).rows == [(1,)]
        assert await append(store, log.unit()) == [Verdict.STORED]


async def test_statements_are_read_as_the_server_reads_them(postgres: PostgresServer) -> None:
    """Of statements put together by chance the server runs some; no call that it sees in one is overlooked here."""
    pieces = (*_PIECES, *(piece + "wild()" for piece in _PIECES), "wild/**/()", "wild--\r()", '"wild"()', "WILD ()")
    chance, seen = Random(1), 0
    async with beside(postgres.url(schema="public")) as connection:
        body = "language plpgsql as 'begin raise exception ''called''; end'"
        await connection.execute(f"create or replace function wild() returns text {body}")
        for _ in range(3_000):
            sql = "select " + "".join(chance.choices(pieces, k=chance.randint(1, 8)))
            try:
                await connection.fetch(sql)
            except asyncpg.RaiseError:
                seen += 1
                with pytest.raises(QueryRefused):
                    check_functions(sql, frozenset({"wild"}))
            except (asyncpg.PostgresError, asyncpg.InterfaceError):
                pass  # no statement, or one with a parameter
        await connection.execute("drop function wild()")

    assert seen > 50


_PIECES = (
    *("'", "''", "E'", "\\'", "\\", "\n", "\r", " ", "$$", "$a$", "$\u00a0$", "a", "\u00a0", "ž", "--", "/*", "*/"),
    *('"', 'U&"', "U&'", ",", ", ", "||", " as ", "1", "'x'", "'x',", "--\r", "--\n", "$$x$$,", "E'x'\n", "a$$"),
)


async def test_no_operator_or_cast_of_the_server_is_more_than_it_seems(postgres: PostgresServer) -> None:
    """Functions are looked at by their names; these have none."""
    async with beside(postgres.url(schema="public")) as connection:
        operators = await connection.fetch(
            "select oprname from pg_operator join pg_proc on pg_proc.oid = oprcode where provolatile = 'v'"
        )
        casts = await connection.fetch(
            "select castfunc::regproc from pg_cast join pg_proc on pg_proc.oid = castfunc where provolatile = 'v'"
        )

    assert (operators, casts) == ([], [])


async def test_a_function_of_ones_own_is_judged_by_what_it_says_of_itself(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    async with open_store(url) as (store, _), beside(url) as owner:
        body = "language sql as 'select 1'"
        await owner.execute(
            f"create function calm() returns int stable {body}; create function wild() returns int {body}"
        )

        await owner.execute(f'create function "ŽivÝ"() returns int {body}')

        assert (await store.query("select calm()")).rows == [(1,)]
        with pytest.raises(QueryRefused, match="the function ŽivÝ may do more"):
            await store.query("select ŽIVÝ()")
        with pytest.raises(QueryRefused, match="the function wild may do more"):
            await store.query("select wild()")
        assert (await store.query("select 1 as wild, 2 as pg_sleep")).columns == ("wild", "pg_sleep")


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select 1", 1),
        ("select 1.5::float8", 1.5),
        ("select sum(x) from (values (1::int8), (2)) as v(x)", 3),
        ("select avg(x) from (values (1), (2)) as v(x)", 1.5),
        ("select 1e30::numeric", 10**30),
        ("select true", 1),
        ("select null", None),
        ("select 'text'::varchar", "text"),
        ("select '\\x00ff'::bytea", b"\x00\xff"),
        ("select timestamp '2026-11-30 09:46:17'", "2026-11-30T09:46:17"),
        ("select date '2026-11-30'", "2026-11-30"),
        ("select '{\"a\":1}'::jsonb ->> 'a'", "1"),
        ("(select 2)", 2),
        ("table store_version", 3),
        ("values (7)", 7),
        ("-- first\n/* then */ select 8", 8),
        ("select pg_total_relation_size('entries') > 0", 1),
        ("select count(*) from logs tablesample bernoulli (100)", 0),
    ],
)
async def test_values_come_back_as_plain_python(postgres: PostgresServer, sql: str, value: Any) -> None:
    async with open_store(postgres.new_schema_url()) as (store, _):
        ((found,),) = (await store.query(sql)).rows

        assert found == value
        assert type(found) is type(value)


@pytest.mark.parametrize(
    ("sql", "given", "count"),
    [
        ("select count(*) from logs where seq = ?", (1,), 1),
        ("select count(*) from logs where seq = ?", ("1",), 1),
        ("select count(*) from logs where kind = ?", ("conversation",), 1),
        ("select count(*) from logs where kind = ?2 and seq = ?1", (1, "conversation"), 1),
        ("select count(*) from messages where salt = ?", (SALT,), 1),
        ("select count(*) from logs where seq / 2.0 < ?", ("0.6",), 1),
        ("select count(*) from logs where id = ?", (5,), 0),
        ("select count(*) from logs where kind like '%?%' or kind = ?", ("conversation",), 1),
    ],
)
async def test_parameters_are_taken_as_their_columns_are(
    postgres: PostgresServer, sql: str, given: tuple[Any, ...], count: int
) -> None:
    async with open_store(postgres.new_schema_url()) as (store, writer):
        await append(store, LogUnits("a", writer).unit(text="hello"))

        assert (await store.query(sql, given)).rows == [(count,)]


@pytest.mark.parametrize("given", [(), ("1", "2"), ("many",), (2**70,), ("\ud800",), ("a\0b",), ([1],)])
async def test_values_that_do_not_fit_are_refused(postgres: PostgresServer, given: tuple[Any, ...]) -> None:
    async with open_store(postgres.new_schema_url()) as (store, _):
        with pytest.raises(QueryRefused, match="one statement that only reads"):
            await store.query("select count(*) from logs where seq = ?", given)
        if given[:1] not in (("many",), (2**70,)):  # which are as good a text as any
            with pytest.raises(QueryRefused, match="one statement that only reads"):
                await store.query("select count(*) from logs where id = ?", given)


async def test_a_query_brings_back_so_many_bytes_at_most(postgres: PostgresServer) -> None:
    settings = Settings(query_bytes_max=100_000)
    async with open_store(postgres.new_schema_url(), settings=settings) as (store, _):
        some = await store.query("select repeat('x', 1000) from generate_series(1, 50)")

        assert len(some.rows) == 50
        with pytest.raises(QueryRefused, match="query_bytes_max"):
            await store.query("select repeat('x', 1000) from generate_series(1, 100000)")


async def test_large_rows_are_fetched_a_few_at_a_time(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[int] = []
    fetch = Cursor.fetch

    async def counted(self: Cursor, count: int, **options: Any) -> Any:
        wanted.append(count)
        return await fetch(self, count, **options)

    monkeypatch.setattr(Cursor, "fetch", counted)
    async with open_store(postgres.new_schema_url(), settings=Settings(query_bytes_max=100_000)) as (store, _):
        with pytest.raises(QueryRefused, match="query_bytes_max"):
            await store.query("select repeat('x', 40000) from generate_series(1, 1000)")

        assert sum(wanted) <= 4


async def test_no_query_runs_before_it_is_known_what_may_be_called(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [asyncio.CancelledError(), asyncpg.QueryCanceledError("for a test")]
    fetch = asyncpg.Connection.fetch

    async def fetch_badly(self: asyncpg.Connection[Any], sql: str, *values: Any) -> Any:
        if "provolatile" in sql and faults:
            raise faults.pop(0)
        return await fetch(self, sql, *values)

    monkeypatch.setattr(asyncpg.Connection, "fetch", fetch_badly)
    async with open_store(postgres.new_schema_url()) as (store, _):
        for kind in (asyncio.CancelledError, StoreUnavailable):
            with pytest.raises(kind):
                await store.query("select 1")
        with pytest.raises(QueryRefused, match="the function pg_notify may do more"):
            await store.query("select pg_notify('a', 'b')")


async def test_a_cancelled_query_ends_on_the_server_too(postgres: PostgresServer) -> None:
    url = postgres.new_schema_url()
    endless = "with recursive x(i) as (select 1 union all select i + 1 from x) select max(i), 'mark' from x"
    async with open_store(url, settings=Settings(query_s=3_600.0)) as (store, _), beside(url) as other:
        running = "select count(*) from pg_stat_activity where state = 'active' and query like '%''mark''%' and pid <> "

        async def count() -> int:
            return int(await other.fetchval(running + "pg_backend_pid()"))

        async def runs() -> bool:
            return await count() == 1

        async def is_over() -> bool:
            return await count() == 0

        asking = asyncio.ensure_future(store.query(endless))
        await until(runs)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        await until(is_over)
        assert (await store.query("select 1")).rows == [(1,)]


async def test_a_query_leaves_no_setting_behind(postgres: PostgresServer) -> None:
    async with open_store(postgres.new_schema_url()) as (store, _):
        before = await store.query(
            "select name, setting from pg_settings where name in ('statement_timeout', 'search_path')"
        )
        after = await store.query(
            "select name, setting from pg_settings where name in ('statement_timeout', 'search_path')"
        )

        assert before.rows == after.rows
        assert dict(before.rows)["statement_timeout"] == "30000"
