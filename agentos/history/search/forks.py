"""Which forks begin with an entry: it is searched, and shown, as that of the conversation in which it was said."""

from __future__ import annotations

from collections.abc import Mapping

from agentos.persistence.base import LogRow

FORKS_MAX = 100
"""How many forks are named with a hit."""


def forks_sharing(rows: Mapping[str, LogRow], log: str, seq: int) -> tuple[str, ...]:
    """Forks of the log, and forks of these, that were taken behind the entry at seq; in the order of rows."""
    found: dict[str, None] = {log: None}
    for row in rows.values():  # a parent is older than its forks
        if row.forked_from in found and row.upto >= seq:
            found[row.id] = None
            if len(found) > FORKS_MAX:
                break
    return tuple(found)[1:]
