"""State that lasts: stores of logs, behind one protocol and one URL."""

from agentos.persistence.base import (
    InboxRow,
    LogRow,
    Rows,
    Store,
    StoredEntry,
    Unit,
    Verdict,
    WakeupRow,
)
from agentos.persistence.urls import open_store

__all__ = [
    "InboxRow",
    "LogRow",
    "Rows",
    "Store",
    "StoredEntry",
    "Unit",
    "Verdict",
    "WakeupRow",
    "open_store",
]
