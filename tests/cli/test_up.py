"""Two terminals: `up` hosts in one, the other asks and commands it; and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from agentos.kernel.control import place_of
from tests.cli.support import LIMIT_S, Cli
from tests.cli.test_interrupt_and_crash import HOLD, has_started

ASKING = "slug: asker\nmodel: direct\ntoolboxes: [files]\napproval: park\npolicy: [{tool: hold, verdict: ask}]\n"


@pytest.fixture
def holding(project: Cli) -> Iterator[Cli]:
    """A project whose agent has a tool that waits for a file, and has been left with an open turn by a killed process."""
    project.write("tools/hold", HOLD.replace("EFFECT", "pure"), executable=True)
    with project.start("run", "-p", "hold") as running:
        project.until(lambda: has_started(project))
        running.kill()
    (project.folder / "go").touch()  # the tool of the killed process ends by itself
    project.until(lambda: not tools_of(project))
    for name in ("go", "effects"):
        (project.folder / name).unlink()
    yield project
    (project.folder / "go").touch()


def tools_of(cli: Cli) -> list[psutil.Process]:
    """The tools that run in this project."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(cli.folder / "tools") in " ".join(process.cmdline()):
                found.append(process)
    return found


@contextmanager
def up(cli: Cli, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`agentos up`, once its control socket is there."""
    with cli.start("up", *words) as running:
        cli.until(lambda: listens(cli, running))
        yield running


def sockets(cli: Cli) -> dict[int, Path]:
    """The control sockets of the project's store, by the numbers of their writers, of dead ones too."""
    place = place_of(f"sqlite:///{cli.folder}/.agentos/agentos.db")
    assert place is not None, "a file has a place"
    return {number: Path(path) for number, path in place.found()}


def listens(cli: Cli, running: subprocess.Popen[str]) -> bool:
    assert running.poll() is None, "it ended at once"
    return any((running.pid,) in cli.rows(f"select pid from writers where n = {number}") for number in sockets(cli))


def told(running: subprocess.Popen[str], *numbers: signal.Signals) -> tuple[str, str]:
    """What it prints after these signals, to its end."""
    for number in numbers:
        running.send_signal(number)
    return running.communicate(timeout=LIMIT_S)


def test_up_takes_up_what_was_left_and_another_terminal_sees_it_work(holding: Cli) -> None:
    with up(holding) as running:
        holding.until(lambda: has_started(holding))
        id_ = holding.id("helper")
        (row,) = holding("ps", "--state", "running", "--json").data["conversations"]
        top = holding("top", "--once", "--json", "--every", "0.1").data
        open_ = holding("lsof", "--json")
        with holding.start("watch", id_, "--until-settled", "--json") as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            (holding.folder / "go").touch()
            entries = [first, *map(json.loads, watching.stdout)]
            watching.wait(LIMIT_S)
        out, err = told(running, signal.SIGTERM)

    assert row["id"] == id_
    assert [turn["conversation"] for turn in top["turns"]] == [id_]
    assert open_.code == 0
    assert entries[-1]["kind"] == "turn.finished"
    assert "turn.finished  completed" in out
    assert (running.returncode, "told by SIGTERM" in err, "nothing was left open" in err) == (0, True, True)
    assert holding("verify").out.startswith("ok")
    assert holding("replay").out.startswith("identical")
    assert not sockets(holding)


def test_a_cancel_from_another_terminal_ends_the_turn(holding: Cli) -> None:
    with up(holding, "--json") as running:
        holding.until(lambda: has_started(holding))
        cancelled = holding("cancel", holding.id("helper"), "--json").data
        holding.until(lambda: holding.rows("select 1 from turns where outcome = 'cancelled'") != [])
        out, _ = told(running, signal.SIGINT)

    lines = [json.loads(line) for line in out.splitlines()]
    assert (cancelled["cancelled"], cancelled["taken_by"]) == (True, running.pid)
    assert (lines[0]["type"], lines[-1]["type"]) == ("up", "ended")
    assert [line["outcome"] for line in lines if line["type"] == "turn.finished"] == ["cancelled(interrupt)"]
    assert running.returncode == 0


def test_pause_and_resume_reach_the_process_that_runs_it(holding: Cli) -> None:
    with up(holding) as running:
        holding.until(lambda: has_started(holding))
        id_ = holding.id("helper")
        paused = holding("pause", id_, "--json").data
        (holding.folder / "go").touch()
        holding.until(lambda: holding.rows("select state from conversations") == [("paused",)])
        resumed = holding("resume", id_)
        holding.until(lambda: holding.rows("select state from conversations") == [("idle",)])

    assert paused == {"conversation": id_, "posted": True, "taken_by": running.pid}
    assert f"process {running.pid} has taken it" in resumed.err


def test_an_answer_from_another_terminal_lets_the_call_run(holding: Cli) -> None:
    holding.write("agents/asker.yaml", ASKING)
    (holding.folder / "go").touch()
    parked = holding("run", "-a", "asker", "-p", "hold", code=7)
    with up(holding, "asker") as running:
        (request,) = holding("answer", "--json").data["requests"]
        answered = holding("answer", request["request"], "allow", "--json").data
        holding.until(lambda: holding.rows("select 1 from turns where outcome = 'completed'") != [])
        told(running, signal.SIGTERM)

    assert "waiting for approval" in parked.err
    assert answered == {"request": request["request"], "verdict": "allow", "first": True, "taken_by": running.pid}


def test_up_of_some_agents_leaves_the_work_of_others(holding: Cli) -> None:
    holding.write("agents/other.yaml", "slug: other\nmodel: direct\n")
    with up(holding, "other") as running:
        assert running.stderr is not None
        begun = running.stderr.readline()  # a word to end before that would have it host nothing
        time.sleep(0.5)
        _, err = told(running, signal.SIGTERM)

    assert "up: 1 agent (other)" in begun
    assert "taken up" not in err
    assert holding.rows("select state from conversations") == [("running",)]
    assert not has_started(holding)


def test_stop_from_another_terminal_waits_for_the_end_and_says_what_is_left(holding: Cli) -> None:
    with up(holding, "--grace", "0.2") as running:
        holding.until(lambda: has_started(holding))
        stopped = holding("stop", "--json")
        _, err = running.communicate(timeout=LIMIT_S)

    (told_,) = stopped.data["stopped"]
    assert (told_["pid"], told_["ended"], told_["cut"]) == (running.pid, True, holding.ids("helper"))
    assert "1 turn cut short; the next 'agentos up' goes on" in err
    assert running.returncode == 0
    assert holding("verify").out.startswith("ok")


def test_a_second_signal_ends_the_grace(holding: Cli) -> None:
    with up(holding, "--grace", "600") as running:
        holding.until(lambda: has_started(holding))
        running.send_signal(signal.SIGHUP)
        assert running.stderr is not None
        while "ending" not in (line := running.stderr.readline()):
            assert line, "it ended without a word"
        _, err = told(running, signal.SIGINT)

    assert "what still runs is cancelled" in err
    assert running.returncode == 130
    assert not tools_of(holding)


def test_after_kill_9_the_next_up_replaces_the_stale_socket_and_goes_on(holding: Cli) -> None:
    with up(holding) as running:
        holding.until(lambda: has_started(holding))
        (stale,) = sockets(holding).values()
        running.kill()
        running.wait(LIMIT_S)
    assert stale.exists()
    (holding.folder / "go").touch()
    assert holding("ps", "--json").data["conversations"][0]["state"] == "running"

    with up(holding) as running:
        holding.until(lambda: holding.rows("select 1 from turns where outcome = 'completed'") != [])
        assert not stale.exists()
        told(running, signal.SIGTERM)


def test_two_kernels_have_a_socket_each_and_stop_ends_both(holding: Cli) -> None:
    with up(holding) as first, up(holding) as second:
        assert len(sockets(holding)) == 2
        stopped = holding("stop", "--now", "--json").data["stopped"]
        first.wait(LIMIT_S)
        second.wait(LIMIT_S)

    assert {told_["pid"] for told_ in stopped} == {first.pid, second.pid}
    assert all(told_["ended"] for told_ in stopped)


def test_a_process_that_was_stopped_holds_up_no_command(holding: Cli) -> None:
    with up(holding) as running:
        holding.until(lambda: has_started(holding))
        id_ = holding.id("helper")
        os.kill(running.pid, signal.SIGSTOP)
        try:
            listed = holding("ps", "--json")
            cancelled = holding("cancel", id_)
            watched = holding.start("watch", id_)
            with watched as watching:
                assert watching.stdout is not None
                assert "conversation.started" in watching.stdout.readline()
            stopped = holding("stop", code=1)
        finally:
            os.kill(running.pid, signal.SIGCONT)
        holding.until(lambda: holding.rows("select 1 from turns where outcome = 'cancelled'") != [])

    assert listed.data["conversations"][0]["id"] == id_
    for said in (listed, cancelled, stopped):
        assert f"the kernel of process {running.pid} cannot be asked" in said.err
    assert "cancel is under way" in cancelled.err


def test_a_run_is_seen_too_and_does_not_take_the_word_to_stop(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("EFFECT", "pure"), executable=True)
    with project.start("run", "-p", "hold") as running:
        project.until(lambda: has_started(project))
        top = project("top", "--once", "--json", "--every", "0.1").data
        stopped = project("stop")
        (project.folder / "go").touch()
        out, _ = running.communicate(timeout=LIMIT_S)

    assert [turn["agent"] for turn in top["turns"]] == ["helper"]
    assert f"process {running.pid}: what runs there does not take 'stop'" in stopped.err
    assert (running.returncode, out) == (0, "hold: released\n")


def test_stop_where_nothing_runs_is_no_failure(project: Cli) -> None:
    assert "nothing hosts agents" in project("stop").err


def test_an_unknown_agent_and_a_store_in_memory_are_refused(project: Cli) -> None:
    assert "no agent 'helpr'" in project("up", "helpr", code=3).err
    assert "in memory" in project("up", "--store", "memory:", code=3).err


def test_a_reader_that_goes_away_ends_the_printing_and_not_the_hosting(holding: Cli) -> None:
    with up(holding) as running:
        assert running.stdout is not None
        running.stdout.close()
        (holding.folder / "go").touch()
        holding.until(lambda: holding.rows("select 1 from turns where outcome = 'completed'") != [])
        assert holding("ps").out
        running.send_signal(signal.SIGTERM)
        assert running.wait(LIMIT_S) == 0
