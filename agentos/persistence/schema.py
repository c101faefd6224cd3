"""The tables of `sqlite/schema.sql` and `postgresql/schema.sql` for SQLAlchemy.

Nothing on the way of a turn imports this module. Tests prove that both databases report the same columns, keys and indexes
for the files and for these tables, and that `statements` is what SQLAlchemy makes of these tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

SCHEMA_VERSION = 3
metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""SQLite compares text by its bytes; so does PostgreSQL with this collation, whatever the locale of the database."""


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, _TEXT, nullable=null)


def _integer(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, _NUMBER, nullable=null)


def _blob(name: str, *, null: bool = False) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=null)


def _numbered(name: str, *items: SchemaItem) -> Table:
    """A table whose key is the number n that it gives itself, and none twice."""
    return Table(name, metadata, Column("n", _NUMBER, Identity(), primary_key=True), *items)


def _appended(name: str, key: tuple[str, ...], *items: SchemaItem) -> Table:
    """A table that is stored in the order of arrival."""
    return Table(name, metadata, *items, PrimaryKeyConstraint(*key))


def _keyed(name: str, key: tuple[str, ...], *items: SchemaItem) -> Table:
    """A table that is stored in the order of its key."""
    return Table(name, metadata, *items, PrimaryKeyConstraint(*key), sqlite_with_rowid=False)


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


logs = _numbered(
    "logs",
    _text("id"),
    _text("tenant", null=True),
    _text("kind"),
    _integer("owner"),
    _integer("epoch"),
    _integer("seq"),
    _blob("digest"),
    _text("parent_call", null=True),
    _text("root", null=True),
    _text("forked_from", null=True),
    _integer("upto"),
    _integer("erased_at", null=True),
    UniqueConstraint("id"),
)
Index("logs_forks", logs.c.forked_from, **_where("forked_from is not null"))

entries = _appended(
    "entries",
    ("n", "seq"),
    _integer("n"),
    _integer("seq"),
    _integer("unit"),
    _text("kind"),
    _integer("turn"),
    _integer("call"),
    _integer("at"),
    _text("head"),
    _blob("digest"),
)

payloads = _appended(
    "payloads",
    ("n", "seq", "i"),
    _integer("n"),
    _integer("seq"),
    _integer("i"),
    _text("name"),
    _blob("salt", null=True),
    _text("body", null=True),
)

messages = _appended(
    "messages",
    ("n", "seq"),
    _integer("n"),
    _integer("seq"),
    _text("role"),
    _integer("turn"),
    _integer("call"),
    _blob("salt", null=True),
    _text("text", null=True),
)

components = _keyed(
    "components",
    ("n", "entity", "type"),
    _integer("n"),
    _text("entity"),
    _text("type"),
    _text("body"),
)

conversations = _appended(
    "conversations",
    ("n",),
    Column("n", _NUMBER, autoincrement=False, nullable=False),
    _text("id"),
    _text("agent"),
    _text("state"),
    _integer("depth"),
    _text("parent", null=True),
    _text("root"),
    _integer("open_turn", null=True),
    _integer("turns"),
    _integer("steps"),
    _integer("calls"),
    _integer("input_tokens"),
    _integer("output_tokens"),
    _integer("started_at"),
    _integer("updated_at"),
)
Index("conversations_updated", conversations.c.updated_at)
Index("conversations_agent", conversations.c.agent, conversations.c.updated_at)
Index("conversations_open", conversations.c.open_turn, **_where("open_turn > 0"))
Index("conversations_parent", conversations.c.parent, **_where("parent is not null"))
Index("conversations_root", conversations.c.root, **_where("parent is not null"))

turns = _keyed(
    "turns",
    ("n", "seq"),
    _integer("n"),
    _integer("seq"),
    _text("state"),
    _text("outcome", null=True),
    _text("outcome_name", null=True),
    _integer("steps"),
    _integer("calls"),
    _integer("input_tokens"),
    _integer("output_tokens"),
    _integer("started_at"),
    _integer("finished_at", null=True),
    _text("context", null=True),
)

calls = _keyed(
    "calls",
    ("n", "seq"),
    _integer("n"),
    _integer("seq"),
    _integer("turn"),
    _integer("step"),
    _integer("ordinal"),
    _text("tool"),
    _text("toolbox", null=True),
    _text("effect"),
    _text("status"),
    _text("kind", null=True),
    _integer("attempt"),
    _text("child", null=True),
    _integer("started_at", null=True),
    _integer("finished_at", null=True),
    _integer("arguments_seq", null=True),
    _integer("arguments_i", null=True),
    _integer("result_seq", null=True),
    _integer("parent", null=True),
    _text("resolution", null=True),
)

definitions = _keyed("definitions", ("digest",), _text("digest"), _text("kind"), _text("body"))

inbox = _numbered(
    "inbox",
    _text("log"),
    _text("key"),
    _text("kind"),
    _blob("salt", null=True),
    _text("body", null=True),
    _integer("seq", null=True),
    UniqueConstraint("log", "key"),
)
Index("inbox_waiting", inbox.c.log, **_where("seq is null"))

wakeups = _keyed(
    "wakeups",
    ("log", "reason", "turn", "call"),
    _text("log"),
    _text("reason"),
    _integer("turn"),
    _integer("call"),
    _integer("due_at"),
)
Index("wakeups_due", wakeups.c.due_at)

accounts = _keyed(
    "accounts",
    ("id",),
    _text("id"),
    _text("tenant", null=True),
    _text("scope"),
    _text("entity"),
    _text("unit"),
    _integer("limit_amount", null=True),
    _integer("reserved"),
    _integer("used"),
    _integer("updated_at"),
)

writers = _numbered(
    "writers",
    _text("incarnation"),
    _text("host"),
    _integer("pid"),
    _integer("started_at"),
    _integer("beat_at", null=True),
    _integer("ended_at", null=True),
)
