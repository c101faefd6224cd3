"""Every adapter of stores keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.persistence.file import FileStore
from agentos.persistence.memory import MemoryStore
from agentos.persistence.postgresql import PostgreSQLStore
from agentos.persistence.sqlite import SQLiteStore

for part in ("store", "reading", "codec", "erase", "query", "sharing"):
    pytest.register_assert_rewrite(f"agentos.testing.{part}_contract")

from agentos.testing.store_contract import CONTRACT_SETTINGS, StoreContract, StoreFactory  # noqa: E402


class TestStores(StoreContract):
    @pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
    def store_factory(self, request: pytest.FixtureRequest, tmp_path: Path) -> StoreFactory:
        if request.param == "memory":
            data = MemoryStore()
            return lambda: MemoryStore(data, settings=CONTRACT_SETTINGS)
        if request.param == "file":
            return lambda: FileStore(str(tmp_path / "store"), settings=CONTRACT_SETTINGS)
        if request.param == "sqlite":
            return lambda: SQLiteStore(str(tmp_path / "store.db"), settings=CONTRACT_SETTINGS)
        url = request.getfixturevalue("postgres").new_schema_url()
        return lambda: PostgreSQLStore(url, settings=CONTRACT_SETTINGS)
