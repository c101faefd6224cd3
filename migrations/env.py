"""Alembic's entry: runs the revisions on a connection that is given, inside the transaction that it holds.

The version of a store is its `user_version`, which SQLite changes with the rest of the transaction and which is read without
alembic. Alembic's own table is gone before the transaction ends.
"""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
(version,) = connection.exec_driver_sql("pragma user_version").one()
context.configure(connection=connection)
if version:
    context.get_context().stamp(context.script, f"{version:04d}")
context.run_migrations()
connection.exec_driver_sql("drop table alembic_version")
