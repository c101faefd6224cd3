"""The shape of a PostgreSQL store: its tables and views are there, and nothing stands before them that hides or changes rows.

The server keeps the types, the keys and the pages. What a view selects is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any

from agentos.persistence.shape import Misfit

Fetch = Callable[[str], Awaitable[list[Any]]]

_RELATIONS = (
    "select relname::text, relkind::text, relrowsecurity from pg_class join pg_namespace on pg_namespace.oid = relnamespace"
    " where nspname = current_schema()"
)
_TRIGGERS = (
    "select relname::text, tgname::text from pg_trigger join pg_class on pg_class.oid = tgrelid"
    " join pg_namespace on pg_namespace.oid = relnamespace"
    " where not tgisinternal and nspname = current_schema() order by tgname"
)
_RULES = "select tablename::text, rulename::text from pg_rules where schemaname = current_schema() order by rulename"
_KINDS = {"r": "table", "v": "view", "m": "materialized view", "f": "foreign table", "p": "partitioned table"}
_CREATE = re.compile(r"^create (table|view) (\w+)", re.MULTILINE)


async def misfits_of(fetch: Fetch) -> list[Misfit]:
    """What is not as the packaged schema has it. Raises StoreUnavailable."""
    relations = {name: (_KINDS.get(kind, kind), secured) for name, kind, secured in await fetch(_RELATIONS)}
    found = list(_of_relations(relations))
    for what, sql in (("trigger", _TRIGGERS), ("rule", _RULES)):
        for table, name in await fetch(sql):
            if table in _packaged():
                found.append(Misfit(table="schema", field=name, stored=f"a {what} on {table}", expected=None))
    return found


def _of_relations(relations: dict[str, tuple[str, bool]]) -> Iterator[Misfit]:
    for name, wanted in _packaged().items():
        kind, secured = relations.get(name, (None, False))
        if kind != wanted:
            yield Misfit(table="schema", field=name, stored=kind, expected=f"the {wanted} of the schema")
        elif secured:
            yield Misfit(table="schema", field=name, stored="row security, which hides rows", expected=None)


@cache
def _packaged() -> dict[str, str]:
    """Tables and views by name."""
    sql = resources.files("agentos.persistence.postgresql").joinpath("schema.sql").read_text("utf-8")
    return {name: kind for kind, name in _CREATE.findall(sql)}
