"""export, and verify of what it wrote: on a machine without the store, with one byte flipped, and of strangers' files."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli

SOURCE = "sqlite:///.agentos/agentos.db"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """An empty folder, as on another machine."""
    return Cli(tmp_path_factory.mktemp("elsewhere"))


def carry(source: Cli, name: str, to: Cli) -> Path:
    return Path(shutil.copy(source.folder / name, to.folder / name))


def test_a_bundle_of_the_whole_store_verifies_where_there_is_no_store(filled: Cli, elsewhere: Cli) -> None:
    exported = filled("export", "--all", "all.zip")
    stored = filled("verify", "--json").data
    carry(filled, "all.zip", elsewhere)
    shutil.rmtree(filled.folder / ".agentos")
    verified = elsewhere("verify", "all.zip")
    as_json = elsewhere("verify", "all.zip", "--json").data

    assert exported.out.startswith("all.zip: the whole store: ")
    assert stored["heads"] in exported.out
    assert f"heads: {stored['heads']}" in verified.out
    assert verified.out.startswith("bundle of a whole store, made at ")
    assert "compare the digest of its heads" in verified.out
    assert [as_json[key] for key in ("ok", "logs", "entries", "payloads", "heads")] == [
        stored[key] for key in ("ok", "logs", "entries", "payloads", "heads")
    ]
    assert as_json["bundle"]["asked"] is None
    assert [one.name for one in elsewhere.folder.iterdir()] == ["all.zip"]


def test_one_flipped_byte_is_found_and_the_exit_code_says_so(filled: Cli, elsewhere: Cli) -> None:
    filled("export", filled.id("lead")[-8:], "talk.zip")
    path = carry(filled, "talk.zip", elsewhere)
    whole = path.read_bytes()
    for place in (0, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        found = elsewhere("verify", "talk.zip", code=1)

        assert "talk.zip" in found.err or "archive.sha256" in found.out


def test_a_bundle_of_a_conversation_tells_what_is_in_it_as_json(filled: Cli) -> None:
    lead = filled.id("lead")
    told = filled("export", lead, "talk.zip", "--json").data
    verified = filled("verify", "talk.zip", "--json").data
    with zipfile.ZipFile(filled.folder / "talk.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))

    assert (told["asked"], told["redacted"], told["logs"], told["prefixes"]) == (lead, False, 2, {})
    assert told["bytes"] == (filled.folder / "talk.zip").stat().st_size
    assert told["heads"] == verified["heads"] == manifest["heads"]
    assert told["made_at_us"] == verified["bundle"]["made_at_us"] == manifest["made_at"]
    assert verified["entries"] == told["entries"]


def test_a_redacted_bundle_says_so_and_an_open_one_warns(filled: Cli) -> None:
    plain = filled("export", filled.id("lead"), "plain.zip")
    redacted = filled("export", filled.id("lead"), "redacted.zip", "--redact")
    verified = filled("verify", "redacted.zip")

    assert "an erase in the store does not reach it" in plain.err
    assert redacted.err == ""
    assert "no texts in 2 logs" in redacted.out
    assert "; its texts were left out" in verified.out
    assert "0 payloads" in verified.out


def test_a_fork_tells_which_part_of_its_parent_goes_along(filled: Cli) -> None:
    lead = filled.id("lead")
    forked = filled("fork", lead, "--json").data
    exported = filled("export", forked["conversation"], "fork.zip", "--json").data

    assert exported["prefixes"].keys() <= {lead}
    assert filled("verify", "fork.zip", "--json").data["ok"]


def test_anchors_are_compared_with_a_bundle_too(filled: Cli, elsewhere: Cli) -> None:
    filled("anchor", "anchors.jsonl")
    filled("export", "--all", "all.zip")
    filled("run", "-p", 'count_words text="a b"')
    filled("anchor", "later.jsonl")
    for name in ("all.zip", "anchors.jsonl", "later.jsonl"):
        carry(filled, name, elsewhere)
    verified = elsewhere("verify", "all.zip", "--anchor", "anchors.jsonl")
    behind = elsewhere("verify", "all.zip", "--anchor", "later.jsonl", code=1)

    assert "anchored up to anchor 1 of " in verified.out
    assert "logs.row is nothing" in behind.out


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_every_kind_of_store_exports_the_same_heads(filled: Cli, kind: str, request: pytest.FixtureRequest) -> None:
    url = "file:folder"
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_schema_url()
    filled("copy", SOURCE, url)
    there = filled("export", "--all", "there.zip", "--store", url, "--json").data
    here = filled("export", "--all", "here.zip", "--json").data

    assert there["heads"] == here["heads"]
    assert there["entries"] == here["entries"]
    assert filled("verify", "there.zip", "--json").data["ok"]


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["export", "all.zip"], 2, "name a conversation and a file, or --all and a file"),
        (["export", "lead", "talk.zip", "--all"], 2, "name the file alone with --all"),
        (["export", "nobody", "talk.zip"], 3, "nobody"),
        (["export", "--all", "agentos.toml"], 1, "there is something already; --force replaces it"),
        (["export", "--all", "agents"], 1, "agents: it is a folder; name a file in it"),
        (["export", "--all", "agents", "--force"], 1, "agents: it is a folder; name a file in it"),
        (["verify", "agentos.toml"], 1, "agentos.toml: it is no bundle"),
        (["verify", "nowhere.zip"], 1, "nowhere.zip: No such file"),
        (["verify", "agents"], 3, "agents"),
        (["export", "--all", "nowhere/all.zip"], 1, "nowhere: No such file"),
        (["export", "--all", "x.zip", "--store", "memory:"], 3, "ends with its process"),
        (["export", "--all", "x.zip", "--store", "sqlite:///nowhere.db"], 1, "no such file"),
        (["export", "--all", "x.zip", "--store", "mysql://ann:canary-77@db/x"], 3, "no such kind of store"),
    ],
)
def test_what_makes_no_sense_is_told_and_leaves_no_file(filled: Cli, words: list[str], code: int, reason: str) -> None:
    before = {one.name for one in filled.folder.iterdir()}
    kept = (filled.folder / "agentos.toml").read_bytes()
    result = filled(*words, code=code)

    assert reason in result.err
    assert "canary" not in result.err
    assert {one.name for one in filled.folder.iterdir()} == before
    assert (filled.folder / "agentos.toml").read_bytes() == kept


def test_a_zip_of_a_stranger_is_refused_and_nothing_is_unpacked(cli: Cli) -> None:
    with zipfile.ZipFile(cli.folder / "evil.zip", "w") as archive:
        archive.writestr("../../evil.sh", "rm -rf /")
    refused = cli("verify", "evil.zip", code=1)

    assert "evil.zip: it does not end as a bundle does" in refused.err
    assert [one.name for one in cli.folder.iterdir()] == ["evil.zip"]
