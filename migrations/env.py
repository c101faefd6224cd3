"""Alembic's entry: runs the revisions on a connection that is given, inside the transaction that it holds.

The version of a store is one number, which changes with the rest of the transaction and is read without alembic: in SQLite
the `user_version` of the file, in PostgreSQL the row of table `store_version`. Alembic's own table is gone before the
transaction ends.
"""

from __future__ import annotations

from alembic import context

REVISION_TABLE = "store_revision"  # not alembic's usual name, which a program beside this one may use
READ = {"sqlite": "pragma user_version", "postgresql": "select version from store_version"}
WRITE = {"sqlite": "pragma user_version = {:d}", "postgresql": "update store_version set version = {:d}"}

connection = context.config.attributes["connection"]
dialect = connection.dialect.name


def stored_version() -> int:
    """0 for a database that has nothing of a store yet."""
    if dialect == "postgresql" and connection.exec_driver_sql("select to_regclass('store_version')").scalar() is None:
        return 0
    return int(connection.exec_driver_sql(READ[dialect]).scalar())


context.configure(connection=connection, version_table=REVISION_TABLE)
if version := stored_version():
    context.get_context().stamp(context.script, f"{version:04d}")
context.run_migrations()
revision = connection.exec_driver_sql(f"select version_num from {REVISION_TABLE}").scalar()  # noqa: S608 - our own name
connection.exec_driver_sql(WRITE[dialect].format(int(revision)))
connection.exec_driver_sql(f"drop table {REVISION_TABLE}")
