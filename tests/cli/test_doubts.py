"""Calls in doubt from the command line: listed, and resolved by a person, with a process at work and without one."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli
from tests.cli.test_interrupt_and_crash import HOLD, has_started


@pytest.fixture
def waiting(project: Cli) -> Cli:
    """A project whose process died while a tool that may do harm ran, recovered: the call waits for a person."""
    return _killed(project, "doubt_s: 600\n", code=7)


@pytest.fixture
def unknown(project: Cli) -> Cli:
    """The same where nobody is waited for: the call has ended as unknown."""
    return _killed(project, "", code=0)


def _killed(project: Cli, more: str, code: int) -> Cli:
    project.write("tools/hold", HOLD.replace("EFFECT", "once"), executable=True)
    helper = project.folder / "agents" / "helper.yaml"
    helper.write_text(helper.read_text() + more)
    with project.start("run", "-p", "hold") as running:
        project.until(lambda: has_started(project))
        running.kill()
    (project.folder / "go").touch()
    project("run", "--resume", code=code)
    return project


def call_of(cli: Cli) -> str:
    ((call,),) = cli.rows("select id from tool_calls")
    return str(call)


def test_a_call_that_waits_is_listed_and_told_with_7(waiting: Cli) -> None:
    call = call_of(waiting)

    resumed, listed = waiting("run", "--resume", code=7), waiting.read("doubts")

    assert f"nobody knows whether hold took effect: agentos resolve {call} done|failed|retry" in resumed.err
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [[call, "helper", "hold"]]
    assert listed.out.rstrip().endswith("waiting")
    assert waiting.rows("select state from conversations") == [("parked",)]


def test_the_list_as_json_has_everything(waiting: Cli) -> None:
    (doubt,) = waiting.read("doubts", waiting.id("helper")[-8:], "--json").data["doubts"]

    assert {key: doubt[key] for key in ("call", "conversation", "agent", "tool", "arguments", "attempt", "state")} == {
        "call": call_of(waiting),
        "conversation": waiting.id("helper"),
        "agent": "helper",
        "tool": "hold",
        "arguments": "{}",
        "attempt": 1,
        "state": "waiting",
    }
    assert doubt["started_at"] <= doubt["since"]


def test_done_with_a_result_takes_the_turn_to_its_end(waiting: Cli) -> None:
    told = waiting("resolve", call_of(waiting)[-6:], "done", "--result", "receipt 4", "--by", "ann")
    resumed = waiting("run", "--resume")
    shown = waiting.read("show", waiting.id("helper")).out

    assert f"{call_of(waiting)}: done; the process that runs it takes it at once" in told.err
    assert resumed.out == "hold: receipt 4\n"
    assert "resolution=done  tool=hold  attempt=1  by=ann" in shown
    assert "done, resolved as done" in waiting.read("lineage", waiting.id("helper")).out
    assert waiting.rows("select status, resolution from tool_calls") == [("done", "done")]
    assert "no call is in doubt" in waiting.read("doubts").err
    assert waiting.read("verify").out.startswith("ok")
    assert waiting.read("replay").out.startswith("identical")


def test_failed_tells_the_model_why(waiting: Cli) -> None:
    waiting("resolve", call_of(waiting), "failed", "--reason", "not in the ledger")

    assert "it did not take effect, says user: not in the ledger" in waiting("run", "--resume").out


def test_retry_runs_the_tool_once_more(waiting: Cli) -> None:
    waiting("resolve", call_of(waiting), "retry")

    assert waiting("run", "--resume").out == "hold: released\n"
    assert (waiting.folder / "effects").read_text() == "started\nstarted\n"
    assert waiting.rows("select status, attempt, resolution from tool_calls") == [("done", 2, "retry")]


def test_a_process_that_waits_takes_it_at_once(waiting: Cli) -> None:
    with waiting.start("run", "--resume", "--wait") as running:
        waiting.until(lambda: waiting.rows("select 1 from entries where kind = 'turn.resumed' and seq > 10") != [])
        waiting("resolve", call_of(waiting), "done", "--result", "receipt 4")
        out, err = running.communicate(timeout=60)

    assert (running.returncode, out) == (0, "hold: receipt 4\n"), err


def test_a_result_comes_from_a_file_or_stdin_as_it_stands(waiting: Cli) -> None:
    waiting.write("receipt.txt", "receipt 4\nand more")
    assert (
        "say --result or --result-file"
        in waiting("resolve", call_of(waiting), "done", "--result", "a", "--result-file", "receipt.txt", code=2).err
    )
    assert (
        "nothing.txt: No such file"
        in waiting("resolve", call_of(waiting), "done", "--result-file", "nothing.txt", code=3).err
    )

    waiting("resolve", call_of(waiting), "done", "--result-file", "receipt.txt")

    waiting("run", "--resume")
    assert waiting.rows("select result from tool_calls") == [("receipt 4\nand more",)]


def test_what_is_said_of_an_unknown_call_is_told_in_the_next_turn(unknown: Cli) -> None:
    call, id_ = call_of(unknown), unknown.id("helper")

    told = unknown("resolve", call, "done", "--result", "receipt 4", "--by", "ann")
    unknown("run", id_, "-p", "hello")
    request = unknown.read("show", id_, "--request").out

    assert "the model is told at the beginning of the next turn" in told.err
    assert "hold {}: it took effect, says ann. Its result:" in request
    assert "(as recorded)" in request
    assert unknown.rows("select status, resolution from tool_calls") == [("unknown", "done")]
    assert "unknown, resolved as done" in unknown.read("lineage", id_).out
    assert unknown.read("verify").out.startswith("ok")
    assert unknown.read("replay").out.startswith("identical")


def test_only_the_first_word_on_a_call_counts(unknown: Cli) -> None:
    call = call_of(unknown)
    unknown("resolve", call, "done", "--by", "ann")

    assert "another word on it is under way" in unknown("resolve", call, "failed", code=1).err
    unknown("run", unknown.id("helper"), "-p", "hello")
    assert "ann resolved it as done; the first one counts" in unknown("resolve", call, "failed", code=1).err


def test_a_call_that_is_not_in_doubt_is_refused_by_name(project: Cli) -> None:
    project("run", "-p", 'count_words text="a b"')
    call = call_of(project)
    wrong = call[:-2] + "_99"

    assert f"{call} is not in doubt: it is done" in project("resolve", call, "done", code=1).err
    assert f"the store has no call '{wrong}'" in project("resolve", wrong, "done", code=3).err
    assert (
        "no call 'nonsense' is in doubt; 'agentos doubts' lists those that are"
        in project("resolve", "nonsense", "done", code=2).err
    )
    assert 'Did you mean "failed"?' in project("resolve", call, "faild", code=2).err


def test_arguments_are_shown_escaped_and_short(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("EFFECT", "once").replace('"args": []', ARGS), executable=True)
    with project.start("run", "-p", 'hold text="\\u001b[2J' + "x" * 200 + '"') as running:
        project.until(lambda: has_started(project))
        running.kill()
    (project.folder / "go").touch()
    project("run", "--resume")

    out = project.read("doubts").out

    assert "\x1b" not in out
    assert "x" * 40 in out
    assert "x" * 80 not in out


ARGS = '"args": [{"name": "text", "description": "any text", "type": "string", "arity": "single", "mode": "dashdashspace"}]'
