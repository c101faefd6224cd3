"""copy, and the digest of heads that verify prints: a store goes through every kind of store, and comes back as it was."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest

from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli

HEADS = re.compile(r"heads:? ([0-9a-f]{64})")
SOURCE = "sqlite:///.agentos/agentos.db"


def test_a_store_goes_round_and_keeps_its_heads(filled: Cli, postgres: PostgresServer) -> None:
    urls = [SOURCE, postgres.new_schema_url(), "file:folder", "sqlite:///back.db"]
    copies = [filled("copy", *pair, "--verify").out for pair in pairwise(urls)]
    verified = [filled("verify", "--store", url).out for url in urls]
    heads = {found for text in (*copies, *verified) for found in HEADS.findall(text)}
    replayed = filled("replay", "--store", "sqlite:///back.db").out
    sql = "select role, text from messages"
    queried = [tuple(sorted(filled("query", sql, "--store", url).out.splitlines())) for url in urls]

    assert len(heads) == 1
    assert all("verified: ok" in text for text in copies)
    assert all(text.startswith("ok: ") for text in verified)
    assert "identical: 3 conversations" in replayed
    assert len(set(queried)) == 1


def test_a_copy_tells_what_it_did_as_json(filled: Cli) -> None:
    first = filled("copy", SOURCE, "file:copy", "--json").data
    again = filled("copy", SOURCE, "file:copy", "--json", "--verify").data
    verified = filled("verify", "--json").data

    assert first["source"] == SOURCE
    assert first["destination"] == "file:copy"
    assert first["entries"] == verified["entries"]
    assert first["logs"] == again["logs"] == verified["logs"]
    assert first["bytes"] > 1_000
    assert (again["entries"], again["bytes"], again["verified"]) == (0, 0, True)
    assert first["heads"] == again["heads"] == verified["heads"]


def test_work_goes_on_in_the_copy(filled: Cli) -> None:
    filled("copy", SOURCE, "file:copy")
    talk = filled.id("lead")
    filled("run", talk, "-p", "ask_helper task='count_words text=\"a b c\"'", "--store", "file:copy")
    filled("verify", "--store", "file:copy")
    refused = filled("copy", SOURCE, "file:copy", code=1).err

    assert "was worked with in it; copy to an empty place" in refused
    assert len(filled("ps", "--json", "--store", "file:copy").data["conversations"]) == 4


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["copy", SOURCE, "sqlite:///./.agentos/agentos.db"], 1, "are one store"),
        (["copy", "sqlite:///nowhere.db", "file:copy"], 1, "no such file"),
        (["copy", "memory:", "file:copy"], 3, "ends with its process"),
        (["copy", SOURCE, "memory:"], 3, "ends with its process"),
        (["copy", SOURCE, "mysql://ann:canary-77@db/x"], 3, "no such kind of store"),
        (["copy", SOURCE], 2, "DESTINATION"),
    ],
)
def test_what_cannot_be_copied_is_refused(filled: Cli, words: list[str], code: int, reason: str) -> None:
    result = filled(*words, code=code)

    assert reason in result.err
    assert "canary" not in result.err
    assert not (filled.folder / "copy").exists()


def test_a_damaged_source_is_named(filled: Cli) -> None:
    with closing(sqlite3.connect(filled.folder / ".agentos" / "agentos.db")) as db, db:
        db.execute("update messages set text = 'other' where role = 'user'")
    result = filled("copy", SOURCE, "file:copy", code=1)

    assert re.search(r"conversation_\w+ seq 2: messages.text .*'agentos verify' names what differs", result.err)
