"""The shape of a SQLite store: its schema, the types of its values, its pages and indexes.

Columns of SQLite take values of any type, a trigger may change what is written, and another view may show what is not
there. The packaged schema says how all of it has to be; a file that was upgraded has the same tables in other words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

from agentos.persistence.shape import Misfit
from agentos.persistence.sqlite.file import open_in_memory

Fetch = Callable[[str], Awaitable[list[tuple[Any, ...]]]]

ROWS_MAX = 10
"""How many rows with a value of another type are named of each table, and how many faults of pages and indexes."""

_COMPARED = frozenset({"entries", "payloads", "messages", "components", "conversations", "turns", "calls"})
"""Tables whose values `verify` reads and compares, types and all, so that only their keys are looked at here."""

_OBJECTS = "select type, name, tbl_name, sql from sqlite_schema order by name"
_COLUMNS = (
    'select m.name, x.name, x.type, x."notnull", x.dflt_value, x.pk, x.hidden from sqlite_schema as m,'
    " pragma_table_xinfo(m.name) as x where m.type = 'table' order by m.name, x.cid"
)
_KEYS = (
    'select m.name, l.name, l."unique", l.origin, x.name, x."desc", x.coll from sqlite_schema as m,'
    " pragma_index_list(m.name) as l, pragma_index_xinfo(l.name) as x"
    " where m.type = 'table' and l.origin <> 'c' and x.key order by m.name, l.name, x.seqno"
)


class Column(NamedTuple):
    name: str
    type: str
    filled: bool
    key: bool


class Shape(NamedTuple):
    """Each object by name: its type and what tells it from another one; and the columns of each table."""

    objects: Mapping[str, tuple[str, str, object]]
    columns: Mapping[str, Sequence[Column]]


async def misfits_of(fetch: Fetch, *, rows: bool = True) -> list[Misfit]:
    """What is not as the packaged schema has it. fetch may not be bound to queries of people. Raises StoreError."""
    packaged = _packaged()
    found = _of_objects(packaged, _shape(await fetch(_OBJECTS), await fetch(_COLUMNS), await fetch(_KEYS)))
    if not rows:
        return found
    damaged = {misfit.field for misfit in found}
    for table, columns in packaged.columns.items():
        if table not in damaged:
            found += await _of_values(fetch, table, columns)
    for (fault,) in await fetch(f"pragma integrity_check({ROWS_MAX:d})"):
        if fault != "ok":
            found.append(Misfit(table="schema", field="pages", stored=fault, expected="ok"))
    return found


@cache
def _packaged() -> Shape:
    with closing(open_in_memory()) as db:
        return _shape(*[db.execute(sql).fetchall() for sql in (_OBJECTS, _COLUMNS, _KEYS)])


def _shape(
    objects: Sequence[tuple[Any, ...]], columns: Sequence[tuple[Any, ...]], keys: Sequence[tuple[Any, ...]]
) -> Shape:
    """Tables by their columns and keys, all else by its text, whatever its line breaks."""
    of_tables: dict[str, list[tuple[Any, ...]]] = {}
    for name, *rest in (*columns, *keys):
        of_tables.setdefault(name, []).append(tuple(rest))
    return Shape(
        {
            name: (type_, table, of_tables.get(name) if type_ == "table" else " ".join((sql or "").split()))
            for type_, name, table, sql in objects
        },
        {
            table: [
                Column(name, type_.lower(), bool(not_null), bool(key))
                for of, name, type_, not_null, _, key, _ in columns
                if of == table
            ]
            for table in dict.fromkeys(column[0] for column in columns)
        },
    )


def _of_objects(packaged: Shape, found: Shape) -> list[Misfit]:
    """What is missing or another one; and triggers, of which the schema has none."""
    misfits = [
        Misfit(table="schema", field=name, stored=f"a trigger on {table}", expected=None)
        for name, (type_, table, _) in found.objects.items()
        if type_ == "trigger"
    ]
    for name, wanted in packaged.objects.items():
        there = found.objects.get(name)
        if there != wanted:
            stored = None if there is None else there[0] if there[0] != wanted[0] else f"another {there[0]}"
            misfits.append(Misfit(table="schema", field=name, stored=stored, expected=f"the {wanted[0]} of the schema"))
    return misfits


async def _of_values(fetch: Fetch, table: str, columns: Sequence[Column]) -> list[Misfit]:
    looked_at = [column for column in columns if column.key or table not in _COMPARED]
    rows = await fetch(_typed(table, columns, looked_at))
    return [misfit for row in rows for misfit in _of_row(table, looked_at, row)]


def _of_row(table: str, columns: Sequence[Column], row: tuple[Any, ...]) -> Iterator[Misfit]:
    log, seq, *types = row
    for column, type_ in zip(columns, types, strict=True):
        if type_ not in _allowed(column):
            yield Misfit(
                log=log if isinstance(log, str) else None,
                seq=seq if isinstance(seq, int) else 0,
                table=table,
                field=column.name,
                stored=f"of type {type_}",
                expected=f"of type {column.type}",
            )


def _typed(table: str, columns: Sequence[Column], looked_at: Sequence[Column]) -> str:
    """The log, the seq and the types of each row with a value of another type. Names are those of the packaged schema."""
    names = {column.name for column in columns}
    log, seq = "null", "seq" if {"n", "seq"} <= names and table != "logs" else "0"
    if table == "logs":
        log = "id"
    elif "log" in names:
        log = "log"
    elif "n" in names and table != "writers":
        log = f"(select id from logs where logs.n = {table}.n)"  # noqa: S608 - a name of the packaged schema
    types = ", ".join(f"typeof({column.name})" for column in looked_at)
    wrong = " or ".join(f"typeof({column.name}) not in ({_listed(column)})" for column in looked_at)
    return f"select {log}, {seq}, {types} from {table} where {wrong} limit {ROWS_MAX:d}"  # noqa: S608


def _listed(column: Column) -> str:
    return ", ".join(f"'{type_}'" for type_ in _allowed(column))


def _allowed(column: Column) -> tuple[str, ...]:
    return (column.type,) if column.filled else (column.type, "null")
