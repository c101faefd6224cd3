"""fsck: findings with what may be done, a repair from the log, exit codes, on every kind of store."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli

SOURCE = "sqlite:///.agentos/agentos.db"


def edit(cli: Cli, sql: str) -> None:
    with closing(sqlite3.connect(cli.folder / ".agentos/agentos.db")) as db:
        assert db.execute(sql).rowcount > 0
        db.commit()


def test_a_store_in_order_is_told_to_be(filled: Cli) -> None:
    told = filled("fsck")
    found = filled.read("fsck", "--json").data

    assert told.out.startswith("ok: ")
    assert (found["ok"], found["findings"], found["mended"]) == (True, [], [])


def test_edited_tables_are_mended_from_the_log(filled: Cli) -> None:
    edit(filled, "update calls set status = 'failed'")
    edit(filled, "delete from turns")
    found = filled.read("fsck", code=1)
    mended = filled.read("fsck", "--repair")
    after = filled.read("verify")

    assert "calls.status is 'failed', should be 'done'; --repair mends it" in found.out
    assert mended.out.count("mended conversation_") == 3
    assert "ok: " in mended.out
    assert after.out.startswith("ok: ")


def test_an_edited_entry_stays_as_it_is_and_is_told(filled: Cli) -> None:
    edit(filled, "update entries set head = head || ' ' where seq = 5")
    told = filled.read("fsck", "--repair", code=1)
    found = filled.read("fsck", "--json", code=1).data

    assert "entries are never rewritten; take the log from a backup" in told.out
    assert "mended" not in told.out
    assert not any(finding["mend"] for finding in found["findings"])


def test_a_value_that_nothing_commits_to_goes_only_with_a_repair_and_is_told(filled: Cli) -> None:
    edit(filled, "insert into payloads select n, 3, 8, 'text', x'00', 'never said' from conversations limit 1")
    filled.read("fsck", code=1)
    kept = filled.rows("select count(*) from payloads where i = 8")
    told = filled.read("fsck", "--repair")

    assert kept == [(1,)]
    assert "removed 1 value that no entry commits to" in told.out
    assert filled.rows("select count(*) from payloads where i = 8") == [(0,)]


def test_every_kind_of_store_is_checked(filled: Cli, postgres: PostgresServer) -> None:
    for url in (postgres.new_schema_url(), "file:folder", "sqlite:///other.db"):
        filled("copy", SOURCE, url)
        assert filled.read("fsck", "--store", url).out.startswith("ok: ")
        assert filled.read("fsck", "--repair", "--store", url).out.startswith("ok: ")
