"""A store of an older version: reading says how to upgrade it, and `agentos upgrade` does."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.support import Cli

VERSION_1 = Path(__file__).parents[1] / "data" / "stores" / "version1.db"


def test_an_older_store_is_upgraded_once_and_then_read(cli: Cli) -> None:
    shutil.copy(VERSION_1, cli.folder / "old.db")
    store = ("--store", "sqlite:///old.db")
    refused = cli("ps", *store, code=1)
    upgraded, again = cli("upgrade", *store), cli("upgrade", *store)
    rows = cli("query", "select count(*) n, count(parent_call) below from tool_calls", "--json", *store)
    verified = cli("verify", *store)

    assert "'agentos upgrade'" in refused.err
    assert "upgraded from schema version 1 to 2" in upgraded.err
    assert "is up to date" in again.err
    assert rows.data["rows"] == [{"n": 11, "below": 0}]
    assert verified.out.startswith("ok")
