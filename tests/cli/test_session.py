"""session print, list-calls, replay-call and edit: over files of agents-exe, and over conversations of the store."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from agentos.errors import SessionRefused
from agentos.history.sessions import source
from agentos.interfaces.cli.session.source import document_on_stdin
from tests.cli.support import Cli
from tests.history.session_files import CUT_OFF, DATA, call, document, llm, tool, user, write

GH_75 = str(DATA / "gh-75.session.json")


@pytest.fixture
def recorded(cli: Cli) -> Cli:
    """A project whose find_text was called in a session, once as it wants to be called and once otherwise."""
    cli("init")
    turns = [
        user("find it", tools=[tool("bash_find_text")]),
        llm("", call("find_text", '{"text": "canary"}', "a"), call("bash_find_text", '{"needle": "x"}', "b")),
        user(None, [call("find_text", "{}", "a"), "nothing"], [call("bash_find_text", "{}", "b"), "neither"]),
        llm("It is not there.", responseThinking="hm"),
    ]
    write(cli.folder, document(*turns))
    cli.write("notes.txt", "a canary sings\n")
    return cli


def test_a_file_and_what_it_was_imported_as_are_printed_alike(shared: Cli, tmp_path: Path) -> None:
    own = Cli(tmp_path)
    into = own("import", GH_75, "--json").data["files"][0]["conversation"]
    file, stored = own.read("session", "print", GH_75).out, own.read("session", "print", into).out

    assert file.splitlines()[0] == "```"
    differing = set(file.splitlines()) ^ set(stored.splitlines())
    assert differing == {"**Session ID:** 2517d663-2a3f-4efd-a9fe-5b9285988289", f"**Session ID:** {into}"}


def test_a_conversation_of_ours_is_printed_with_its_calls(shared: Cli) -> None:
    talk = shared.id("helper")
    report = shared.read("session", "print", shared.ids("helper")[0], "--show-tool-call-results", "shown").out
    data = shared.read("session", "print", talk, "--json").data

    assert '### User Query\n\ncount_words text="to be or not"\n' in report
    assert "- **count_words**" in report
    assert "**count_words** response:\n```\n4\n```" in report
    assert data["id"] == talk
    assert [turn["type"] for turn in data["turns"]] == ["user", "model", "user", "model"]


def test_the_options_of_print_are_theirs(recorded: Cli) -> None:
    words = ["session", "print", "session.json"]
    whole = recorded(*words, "--show-tool-call-arguments", "shown", "--no-funny-stamp").out
    turned = recorded.read(*words, "--n-turns", "2", "--antichronological", "--no-funny-stamp").out
    again = recorded.read(*words, "--repeat-system-prompt", "--repeat-tools", "--show-tool-call-results", "elided").out

    assert whole.startswith("# Session Report\n")
    assert '"text": "canary"' in whole
    assert [line for line in turned.splitlines() if line.startswith("## Step")] == [
        "## Step 4: LLM Turn",
        "## Step 3: User Turn",
    ]
    assert again.count("### System Prompt") == 2
    assert "**find_text** response:" in again


def test_a_session_is_read_from_stdin_too(cli: Cli) -> None:
    printed = cli("session", "print", "-", stdin=Path(GH_75).read_text()).out

    assert "**Session ID:** 2517d663-2a3f-4efd-a9fe-5b9285988289" in printed


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["session", "print", str(DATA / CUT_OFF)], 3, f"{CUT_OFF}:1:17390: unterminated string"),
        (["session", "print", "nowhere.json"], 1, "nowhere.json: No such file or directory"),
        (["session", "print", "7hk587xc"], 1, "no such file"),
        (["session", "list-calls", GH_75, "--format", "xml"], 2, "xml"),
        (["session", "replay-call", "-s", GH_75, "-i", "5"], 2, "the session has no call 5; it has 0 to 4"),
        (["session", "replay-call", "-s", GH_75, "-i", "-1"], 2, "the session has no call -1; it has 0 to 4"),
    ],
)
def test_what_cannot_be_read_is_refused(cli: Cli, words: list[str], code: int, reason: str) -> None:
    assert reason in cli(*words, code=code).err


def test_an_unknown_conversation_is_told_as_no_file_either(shared: Cli) -> None:
    assert "there is no file of that name either" in shared("session", "print", "zzzzzzzz", code=3).err


def test_calls_are_listed_by_one_index_over_the_whole_session(cli: Cli) -> None:
    human = cli("session", "list-calls", GH_75)
    listed = cli.read("session", "list-calls", GH_75, "--format", "json").data
    brief = cli.read("session", "list-calls", GH_75, "--format", "brief").out.splitlines()
    whole = cli.read("session", "list-calls", GH_75, "--json").data["calls"]

    assert [(one["index"], one["turn"], one["name"]) for one in listed] == [
        (0, 2, "bash_list-files"),
        (1, 4, "bash_grep-files"),
        (2, 6, "bash_read-file"),
        (3, 8, "bash_write-file"),
        (4, 10, "bash_read-file"),
    ]
    assert brief[1] == '1\tbash_grep-files\t{"pattern": "kimi"}'
    assert [one["result"] is not None for one in whole] == [True] * 5
    assert human.out.startswith("5 calls:\n[0] bash_list-files\n    step: 2\n    arguments: {}\n")
    assert "replay-call" in human.err


def test_a_session_without_calls_says_so(cli: Cli) -> None:
    listed = cli("session", "list-calls", str(DATA / "turn-v0.001.json"))

    assert (listed.out, listed.err) == ("", "the session has no calls\n")


def test_a_recorded_call_is_run_again(recorded: Cli) -> None:
    told = recorded("session", "replay-call", "-s", "session.json", "-i", "0")
    raw = recorded("session", "replay-call", "-s", "session.json", "-i", "0", "-t", "./tools/find_text", "--raw")
    data = recorded("session", "replay-call", "-s", "session.json", "-i", "0", "--json").data

    assert "notes.txt:1:a canary sings" in told.out
    assert told.err == "call 0: the arguments fit find_text\n"
    assert (raw.out, raw.err) == (told.out, "")
    assert data["status"] == "done"
    assert not (recorded.folder / ".agentos").exists()


def test_arguments_that_do_not_fit_any_more_are_not_run(recorded: Cli) -> None:
    words = ["session", "replay-call", "-s", "session.json", "-i", "1", "-t", "find_text"]
    refused = recorded(*words, code=1)
    data = recorded(*words, "--json", code=1).data

    assert refused.out == ""
    assert "call 1: the arguments do not fit find_text:\n1. " in refused.err
    assert (data["valid"], len(data["problems"])) == (False, 1 + refused.err.count("\n2. "))


def test_validate_only_calls_nothing(recorded: Cli) -> None:
    recorded.write("tools/touch_it", _TOUCH, executable=True)
    write(recorded.folder, document(user("go"), llm("", call("touch_it", "{}"))))
    words = ["session", "replay-call", "-s", "session.json", "-i", "0"]

    assert recorded(*words, "--validate-only").out == "call 0: the arguments fit touch_it\n"
    assert not (recorded.folder / "touched").exists()
    recorded(*words)
    assert (recorded.folder / "touched").exists()


def test_a_tool_that_is_not_here_is_told_with_near_names(recorded: Cli) -> None:
    refused = recorded("session", "replay-call", "-s", "session.json", "-i", "1", code=3).err

    assert "there is no tool 'bash_find_text'. Did you mean find_text?" in refused


def test_a_call_of_a_conversation_is_run_again(shared: Cli) -> None:
    result = shared("session", "replay-call", "-s", shared.ids("helper")[0], "-i", "0", "--raw")

    assert result.out == "4\n"


def test_edits_go_from_stdin_to_stdout_from_left_to_right(cli: Cli) -> None:
    text = json.dumps(document(*(user(str(n)) for n in range(9)), kept="as it is"))

    def questions(*words: str) -> str:
        edited = json.loads(cli("session", "edit", *words, stdin=text).out)
        assert edited["kept"] == "as it is"
        return "".join(turn["contents"]["userQuery"] for turn in edited["turns"])

    assert questions() == "876543210"
    assert questions("--take") == "8"
    assert questions("--drop", "--count", "2", "--take", "--count=3") == "654"
    assert questions("--take", "--count", "3", "--drop", "--count", "2") == "6"
    assert questions("--take-tail", "--count", "4", "--drop-tail") == "321"
    assert questions("--take", "--count", "-3") == ""
    assert questions("--drop", "--count", "-3") == "876543210"
    assert questions("--drop", "--drop", "--drop") == "543210"


def test_censored_sessions_are_sessions_still(recorded: Cli) -> None:
    text = (recorded.folder / "session.json").read_text()
    edited = recorded("session", "edit", "--censor-tool-calls", "--censor-thinking", stdin=text).out
    printed = recorded("session", "print", "-", stdin=edited).out

    assert edited.count("\n") == 1
    assert "canary" not in edited
    assert "hm" not in edited
    assert "It is not there." in printed


@pytest.mark.parametrize(
    ("words", "stdin", "code", "reason"),
    [
        (["--count", "2", "--take"], "{}", 2, "--count stands behind the --take"),
        (["--censor-thinking", "--count", "2"], "{}", 2, "--count stands behind the --take"),
        (["--take", "--count", "two"], "{}", 2, "two"),
        (["--take"], "{}", 3, "stdin: the whole: it has no turns"),
        (["--take"], '{"turns": [', 3, "stdin:1:12: "),
    ],
)
def test_an_edit_that_makes_no_sense_prints_nothing(
    cli: Cli, words: list[str], stdin: str, code: int, reason: str
) -> None:
    result = cli("session", "edit", *words, stdin=stdin, code=code)

    assert result.out == ""
    assert reason in result.err


def test_stdin_is_read_no_further_than_a_session_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SESSION_BYTES_MAX", 100)
    stdin = io.BytesIO(b" " * 1_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))

    with pytest.raises(SessionRefused, match=r"stdin: longer than 100 bytes \(SESSION_BYTES_MAX\)"):
        document_on_stdin()
    assert stdin.tell() == 101


_TOUCH = """#!/bin/sh
if [ "$1" = describe ]; then
  echo '{"slug": "touch_it", "description": "Touches.", "args": []}'
else
  touch touched && echo done
fi
"""
