"""Ctrl-C, kill -9 and what is left: every call has one result, no effect happens twice."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.cli.support import Cli

HOLD = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "hold", "description": "waits for the file go", "args": [], "effect": "EFFECT"}'
    exit
fi
echo started >> effects
while [ ! -e go ]; do sleep 0.02; done
echo released
"""


@pytest.fixture
def holding(project: Cli) -> Cli:
    """A project whose agent has a tool that waits."""
    project.write("tools/hold", HOLD.replace("EFFECT", "once"), executable=True)
    return project


def has_started(cli: Cli) -> bool:
    """Once the line is there, and not the empty file of a shell that is about to write it: who kills now may count it."""
    path = cli.folder / "effects"
    return path.exists() and path.read_text().endswith("\n")


def interrupted(running: subprocess.Popen[str]) -> tuple[str, str]:
    running.send_signal(signal.SIGINT)
    return running.communicate(timeout=60)


def test_ctrl_c_ends_the_turn_and_keeps_the_transcript(holding: Cli) -> None:
    with holding.start("run", "-p", 'hold\ncount_words text="a b"') as running:
        holding.until(lambda: has_started(holding))
        holding.until(lambda: holding.rows("select 1 from calls where status = 'done'") != [])
        _, err = interrupted(running)

    assert running.returncode == 130
    assert "cancelled(interrupt)" in err
    assert "Traceback" not in err
    assert holding.rows("select tool, status from tool_calls order by tool") == [
        ("count_words", "done"),
        ("hold", "unknown"),
    ]
    assert holding.rows("select outcome from turns") == [("cancelled",)]
    assert holding("verify").out.startswith("ok")
    assert holding("replay").out.startswith("identical")


def test_ctrl_c_twice_quits_at_once(project: Cli) -> None:
    stubborn = HOLD.replace("EFFECT", "once").replace("echo started", "trap '' TERM; echo started")
    project.write("tools/hold", stubborn, executable=True)

    with project.start("run", "-p", "hold") as running:
        project.until(lambda: has_started(project))
        running.send_signal(signal.SIGINT)
        project.until(lambda: project.rows("select 1 from entries where kind = 'turn.cancelling'") != [])
        _, err = interrupted(running)

    assert running.returncode == 130
    assert "Traceback" not in err


def test_after_kill_9_a_call_that_may_do_harm_is_not_run_again(holding: Cli) -> None:
    with holding.start("run", "-p", "hold") as running:
        holding.until(lambda: has_started(holding))
        running.kill()
    (holding.folder / "go").touch()

    resumed = holding("run", "--resume")

    assert (holding.folder / "effects").read_text() == "started\n"
    assert "unknown" in resumed.out
    assert holding.rows("select status, attempt from calls") == [("unknown", 1)]
    assert holding("replay").out.startswith("identical: 1 conversation")


def test_after_kill_9_a_pure_call_is_run_again(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("EFFECT", "pure"), executable=True)
    with project.start("run", "-p", "hold") as running:
        project.until(lambda: has_started(project))
        running.kill()
    (project.folder / "go").touch()

    resumed = project("run", "--resume", project.id("helper"))

    assert resumed.out == "hold: released\n"
    assert (project.folder / "effects").read_text() == "started\nstarted\n"
    assert project.rows("select status, attempt from calls") == [("done", 2)]


def test_commands_read_while_another_process_works(holding: Cli) -> None:
    with holding.start("run", "-p", "hold") as running:
        holding.until(lambda: has_started(holding))
        states = [row["state"] for row in holding("ps", "--json").data["conversations"]]
        shown = holding("show", holding.id("helper")).out
        verified, replayed = holding("verify").out, holding("replay").out
        resumed = holding("run", "--resume")
        (holding.folder / "go").touch()
        out, _ = running.communicate(timeout=60)

    assert states == ["running"]
    assert "call.started" in shown
    assert verified.startswith("ok")
    assert replayed.startswith("identical")
    assert "no open turn was left behind" in resumed.err
    assert (running.returncode, out) == (0, "hold: released\n")


def test_nothing_to_resume_is_no_failure(project: Cli) -> None:
    project("run", "-p", "hello")

    assert "no open turn was left behind" in project("run", "--resume").err
