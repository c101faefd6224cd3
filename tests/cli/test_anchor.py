"""anchor, and verify of one log, against anchors and with keys."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from tests.cli.support import Cli

KEY = "canary-" + "k" * 40
STORE = ".agentos/agentos.db"


@pytest.fixture
def filled(filled: Cli) -> Cli:
    """With a folder for anchors beside."""
    (filled.folder / "audit").mkdir()
    return filled


def put_back(cli: Cli) -> None:
    """The file of the store as it was before the next turn."""
    with closing(sqlite3.connect(cli.folder / STORE)) as db, closing(sqlite3.connect(cli.folder / "kept.db")) as kept:
        db.backup(kept)
    cli("run", cli.id("helper"), "-p", 'count_words text="one more"')
    cli("anchor", "audit/anchors.jsonl")
    with closing(sqlite3.connect(cli.folder / STORE)) as db, closing(sqlite3.connect(cli.folder / "kept.db")) as kept:
        kept.backup(db)


def test_a_store_that_goes_on_is_anchored_again_and_again(filled: Cli) -> None:
    first = filled("anchor", "audit/anchors.jsonl")
    filled("run", "-p", 'count_words text="a b"')
    second = filled("anchor", "audit/anchors.jsonl", "--json").data
    verified = filled("verify", "--anchor", "audit/anchors.jsonl")
    as_json = filled("verify", "--anchor", "audit/anchors.jsonl", "--json").data

    assert first.out.startswith("anchor 1 of ")
    assert "no key: whoever can write the file can make another one" in first.out
    assert first.err == ""
    assert (second["n"], second["key_id"]) == (2, None)
    assert 0 < second["moved"] <= second["logs"]
    assert second["heads"] == as_json["heads"]
    assert f"anchored up to anchor 2 of {verified.out.partition('anchor 2 of ')[2][:20]}" in verified.out
    assert "unkeyed check only: no anchor has a proof by a key" in verified.out
    assert (as_json["ok"], as_json["keyed"], as_json["anchor"]["n"]) == (True, False, 2)


def test_a_store_that_was_put_back_fails_verify_and_is_not_anchored(filled: Cli) -> None:
    put_back(filled)
    alone = filled("verify").out
    found = filled("verify", "--anchor", "audit/anchors.jsonl", code=1).out
    refused = filled("anchor", "audit/anchors.jsonl", code=1).err

    assert alone.startswith("ok: ")
    assert "unkeyed check only" in alone
    assert f"{filled.id('helper')} seq " in found
    assert "logs.seq is " in found
    assert "cut off since anchor 1 of " in found
    assert "does not go on from anchor 1 of" in refused
    assert "begin another file" in refused


def test_keys_prove_anchors_and_are_shown_nowhere(filled: Cli) -> None:
    env = {"ANCHOR_KEY": KEY}
    filled.write("keys.json", json.dumps({"keys": [{"id": "anchors", "value": KEY}]}))
    made = filled("anchor", "audit/anchors.jsonl", "--key", "env:ANCHOR_KEY", env=env)
    keyless = filled("anchor", "audit/anchors.jsonl", code=1)
    again = filled("anchor", "audit/anchors.jsonl", "--key", "key:anchors", env={"AGENTOS_KEYS": "keys.json"})
    filled.write("key.txt", f"{KEY}\n")
    with_key = filled("verify", "--anchor", "audit/anchors.jsonl", "--key", "file:key.txt")
    without = filled("verify", "--anchor", "audit/anchors.jsonl")
    other = filled(
        "verify", "--anchor", "audit/anchors.jsonl", "--key", "env:ANCHOR_KEY", env={"ANCHOR_KEY": "o" * 40}, code=1
    )
    weak = filled("anchor", "audit/other.jsonl", "--key", "env:ANCHOR_KEY", env={"ANCHOR_KEY": "canary"}, code=3)
    bare = filled("anchor", "audit/other.jsonl", "--key", KEY, code=3)

    assert "give --key" in keyless.err
    assert "proven by key " in made.out
    assert "anchor 2 of " in again.out
    assert "; proven by key " in with_key.out
    assert "unkeyed check only: give the key " in without.out
    assert "should be 'a key that is given: " in other.out
    assert "at least 32 are needed" in weak.err
    assert "a reference to a secret is needed" in bare.err
    assert not (filled.folder / "audit" / "other.jsonl").exists()
    for result in (made, keyless, again, with_key, without, other, weak, bare):
        assert "canary" not in result.out + result.err


def test_one_log_is_verified_by_a_part_of_its_id_and_others_by_their_whole(filled: Cli) -> None:
    ((agent,),) = filled.rows("select id from logs where kind = 'agent' order by n limit 1")
    one = filled("verify", filled.id("lead")[-8:]).out
    as_json = filled("verify", agent, "--json").data
    wrong = filled("verify", "nobody", code=3).err

    assert one.startswith("ok: ")
    assert " in 1 logs" in one
    assert "heads" not in one
    assert (as_json["log"], as_json["logs"], as_json["heads"]) == (agent, 1, None)
    assert "nobody" in wrong


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["verify", "--key", "env:HOME"], 2, "--key goes with --anchor"),
        (["verify", "--anchor", "nowhere.jsonl"], 1, "nowhere.jsonl: No such file"),
        (["verify", "--anchor", "agentos.toml"], 1, "agentos.toml line 1: it is no anchor"),
        (["anchor", "agentos.toml"], 1, "agentos.toml line 1: it is no anchor"),
        (["anchor", "nowhere/anchors.jsonl"], 1, "nowhere/anchors.jsonl: No such file"),
        (["anchor"], 2, "FILE"),
        (["anchor", "--store", "memory:", "anchors.jsonl"], 3, "ends with its process"),
        (["anchor", "--store", "sqlite:///nowhere.db", "anchors.jsonl"], 1, "no such file"),
    ],
)
def test_what_makes_no_sense_is_told(filled: Cli, words: list[str], code: int, reason: str) -> None:
    before = (filled.folder / "agentos.toml").read_bytes()

    assert reason in filled(*words, code=code).err
    assert (filled.folder / "agentos.toml").read_bytes() == before
    assert not (filled.folder / "anchors.jsonl").exists()


def test_a_file_beside_the_store_is_said_to_be_no_place(filled: Cli) -> None:
    said = filled("anchor", ".agentos/anchors.jsonl")

    assert "lies beside the store" in said.err
