"""About how many bytes units and entries are, which decides where and in how many parts they are written and read."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.persistence.base import StoredEntry, Unit

ENTRY_BYTES, UNIT_BYTES = 160, 900
"""What an entry and a unit take beside their texts, about."""


def size_of(units: Sequence[Unit]) -> int:
    """Every letter counts for one, though it may take four."""
    size = UNIT_BYTES * len(units)
    for unit in units:
        for entry in unit.entries:
            size += ENTRY_BYTES + len(entry[6])
        for payload in unit.payloads:
            size += len(payload[4] or "")
        for message in unit.messages:
            size += len(message[5] or "")
        for definition in unit.definitions:
            size += len(definition[2])
        for component in unit.components:
            size += len(component[2])
        for post in unit.posts:
            size += len(post.body)
    return size


def size_of_entry(entry: StoredEntry) -> int:
    """The head of a stored entry and its values, counted alike."""
    return len(entry.head) + sum(len(body or "") for *_, body in entry.payloads)
