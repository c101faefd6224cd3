"""Processes that work on a SQLite store, and a PostgreSQL server that may be harmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer
from tests.persistence.children import Start, starter


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes that run a script on the file store.db of the test's folder."""
    with starter(tmp_path / "store.db") as start:
        yield start


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that may be harmed."""
    with PostgresServer() as server:
        yield server
