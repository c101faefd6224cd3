"""The part of the contract of stores that a person with SQL sees; see `store_contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentos.errors import QueryRefused
from agentos.ids import call_id, turn_id
from agentos.persistence.base import Store, Unit, Verdict
from agentos.settings import Settings
from agentos.testing.log_units import AT, SALT, SECOND, LogUnits, append, opened

CONTRACT_SETTINGS = Settings(query_rows_max=1_000, query_bytes_max=1_000_000, query_s=0.5)
"""What the handles of the contract are made with, so that limits are reached soon."""


class QueryContract:
    """Tables and views with plain columns, and statements that only read."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_messages_are_read_with_plain_sql(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(text="hello"))
            await append(store, log.unit(text="hi", role="assistant"))
            answer = await store.query("select role, text from messages")

            assert answer.columns == ("role", "text")
            assert answer.rows == [("user", "hello"), ("assistant", "hi")]

    async def test_a_query_sees_what_was_stored_since_the_last_one(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            counts = []
            for _ in range(3):
                await append(store, log.unit(conversation=log.conversation(open_turn=log.seq + 1)))
                counts.append(
                    (await store.query("select seq from logs union all select open_turn from conversations")).rows
                )
            row = await store.claim(log.id)
            assert row is not None
            await append(store, log.owned(row).unit())

            assert counts == [[(1,), (1,)], [(2,), (2,)], [(3,), (3,)]]
            assert (await store.query("select seq, owner, epoch from logs")).rows == [(4, writer, 2)]

    async def test_the_views_have_whole_ids_and_times(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, _turn_with_a_call(log))
            events = await store.query(
                "select seq, kind, turn_id, call_id, at, at_us from events where conversation = ? order by seq",
                (log.id,),
            )
            calls = await store.query("select * from tool_calls where conversation = ?", (log.id,))
            turns = await store.query("select id, outcome, started_at, ms, context from conversation_turns")
            entities = await store.query("select id, kind, conversation, type, body from entities")

            assert events.rows[2] == (
                3, "call.proposed", turn_id(log.id, 2), call_id(log.id, 3),
                "2026-11-30T09:46:17.123456Z", AT + 3 * SECOND,
            )  # fmt: skip
            assert dict(zip(calls.columns, calls.rows[0], strict=True)) == {
                "id": call_id(log.id, 3),
                "conversation": log.id,
                "turn": turn_id(log.id, 2),
                "tool": "note",
                "toolbox": "notes",
                "status": "done",
                "kind": None,
                "attempt": 1,
                "child": None,
                "arguments": '{"text":"hello"}',
                "result": "noted",
                "started_at": "2026-11-30T09:46:14.123456Z",
                "finished_at": "2026-11-30T09:46:14.124956Z",
                "ms": 1.5,
                "parent_call": None,
                "resolution": None,
            }
            assert turns.rows == [(turn_id(log.id, 2), "completed", "2026-11-30T09:46:14.123456Z", 2.0, "c0ffee")]
            assert entities.rows == [(log.id, "conversation", log.id, "conversation_state", "{}")]

    async def test_an_inner_call_names_its_parent_and_its_result_is_no_message(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, _turn_with_a_call(log))
            inner = log.unit("call.nested", "call.finished")
            inner.payloads = [(5, 0, "arguments", SALT, "{}"), (6, 0, "result", SALT, "brought")]
            inner.calls = [(5, 2, 0, 1, "note", "notes", "once", "done", None, 1, None, AT, AT + 1, 5, 0, 6, 3)]
            await append(store, inner)

            calls = "select id, arguments, result, parent_call from tool_calls where parent_call is not null"
            assert (await store.query(calls)).rows == [(call_id(log.id, 5), "{}", "brought", call_id(log.id, 3))]
            assert [role for (role,) in (await store.query("select role from history")).rows] == ["user", "tool"]
            assert (await store.entries(log.id, 5))[0].payloads == [(0, "result", SALT, "brought")]

    async def test_a_later_row_of_a_turn_or_call_replaces_the_one_before(
        self, store_factory: Callable[[], Store]
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            unit = _turn_with_a_call(log)
            (turn,), (call,), (component,) = unit.turns, unit.calls, unit.components
            unit.turns = [(turn[0], "running", None, None, *turn[4:9], None, "c0ffee")]
            unit.calls = [(*call[:7], "started", None, 1, None, AT, None, None, None, None, None)]
            await append(store, unit)
            await append(store, log.unit(turns=[turn], calls=[call], components=[(*component[:2], '{"turns":1}')]))

            assert (await store.query("select state, outcome, finished_at from turns")).rows == [
                ("settled", "completed", AT + 2_000)
            ]
            assert (await store.query("select status, result from tool_calls")).rows == [("done", "noted")]
            assert (await store.query("select body from components")).rows == [('{"turns":1}',)]

    async def test_history_follows_forks(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("root", writer)
            await append(store, log.unit(text="one"))
            fork = LogUnits("fork", writer, fork_of=await store.log(log.id))
            await append(store, log.unit(text="not shared"))
            await append(store, fork.unit(text="two", role="assistant"))
            deeper = LogUnits("deeper", writer, fork_of=await store.log(fork.id))
            await append(store, fork.unit(text="not shared"))
            await append(store, deeper.unit(text="three"))
            sql = "select seq, role, text from history where conversation = ? order by seq"
            histories = [(await store.query(sql, (id_,))).rows for id_ in (log.id, deeper.id)]

            assert histories == [
                [(1, "user", "one"), (2, "user", "not shared")],
                [(1, "user", "one"), (2, "assistant", "two"), (3, "user", "three")],
            ]

    @pytest.mark.parametrize(
        "sql",
        [
            "select 1; select 2",
            "select 1; drop table entries",
            "insert into definitions values ('d', 'agent', '{}')",
            "update entries set head = ''",
            "delete from entries",
            "with x as (select 1) delete from entries",
            "drop table entries",
            "create table mine (x integer)",
            "create temp table mine (x integer)",
            "attach 'other.db' as other",
            "vacuum into 'other.db'",
            "pragma user_version = 9",
            "pragma query_only = 0",
            "select * from pragma_table_info('entries')",
            "select load_extension('other')",
            "begin immediate",
            "commit",
            "select no_such_column from entries",
            "selec 1",
            "select 1\0",
            "select '\ud800'",
            "",
            "-- nothing",
        ],
    )
    async def test_a_statement_that_does_more_than_read_is_refused(
        self, store_factory: Callable[[], Store], sql: str
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit(text="hello"))

            with pytest.raises(QueryRefused, match="one statement that only reads"):
                await store.query(sql)
            assert (await store.query("select kind, text from entries join messages using (n, seq)")).rows == [
                ("input.received", "hello")
            ]
            assert await append(store, log.unit()) == [Verdict.STORED]

    async def test_parameters_are_bound_and_never_part_of_the_statement(
        self, store_factory: Callable[[], Store]
    ) -> None:
        text = "'; drop table messages; --"
        async with opened(store_factory) as (store, writer):
            await append(store, LogUnits("a", writer).unit(text=text))

            assert (await store.query("select count(*) from messages where text = ?", (text,))).rows == [(1,)]
            with pytest.raises(QueryRefused):
                await store.query("select ?", ())
            with pytest.raises(QueryRefused):
                await store.query("select ?", (object(),))

    @pytest.mark.parametrize(
        "sql",
        [
            "with recursive x(i) as (select 1 union all select i + 1 from x) select count(*) from x",
            "with recursive x(i) as (select 1 union all select i + 1 from x) select i from x where i < 0",
        ],
    )
    async def test_an_endless_query_is_stopped_at_the_time_limit(
        self, store_factory: Callable[[], Store], sql: str
    ) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())

            with pytest.raises(QueryRefused, match="query_s"):
                await store.query(sql)
            assert (await store.query("select 1")).rows == [(1,)]
            assert await append(store, log.unit()) == [Verdict.STORED]

    async def test_appends_go_on_beside_a_long_query(self, store_factory: Callable[[], Store]) -> None:
        async with opened(store_factory) as (store, writer):
            log = LogUnits("a", writer)
            await append(store, log.unit())
            endless = "with recursive x(i) as (select 1 union all select i + 1 from x) select count(*) from x"
            asking = asyncio.ensure_future(store.query(endless))
            await asyncio.sleep(0.1)
            verdicts = await append(store, log.unit())
            asking.cancel()

            with pytest.raises((asyncio.CancelledError, QueryRefused)):  # its time is over by then on a slow machine
                await asking
            assert verdicts == [Verdict.STORED]
            assert (await store.query("select max(seq) from entries")).rows == [(2,)]

    async def test_too_many_rows_are_refused(self, store_factory: Callable[[], Store]) -> None:
        rows = "with recursive x(i) as (select 1 union all select i + 1 from x where i < {}) select i from x"
        async with opened(store_factory) as (store, _):
            enough = await store.query(rows.format(CONTRACT_SETTINGS.query_rows_max))

            assert len(enough.rows) == CONTRACT_SETTINGS.query_rows_max
            with pytest.raises(QueryRefused, match="query_rows_max"):
                await store.query(rows.format(CONTRACT_SETTINGS.query_rows_max + 1))

    async def test_too_much_text_is_refused(self, store_factory: Callable[[], Store]) -> None:
        large, too_large = "x" * 400_000, "x" * (CONTRACT_SETTINGS.query_bytes_max + 1)
        async with opened(store_factory) as (store, writer):
            log, other = LogUnits("a", writer), LogUnits("b", writer)
            await append(store, log.unit(text=large), log.unit(text=large))
            of_log = "select messages.text from messages join logs on logs.n = messages.n where logs.id = ?"
            enough = await store.query(of_log, (log.id,))
            await append(store, log.unit(text=large), other.unit(text=too_large))

            assert len(enough.rows) == 2
            for id_ in (log.id, other.id):
                with pytest.raises(QueryRefused, match="query_bytes_max"):
                    await store.query(of_log, (id_,))
            assert (await store.query("select count(*) from messages")).rows == [(4,)]
            assert len((await store.entries(other.id))[0].payloads[0][3] or "") == len(too_large)


def _turn_with_a_call(log: LogUnits) -> Unit:
    """An input, a turn (2) and its call (3) that ended, in one unit."""
    unit = log.unit("input.received", "turn.started", "call.proposed", "call.finished")
    numbers: list[tuple[int, int]] = [(0, 0), (2, 0), (2, 3), (2, 3)]
    unit.entries = [(*row[:3], *places, *row[5:]) for row, places in zip(unit.entries, numbers, strict=True)]
    unit.messages = [(1, "user", 2, 0, SALT, "hello"), (4, "tool", 2, 3, SALT, "noted")]
    unit.payloads = [(3, 2, "arguments", SALT, '{"text":"hello"}')]
    call: tuple[Any, ...] = (3, 2, 0, 0, "note", "notes", "once", "done", None, 1, None, AT, AT + 1_500, 3, 2, 4, None)
    unit.turns = [(2, "settled", "completed", None, 2, 1, 100, 200, AT, AT + 2_000, "c0ffee")]
    unit.calls = [call]
    unit.components = [(log.id, "conversation_state", "{}")]
    return unit
