"""The three forms of the schema (SQL file, SQLAlchemy tables, literal statements) say the same."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Table, bindparam, create_engine, delete, func, null, or_, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql import ClauseElement

from agentos.persistence import rows, schema
from agentos.persistence.sqlite import file as sqlite_file
from agentos.persistence.sqlite import statements


def test_the_sql_file_and_the_tables_of_sqlalchemy_make_the_same_database() -> None:
    raw = sqlite3.connect(":memory:")
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    schema.metadata.create_all(engine)
    packaged = sqlite_file.open_in_memory()

    assert dict(_described(packaged)) == dict(_described(raw))
    assert packaged.execute("pragma user_version").fetchone() == (schema.SCHEMA_VERSION,)
    assert schema.SCHEMA_VERSION == sqlite_file.SCHEMA_VERSION
    engine.dispose()
    packaged.close()
    raw.close()


def test_the_rows_of_a_unit_have_the_columns_of_their_tables() -> None:
    for table, columns in (
        (schema.conversations, rows.CONVERSATION),
        (schema.turns, rows.TURN),
        (schema.calls, rows.CALL),
    ):
        assert table.columns.keys() == ["n", *columns, *rows.SET_APART.get(table.name, ())]


def test_every_view_can_be_read() -> None:
    db = sqlite_file.open_in_memory()
    views = [name for (name,) in db.execute("select name from sqlite_schema where type = 'view'")]

    assert sorted(views) == ["conversation_turns", "entities", "events", "history", "tool_calls"]
    for view in views:
        assert db.execute(f"select * from {view}").fetchall() == []
    db.close()


def test_a_listing_reads_no_private_text() -> None:
    db = sqlite_file.open_in_memory()
    plans = [
        db.execute(
            "explain query plan select id, tool, status, ms from tool_calls where conversation = 'x'"
        ).fetchall(),
        db.execute("explain query plan select * from events where conversation = 'x' order by seq").fetchall(),
        db.execute("explain query plan select id from conversations where open_turn > 0").fetchall(),
    ]

    for plan in plans:
        assert not re.search("payloads|messages|SCAN", str(plan))
    db.close()


def test_an_erase_looks_at_no_other_log() -> None:
    db = sqlite_file.open_in_memory()
    erasing = [sql for name, sql in LITERAL.items() if name.startswith("ERASE_")]
    plans = [db.execute(f"explain query plan {sql}", [1] * sql.count("?")).fetchall() for sql in erasing]
    db.close()

    assert len(plans) == 3
    for plan in plans:
        assert "SEARCH" in str(plan)
        assert "SCAN" not in str(plan)


def _upsert(table: Table) -> Insert:
    keys = [column.name for column in table.primary_key]
    apart = rows.SET_APART.get(table.name, ())
    kept = {*keys, *apart, *rows.SET_ONCE.get(table.name, ())}
    new = _insert(table, *apart)
    changed = {column.name: new.excluded[column.name] for column in table.columns if column.name not in kept}
    return new.on_conflict_do_update(index_elements=keys, set_=changed)


def _insert(table: Table, *left_out: str) -> Insert:
    return insert(table).values(
        {column.name: bindparam(column.name) for column in table.columns if column.name not in left_out}
    )


def _generated() -> dict[str, ClauseElement]:
    logs, inbox, wakeups, writers = schema.logs.c, schema.inbox.c, schema.wakeups.c, schema.writers.c
    at_head = [logs.n, logs.seq, logs.digest, logs.owner, logs.epoch]
    key_of_wakeup = [wakeups.log, wakeups.reason, wakeups.turn, wakeups.call]
    return {
        "INSERT_LOG": _insert(schema.logs, "n", "erased_at").on_conflict_do_nothing(index_elements=["id"]),
        "MOVE_HEAD": update(schema.logs)
        .values(seq=bindparam("to_seq"), digest=bindparam("to_digest"))
        .where(*(column == bindparam(None) for column in at_head)),
        "TAKE_LOG": update(schema.logs)
        .values(owner=bindparam("to_owner"), epoch=bindparam("to_epoch"))
        .where(logs.id == bindparam(None)),
        "INSERT_ENTRY": _insert(schema.entries),
        "INSERT_PAYLOAD": _insert(schema.payloads),
        "INSERT_MESSAGE": _insert(schema.messages),
        "SET_COMPONENT": _upsert(schema.components),
        "SET_CONVERSATION": _upsert(schema.conversations),
        "SET_TURN": _upsert(schema.turns),
        "SET_CALL": _upsert(schema.calls),
        "RESOLVE_CALL": update(schema.calls)
        .values(resolution=bindparam("to_resolution"))
        .where(schema.calls.c.n == bindparam(None), schema.calls.c.seq == bindparam(None)),
        "INSERT_DEFINITION": _insert(schema.definitions).on_conflict_do_nothing(index_elements=["digest"]),
        "INSERT_POST": _insert(schema.inbox, "n", "seq").on_conflict_do_nothing(index_elements=["log", "key"]),
        "TAKE_POST": update(schema.inbox)
        .values(salt=null(), body=null(), seq=bindparam("to_seq"))
        .where(inbox.log == bindparam(None), inbox.key == bindparam(None), inbox.seq.is_(None)),
        "ERASE_PAYLOADS": update(schema.payloads)
        .values(salt=null(), body=null())
        .where(schema.payloads.c.n == bindparam(None), schema.payloads.c.seq <= bindparam(None)),
        "ERASE_MESSAGES": update(schema.messages)
        .values(salt=null(), text=null())
        .where(schema.messages.c.n == bindparam(None), schema.messages.c.seq <= bindparam(None)),
        "ERASE_POSTS": update(schema.inbox)
        .values(salt=null(), body=null(), seq=func.coalesce(inbox.seq, bindparam("to_seq")))
        .where(inbox.log == bindparam(None), or_(inbox.seq.is_(None), inbox.body.is_not(None))),
        "MARK_ERASED": update(schema.logs).values(erased_at=bindparam("at")).where(logs.n == bindparam(None)),
        "SET_WAKEUP": _upsert(schema.wakeups),
        "DELETE_WAKEUP": delete(schema.wakeups).where(*(column == bindparam(None) for column in key_of_wakeup)),
        "INSERT_WRITER": _insert(schema.writers, "n", "beat_at", "ended_at"),
        "END_WRITER": update(schema.writers)
        .values(ended_at=bindparam("at"))
        .where(writers.n == bindparam(None), writers.ended_at.is_(None)),
    }


LITERAL = {name: value for name, value in vars(statements).items() if name.isupper()}


def test_every_literal_statement_is_compared() -> None:
    assert LITERAL.keys() == _generated().keys()


@pytest.mark.parametrize("name", LITERAL)
def test_a_literal_statement_is_what_sqlalchemy_makes_of_the_tables(name: str) -> None:
    compiled = str(_generated()[name].compile(dialect=sqlite.dialect(paramstyle="qmark")))

    assert LITERAL[name] == " ".join(compiled.split())


def _described(db: sqlite3.Connection) -> Iterator[tuple[str, Any]]:
    """Each table by name: columns, whether it has rowids, indexes."""
    for (table,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall():
        columns = [
            (name, _affinity(type_), not_null, default, key)
            for _, name, type_, not_null, default, key, _ in db.execute(f"pragma table_xinfo({table})")
        ]
        ((without_rowid,),) = db.execute("select wr from pragma_table_list where name = ?", (table,)).fetchall()
        yield table, (columns, without_rowid, sorted(_indexes(db, table)))


def _indexes(db: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    for _, name, unique, origin, partial in db.execute(f"pragma index_list({table})").fetchall():
        keys = [row[2:5] for row in db.execute(f"pragma index_xinfo({name})") if row[5]]
        ((sql,),) = db.execute("select sql from sqlite_schema where name = ?", (name,)).fetchall() or [(None,)]
        condition = (sql or "").lower().partition(" where ")[2]
        yield name, unique, origin, partial, keys, condition


def _affinity(type_: str) -> str:
    """SQLite's rule for declared types; see "Determination Of Column Affinity" in its documentation."""
    for affinity, parts in {"INTEGER": ("INT",), "TEXT": ("CHAR", "CLOB", "TEXT"), "BLOB": ("BLOB",)}.items():
        if any(part in type_.upper() for part in parts):
            return affinity
    raise AssertionError(type_)
