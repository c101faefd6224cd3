"""erase: what will go is shown and asked about, receipts are printed and written, on every kind of store."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli, command, environment

SECRET = "a canary in a mine"


def talk(cli: Cli, *store: str) -> str:
    cli("run", "-p", f'count_words text="{SECRET}"', *store)
    (row,) = cli("ps", "--json", *store).data["conversations"]
    return str(row["id"])


def place(cli: Cli) -> Path:
    return cli.folder / ".agentos/agentos.db"


def test_what_would_go_is_shown_and_nothing_is_erased(filled: Cli) -> None:
    lead = filled.id("lead")
    shown = filled("erase", lead, "--dry-run")
    plan = filled("erase", lead, "--dry-run", "--json").data
    verified = filled.read("verify", "--json").data

    assert [log["goes_as"] for log in plan["logs"]] == [f"child of {lead}", "itself"]
    assert lead in shown.out
    assert all(log["bodies"] for log in plan["logs"])
    assert verified["ok"]
    assert filled.rows("select count(*) from logs where erased_at is not null") == [(0,)]


def test_without_somebody_to_ask_it_needs_a_word(filled: Cli) -> None:
    refused = filled("erase", filled.id("lead"), code=2)

    assert "--yes" in refused.err
    assert filled.rows("select count(*) from logs where erased_at is not null") == [(0,)]


def test_everything_that_reads_goes_on_and_says_that_it_is_erased(filled: Cli) -> None:
    lead = filled.id("lead")
    child = filled.rows(f"select id from conversations where parent = '{lead}'")[0][0]
    receipts = filled.folder / "erased.json"
    erased = filled("erase", lead, "--yes", "--reason", "ticket-81", "--by", "ann", "--receipt", str(receipts))
    written = json.loads(receipts.read_text())
    shown = filled.read("show", lead)
    as_json = filled.read("show", lead, "--json").data
    listed = {row["id"]: row["state"] for row in filled.read("ps", "--json").data["conversations"]}
    printed = filled.read("session", "print", lead)
    replayed = filled.read("replay", "--all", "--json").data
    texts = filled.read(
        "query", "select count(*) n from history where text is not null and conversation = '" + lead + "'"
    )
    for words in (("lineage", lead), ("show", lead, "--at", "5"), ("verify",), ("fsck",), ("usage",)):
        filled.read(*words)
    parted = filled.read("diff", lead, child, code=1)
    asked = filled("run", lead, "-p", "and then?", code=1)
    again = filled("erase", lead, "--json").data

    assert [receipt["log"] for receipt in written["receipts"]] == [child, lead]
    assert {receipt["by"] for receipt in written["receipts"]} == {"ann"}
    assert "ticket-81" in erased.out
    assert "overwritten with zeros" in erased.out
    assert shown.out.count("(erased)") > 3
    assert "its texts were erased at" in shown.err
    assert as_json["erased_at"] == written["receipts"][-1]["at"]
    assert (listed[lead], listed[child]) == ("closed", "closed")
    assert "(erased)" in printed.out
    assert "(erased)" in parted.out
    assert replayed["identical"]
    assert texts.out.split()[-1] == "0"
    assert "was erased at" in asked.err
    assert again["new"] == 0
    assert again["receipts"] == written["receipts"]


def test_refusals_name_the_way_out(filled: Cli) -> None:
    lead = filled.id("lead")
    child = filled.rows(f"select id from conversations where parent = '{lead}'")[0][0]
    fork = filled("fork", lead, "--json").data["conversation"]
    of_child = filled("erase", child, "--yes", code=1)
    with_fork = filled("erase", lead, "--yes", code=1)
    both = filled("erase", lead, "--yes", "--with-forks", "--json").data
    nothing = filled("erase", code=2)
    two = filled("erase", lead, "--expired", code=2)
    none_at_most = filled("erase", "--expired", "--limit", "0", code=2)

    assert f"erase {lead}" in of_child.err
    assert fork in with_fork.err
    assert [receipt["log"] for receipt in both["receipts"]] == [fork, child, lead]
    assert "--expired" in nothing.err
    assert "--expired" in two.err
    assert "at least 1" in none_at_most.err
    assert filled.read("verify").out.startswith("ok: ")


def test_a_person_at_a_terminal_is_asked(filled: Cli) -> None:
    lead = filled.id("lead")
    said = [_at_a_terminal(filled, answer, "erase", lead) for answer in ("no\n", "y\n")]

    assert [code for code, _ in said] == [1, 0]
    assert "erase 2 conversations for good? [y/N]" in said[0][1]
    assert "nothing was erased" in said[0][1]
    assert filled.rows("select count(*) from logs where erased_at is not null") == [(2,)]


def _at_a_terminal(cli: Cli, answer: str, *words: str) -> tuple[int, str]:
    above, below = pty.openpty()
    os.write(above, answer.encode())
    ended = subprocess.run(
        command(words), stdin=below, stdout=below, stderr=below, cwd=cli.folder, env=environment(None), check=False
    )
    os.close(below)
    said = b""
    try:
        while data := os.read(above, 65_536):
            said += data
    except OSError:  # all was read, and nobody has the other end
        pass
    os.close(above)
    return ended.returncode, said.decode()


def test_what_has_had_its_time_is_erased_by_the_rules_of_the_project(filled: Cli) -> None:
    none = filled("erase", "--expired", "--dry-run")
    filled.write(
        "agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [helper]\nretention: {erase_after_s: 0.001}\n"
    )
    listed = filled("erase", "--expired", "--dry-run", "--json").data["expired"]
    found = filled("erase", "--expired", "--yes", "--json").data

    assert "no conversation has had its time" in none.err
    assert [row["agent"] for row in listed] == ["lead"]
    assert [one["conversation"] for one in found["erased"]] == [filled.id("lead")]
    assert found["left"] == []
    assert filled.read("verify").out.startswith("ok: ")


def test_what_was_typed_leaves_the_history_of_the_chat(project: Cli, tmp_path: Path) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    history = tmp_path / "state/agentos/chat_history"
    project("chat", stdin=f"help\n{SECRET}\n", env=home)
    (row,) = project("ps", "--json").data["conversations"]
    history.parent.mkdir(parents=True, exist_ok=True)
    history.write_text(f'"something else"\n"{SECRET}"\n"help"\n')
    erased = project("erase", row["id"], "--yes", env=home)

    assert "2 lines went from" in erased.err
    assert history.read_text() == '"something else"\n'


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgresql"])
def test_a_store_of_every_kind_is_erased_from(project: Cli, kind: str, postgres: PostgresServer) -> None:
    urls = {"sqlite": "sqlite:///kept/a.db", "file": "file:kept/store"}
    url = urls.get(kind) or postgres.new_schema_url(tcp=True)
    (project.folder / "kept").mkdir()
    id_ = talk(project, "--store", url)
    searched = project("search", "canary", "--store", url) if _has_search(project) else None
    erased = project("erase", id_, "--yes", "--store", url)
    found = [
        path for path in (project.folder / "kept").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    verified = project("verify", "--store", url)

    assert searched is None or "canary" in searched.out
    assert found == []
    assert id_ in erased.out
    assert postgres.password not in erased.out + erased.err
    assert verified.out.startswith("ok: ")


def _has_search(cli: Cli) -> bool:
    from agentos.interfaces.cli.listing import names

    return "search" in names()


def test_a_place_for_the_receipts_is_found_before_anything_is_erased(filled: Cli) -> None:
    lead = filled.id("lead")
    taken = filled.folder / "taken.json"
    taken.write_text("what somebody needs")
    nowhere = filled("erase", lead, "--yes", "--receipt", "no/such/folder/erased.json", code=1)
    there = filled("erase", lead, "--yes", "--receipt", str(taken), code=2)
    refused = filled("erase", lead, "--receipt", "refused.json", code=2)
    standing = filled.rows("select count(*) from logs where erased_at is not null")
    filled("erase", lead, "--yes", "--receipt", "erased.json")

    assert "no/such/folder/erased.json" in nowhere.err
    assert "name another file" in there.err
    assert taken.read_text() == "what somebody needs"
    assert "--yes" in refused.err
    assert not (filled.folder / "refused.json").exists()
    assert standing == [(0,)]
    assert (filled.folder / "erased.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((filled.folder / "erased.json").read_text())["conversation"] == lead


def test_the_store_is_written_anew_at_a_word(filled: Cli) -> None:
    lead = filled.id("lead")
    erased = filled("erase", lead, "--yes", "--compact", "--json")
    alone = filled("erase", "--compact", "--json")

    assert erased.data["settled"]
    assert "writing the store anew" in erased.err
    assert alone.data == {"compacted": True}
    assert filled.rows("pragma freelist_count") == [(0,)]
    assert SECRET.encode() not in place(filled).read_bytes()
    assert filled.read("verify").out.startswith("ok: ")


def test_while_another_program_reads_it_is_erased_and_said_that_bytes_are_left(filled: Cli) -> None:
    project = (filled.folder / "agentos.toml").read_text()
    filled.write("agentos.toml", f"{project}\n[settings]\nbusy_timeout_ms = 100\n")
    lead = filled.id("lead")
    with closing(sqlite3.connect(place(filled))) as reader, reader:
        reader.execute("begin")
        reader.execute("select count(*) from entries").fetchone()
        erased = filled("erase", lead, "--yes", "--compact", "--json", code=1)
        reader.execute("rollback")
    again = filled("erase", lead, "--compact", "--json")

    assert erased.data["new"] == 2
    assert not erased.data["settled"]
    assert "older view" in erased.err
    assert again.data["new"] == 0
    assert again.data["settled"]


def test_on_a_server_the_tables_are_written_anew_at_a_word(cli: Cli, postgres: PostgresServer) -> None:
    cli("init")
    store = ("--store", postgres.new_schema_url())
    id_ = talk(cli, *store)
    erased = cli("erase", id_, "--yes", "--json", *store)
    alone = cli("erase", "--compact", "--json", *store)

    assert not erased.data["settled"]
    assert "agentos erase --compact" in erased.err
    assert alone.data == {"compacted": True}
    assert "nothing is left in its files" in alone.err


def test_a_dry_run_says_what_is_left_and_why(filled: Cli) -> None:
    filled.write(
        "agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [helper]\nretention: {erase_after_s: 0.001}\n"
    )
    lead = filled.id("lead")
    listed = filled("erase", "--expired", "--dry-run", "--json").data
    filled.write("agents/other.yaml", "slug: other\nmodel: direct\n")
    fork = filled("fork", lead, "--agent", "other", "--json").data["conversation"]
    held = filled("erase", "--expired", "--dry-run", "--json").data
    none = filled("erase", "--expired", "--yes", "--json").data

    assert [(row["conversation"], row["with"]) for row in listed["expired"]] == [(lead, 1)]
    assert listed["left"] == []
    assert held["expired"] == []
    assert [log for log, _ in held["left"]] == [lead]
    assert fork in held["left"][0][1]
    assert none == {"erased": [], "left": held["left"]}
