"""ps, query, show, lineage, replay and verify over one store, which they only read."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from agentos.interfaces.cli.ps import COLUMNS
from tests.cli.support import Cli, entry_of


def test_ps_lists_conversations_as_processes(shared: Cli) -> None:
    head, *lines = shared("ps").out.splitlines()

    assert head.split() == ["id", "agent", "state", "depth", "parent", "turns", "calls", "tokens", "age"]
    assert [line.split()[1:4] for line in lines] == [
        ["lead", "idle", "0"],
        ["helper", "idle", "1"],
        ["helper", "idle", "0"],
    ]
    assert lines[1].split()[4] == lines[0].split()[0]


def test_ps_as_json_has_whole_ids_and_plain_numbers(shared: Cli) -> None:
    lead, child, first = shared.read("ps", "--json").data["conversations"]

    assert set(first) == {*COLUMNS} - {"age"} | {"tenant", "started_at_us", "updated_at_us", "age_s"}
    assert (first["depth"], first["parent"], first["turns"], first["calls"]) == (0, None, 1, 1)
    assert child["parent"] == lead["id"]


def test_ps_can_be_narrowed_to_a_state_and_an_agent(shared: Cli) -> None:
    assert len(shared.read("ps", "--state", "idle", "--json").data["conversations"]) == 3
    assert len(shared.read("ps", "--agent", "lead", "--json").data["conversations"]) == 1
    nobody = shared.read("ps", "--state", "running")
    assert "no conversations" in nobody.err


def test_query_prints_a_table_or_objects(shared: Cli) -> None:
    sql = "select agent, count(*) as n from conversations group by agent"

    assert shared("query", sql).out == "agent   n\nhelper  2\nlead    1\n"
    assert shared("query", sql, "--json").data == {
        "columns": ["agent", "n"],
        "rows": [{"agent": "helper", "n": 2}, {"agent": "lead", "n": 1}],
    }


def test_query_reads_its_statement_from_stdin(shared: Cli) -> None:
    assert shared("query", "-", stdin="select 1 as one\n").out == "one\n  1\n"


def test_query_shows_null_bytes_and_lines_in_one_line_each(shared: Cli) -> None:
    shown = shared.read("query", "select null as none, x'00ff' as bytes, char(10, 27, 9) as text").out

    assert shown == "none  bytes    text\n-     x'00ff'  \\n\\x1b\\t\n"


def test_query_writes_nothing_and_says_why(shared: Cli) -> None:
    refused = shared.read("query", "delete from messages", code=1)

    assert "one statement that only reads" in refused.err
    assert shared.rows("select count(*) as n from messages") == [(12,)]


def test_query_names_columns_apart_in_json(shared: Cli) -> None:
    assert shared.read("query", "select 1 as a, 2 as a", "--json").data["rows"] == [{"a": 1, "a_2": 2}]


def test_show_prints_what_happened_and_what_was_said(shared: Cli) -> None:
    shown = shared("show", shared.id("lead")).out

    assert re.search(r"^ +2  \d\d:\d\d:\d\d\.\d{3}  input.received\n +text: ask_helper task=", shown, re.MULTILINE)
    assert re.search(r"turn\.started .* turn 3 .* with lead r1$", shown, re.MULTILINE)
    assert re.search(r"call\.finished .* turn 3 .* call 6 .* status=done", shown)
    assert 'result: count_words text="a b": 2' in shown


def test_show_as_json_has_entries_with_payloads_and_changes(shared: Cli) -> None:
    shown = shared.read("show", shared.id("lead"), "--json").data

    entries = shown["entries"]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    finished = entry_of(entries, "call.finished")
    assert finished["call"].startswith("call_")
    assert (finished["ran_with"], entry_of(entries, "turn.started")["ran_with"]) == (None, "lead r1")
    assert finished["payloads"] == [{"name": "result", "value": 'count_words text="a b": 2'}]
    assert finished["changes"][0]["component"] == "call_state"
    assert entry_of(entries, "model.finished")["payloads"][1] == {
        "name": "arguments",
        "value": {"task": 'count_words text="a b"'},
    }


def test_show_takes_one_entry_or_the_id_of_a_call(shared: Cli) -> None:
    lead = shared.id("lead")
    ((call,),) = shared.rows("select id from tool_calls where tool = 'ask_helper'")

    assert [entry["seq"] for entry in shared.read("show", lead, "2", "--json").data["entries"]] == [2]
    kinds = [entry["kind"] for entry in shared.read("show", call, "--json").data["entries"]]
    assert kinds == ["call.proposed", "call.started", "call.finished"]
    assert "has no entry 99; it has 1 to" in shared.read("show", lead, "99", code=2).err


def test_show_request_is_the_request_checked_against_its_digest(shared: Cli) -> None:
    lead = shared.id("lead")

    last = shared.read("show", lead, "--request", "--json").data
    first = shared.read("show", lead, "--request", "4", "--json").data

    assert [message["role"] for message in last["messages"]] == ["user", "assistant", "tool"]
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert last["matches"] is first["matches"] is True
    assert [tool["name"] for tool in last["tools"]] == ["ask_helper"]
    assert "(as recorded)" in shared.read("show", lead, "--request").out
    assert "asked no model at seq 2" in shared.read("show", lead, "2", "--request", code=3).err


def test_an_id_may_be_a_part_and_has_to_be_of_one(shared: Cli) -> None:
    lead = shared.id("lead")

    assert shared.read("show", lead[-5:]).out.startswith(lead)
    assert shared.read("show", lead.removeprefix("conversation_")).out.startswith(lead)
    assert "is a part of 3 ids" in shared.read("show", "conversation_", code=2).err


def test_a_mistyped_id_is_told_with_the_nearest_one(shared: Cli) -> None:
    lead = shared.id("lead")
    wrong = lead[:-1] + ("0" if lead[-1] != "0" else "1")

    told = shared.read("show", wrong, code=3).err

    assert f"no conversation '{wrong}'" in told
    assert f"Did you mean {lead}" in told


def test_lineage_is_the_tree_through_all_subagents(shared: Cli) -> None:
    lines = shared("lineage", shared.id("lead")).out.splitlines()

    assert re.match(r"lead conversation_\w+  idle, \S+ ms, \d+\+\d+ tokens, \d+\+\d+ tokens with subagents$", lines[0])
    assert any(re.search(r"─ call 6 ask_helper  done, \S+ ms", line) for line in lines)
    assert any(re.search(r"─ helper conversation_\w+  idle", line) for line in lines)
    assert any(re.search(r"─ call \d+ count_words  done", line) for line in lines)
    assert shared("lineage", shared.id("lead"), "--json").data["root"]["name"] == "lead"


def test_replay_finds_all_identical(shared: Cli) -> None:
    assert re.fullmatch(r"identical: 3 conversations, \d+ entries\n", shared("replay").out)
    assert shared("replay", shared.id("lead")).out.startswith("identical (")
    every = shared("replay", "--json").data
    assert every["identical"] is True
    assert [one["identical"] for one in every["conversations"]] == [True] * 3


def test_verify_counts_what_it_read(shared: Cli) -> None:
    ((entries,),) = shared.rows("select count(*) from entries")

    assert shared("verify").out.startswith(f"ok: {entries} entries and ")
    assert shared("verify", "--json").data["ok"] is True


def test_a_store_edited_by_hand_fails_verify_and_replay_with_1(shared: Cli, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(shared.folder / ".agentos" / "agentos.db", copy)
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("update messages set text = 'five' where role = 'tool' and text = '4'")
    store = ("--store", f"sqlite:///{copy}")

    verified = shared.read(*store, "verify", "--json", code=1).data
    replayed = shared.read(*store, "replay", code=1).out

    log = shared.ids()[0]
    assert [(one["log"], one["table"]) for one in verified["differences"]] == [(log, "messages")]
    assert f"{log}: diverged at seq" in replayed
    assert "1 of 3 conversations diverged" in replayed
    assert re.search(r"\n  stored:\n    .*\n  produced:\n    ", replayed, re.DOTALL)


def test_the_store_may_be_named_before_the_command_after_it_or_outside(shared: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{shared.folder}/.agentos/agentos.db"
    elsewhere = Cli(tmp_path)
    sql = ("query", "select count(*) as n from conversations")

    assert elsewhere("--store", url, *sql).out == "n\n3\n"
    assert elsewhere(*sql, f"--store={url}").out == "n\n3\n"
    assert elsewhere(*sql, env={"AGENTOS_STORE": url}).out == "n\n3\n"
    assert elsewhere("--store", url, *sql, env={"AGENTOS_STORE": "sqlite:///other.db"}).out == "n\n3\n"
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_none_is_told_in_one_sentence(cli: Cli) -> None:
    cli.write("text.db", "no database at all, but long enough to look like one")

    assert cli.read("ps", "--store", "sqlite:///missing.db", code=1) == (
        1, "", "error: store sqlite:///missing.db: there is no such file; the first conversation makes it\n",
    )  # fmt: skip
    assert "file is not a database" in cli.read("ps", "--store", "sqlite:///text.db", code=1).err
    assert "no such kind of store" in cli.read("ps", "--store", "redis://x", code=3).err
    assert "ends with its process" in cli.read("ps", "--store", "memory:", code=3).err
    assert [path.name for path in cli.folder.iterdir()] == ["text.db"]
