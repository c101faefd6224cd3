"""A SQLite file, asked by a model within bounds."""

from agentos.toolboxes.sqlite.toolbox import SqliteToolbox

__all__ = ["SqliteToolbox"]
