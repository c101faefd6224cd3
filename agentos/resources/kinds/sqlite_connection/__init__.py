"""Connections to a SQLite file that run the statements of others, within bounds."""

from agentos.resources.kinds.sqlite_connection.connections import SqliteConnection, SqliteConnections
from agentos.resources.kinds.sqlite_connection.guard import DatabaseAccess
from agentos.resources.kinds.sqlite_connection.link import FileGone, Link, SqliteLimits, open_link

__all__ = ["DatabaseAccess", "FileGone", "Link", "SqliteConnection", "SqliteConnections", "SqliteLimits", "open_link"]
