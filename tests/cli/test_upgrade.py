"""A store of an older version: reading says how to upgrade it, and `agentos upgrade` does."""

from __future__ import annotations

import shutil

from agentos.persistence import schema
from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli
from tests.corpus.in_postgresql import place
from tests.corpus.support import STORES
from tests.persistence.catalog import run


async def test_a_store_in_postgresql_is_upgraded_and_its_password_not_shown(cli: Cli, postgres: PostgresServer) -> None:
    await place(postgres, "cli_upgrade", STORES[0])
    await run(postgres, "update writers set beat_at = started_at", "cli_upgrade")
    store = ("--store", postgres.url(schema="cli_upgrade", tcp=True))
    refused = cli("ps", *store, code=1)
    upgraded, again = cli("upgrade", *store), cli("upgrade", *store)
    verified = cli("verify", *store)

    assert "'agentos upgrade'" in refused.err
    assert f"upgraded from schema version 1 to {schema.SCHEMA_VERSION}" in upgraded.err
    assert "is up to date" in again.err
    assert verified.out.startswith("ok")
    for result in (refused, upgraded, again, verified):
        assert postgres.password not in result.err + result.out


def test_an_older_store_is_upgraded_once_and_then_read(cli: Cli) -> None:
    shutil.copy(STORES[0], cli.folder / "old.db")
    store = ("--store", "sqlite:///old.db")
    refused = cli("ps", *store, code=1)
    upgraded, again = cli("upgrade", *store), cli("upgrade", *store)
    rows = cli("query", "select count(*) n, count(parent_call) below from tool_calls", "--json", *store)
    verified = cli("verify", *store)

    assert "'agentos upgrade'" in refused.err
    assert f"upgraded from schema version 1 to {schema.SCHEMA_VERSION}" in upgraded.err
    assert "is up to date" in again.err
    assert rows.data["rows"] == [{"n": 11, "below": 0}]
    assert verified.out.startswith("ok")
