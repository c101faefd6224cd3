"""What all tests share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from agentos.testing.postgres import PostgresServer

pytest_plugins = ["agentos.testing.plugin"]

# A slow machine is no failure. All else stays as Hypothesis has it, which on a build server means fixed examples.
settings.register_profile("agentos", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentos")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """asyncio alone: the SQL drivers know no other loop. Session-wide, so that wider fixtures may be async too."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def running_folder() -> Iterator[None]:
    """Control sockets that have no room beside their stores lie in a folder that goes with the tests."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"XDG_RUNTIME_DIR": folder}):
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of one worker, started by the first that asks. It is left running and whole."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["file", "sqlite", "postgresql"])
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a new store of each kind that lasts."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_schema_url()
    return f"file:{tmp_path / 'store'}" if request.param == "file" else f"sqlite:///{tmp_path / 'store.db'}"


def pytest_configure() -> None:
    """A shell that runs the tests in the background has SIGINT ignored, `nohup` SIGHUP; every child would inherit that. What
    is caught here is the system's own in a child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
