"""Every durable adapter keeps the contract across processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer

pytest.register_assert_rewrite("agentos.testing.process_contract")

from agentos.testing.process_contract import ProcessContract  # noqa: E402


class TestProcesses(ProcessContract):
    @pytest.fixture(params=["file", "sqlite", "postgresql"])
    def store_url(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        if request.param == "file":
            return f"file:{tmp_path / 'store'}"
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path / 'store.db'}"
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_schema_url()
