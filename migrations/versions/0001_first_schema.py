"""The first schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """A new store is made from the whole present schema; this says what older ones began with."""
    db = op.get_bind()
    here = Path(__file__)
    for statement in _statements(here.with_name(f"{here.stem}_{db.dialect.name}.sql").read_text("utf-8")):
        db.exec_driver_sql(statement)


def _statements(script: str) -> Iterator[str]:
    """One by one; what ends a statement for SQLite does so in both files."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
