"""The file adapter: a folder of lines that a person can read."""

from agentos.persistence.file.store import FileStore

__all__ = ["FileStore"]
