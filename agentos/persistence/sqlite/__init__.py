"""The SQLite adapter: one file, or a database in memory."""

from agentos.persistence.sqlite.store import IN_MEMORY, SQLiteStore

__all__ = ["IN_MEMORY", "SQLiteStore"]
