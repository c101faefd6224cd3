"""How a store without a database answers queries: it does what was done to it again to a private SQLite database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from agentos.persistence.base import Unit
from agentos.settings import Settings

if TYPE_CHECKING:
    import sqlite3

    from agentos.persistence.sqlite.querying import Querier

T = TypeVar("T")


def make_querier(url: str, settings: Settings, feed: Callable[[sqlite3.Connection], Awaitable[None]]) -> Querier:
    """Runs queries on a new database in memory. `feed` brings in, before each, what is not there yet."""
    from agentos.persistence.sqlite.file import open_in_memory
    from agentos.persistence.sqlite.querying import Querier

    limits = settings.query_rows_max, settings.query_s
    return Querier(url, open_in_memory, *limits, feed, bytes_max=settings.query_bytes_max)


def in_batches(operations: Iterable[Unit | T]) -> Iterator[list[Unit] | T]:
    """Neighbouring units as one batch, which ends waits before it sets new ones, so a unit that ends one begins it."""
    batch: list[Unit] = []
    for operation in operations:
        if isinstance(operation, Unit) and not operation.woken:
            batch.append(operation)
            continue
        if batch:
            yield batch
        batch = [operation] if isinstance(operation, Unit) else []
        if not isinstance(operation, Unit):
            yield operation
    if batch:
        yield batch
