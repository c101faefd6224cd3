"""The first schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """A new store is made from the whole present schema; this says what older ones began with."""
    statement = ""
    for line in Path(__file__).with_suffix(".sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            op.get_bind().exec_driver_sql(statement)
            statement = ""
