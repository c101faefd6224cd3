"""How `up` is told to end, more than once, by whom, and what other terminals may do meanwhile."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from typing import Any, cast

from agentos.interfaces.cli.signals import Signals
from agentos.interfaces.cli.up import _take_up, _until_told
from agentos.kernel import Kernel
from agentos.kernel.stopping import Stopping
from tests.cli.support import LIMIT_S, Cli, command, environment
from tests.cli.test_interrupt_and_crash import has_started
from tests.cli.test_up import holding, listens, sockets, tools_of, up
from tests.support import hang

__all__ = ["holding"]

SLOW_TO_DESCRIBE = """#!/bin/sh
echo describing >> effects
sleep 60
"""


def test_other_terminals_see_and_command_a_kernel_that_waits_for_what_runs(holding: Cli) -> None:
    with up(holding, "--grace", "600") as running:
        holding.until(lambda: has_started(holding))
        running.send_signal(signal.SIGTERM)
        told_of(running)
        top = holding("top", "--once", "--json", "--every", "0.1").data
        cancelled = holding("cancel", holding.id("helper"), "--json")
        _, err = running.communicate(timeout=LIMIT_S)

    assert len(top["turns"]) == 1
    assert (cancelled.data["cancelled"], cancelled.data["taken_by"]) == (True, None)
    assert f"process {running.pid} is about to end; the word waits in the store" in cancelled.err
    assert holding.rows("select outcome from turns") == [("cancelled",)]
    assert (running.returncode, "nothing was left open" in err) == (0, True)


def test_who_says_stop_again_waits_for_the_same_end(holding: Cli) -> None:
    with up(holding, "--grace", "600") as running:
        holding.until(lambda: has_started(holding))
        with holding.start("stop", "--json") as first:
            told_of(running)
            with holding.start("stop", "--json") as second:
                assert second.stderr is not None
                assert "told to end" in second.stderr.readline()
                assert holding("ps", "--json").data["conversations"][0]["state"] == "running"
                (holding.folder / "go").touch()
                ended = [one.wait(LIMIT_S) for one in (first, second, running)]

    assert ended == [0, 0, 0]
    assert holding.rows("select outcome from turns") == [("completed",)]


def test_stop_now_ends_the_grace_of_an_end_that_is_under_way(holding: Cli) -> None:
    with up(holding, "--grace", "600") as running:
        holding.until(lambda: has_started(holding))
        running.send_signal(signal.SIGTERM)
        told_of(running)
        (stopped,) = holding("stop", "--now", "--json").data["stopped"]
        running.wait(LIMIT_S)

    assert (stopped["ended"], stopped["cut"]) == (True, holding.ids("helper"))
    assert running.returncode == 130
    assert not tools_of(holding)


def test_a_terminal_that_closes_lets_what_runs_end(holding: Cli) -> None:
    ours, its = pty.openpty()
    words = command(["up", "--grace", "600"])
    running = subprocess.Popen(words, cwd=holding.folder, env=environment(None), stdout=its, stderr=its, text=True)
    try:
        os.close(its)
        holding.until(lambda: listens(holding, running) and has_started(holding))
        os.close(ours)
        for _ in range(3):  # the system sends one, and the shell another
            running.send_signal(signal.SIGHUP)
        assert holding("top", "--once", "--json", "--every", "0.3").data["turns"]
        (holding.folder / "go").touch()

        assert running.wait(LIMIT_S) == 0
    finally:
        running.kill()
        running.wait()
    assert holding.rows("select outcome from turns") == [("completed",)]


def test_a_word_to_end_while_it_opens_leaves_nothing_behind(project: Cli) -> None:
    project.write("tools/slow", SLOW_TO_DESCRIBE, executable=True)
    with project.start("up") as running:
        project.until(lambda: has_started(project))
        assert not sockets(project), "nobody may ask before its agents are there"
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=LIMIT_S)

    assert "ended before anything was hosted, told by SIGTERM" in err
    assert running.returncode == 130
    assert not tools_of(project)
    assert project.rows("select 1 from writers where ended_at is null") == []


def test_a_watch_says_that_the_process_has_ended_and_goes_on(holding: Cli) -> None:
    with up(holding) as running:
        holding.until(lambda: has_started(holding))
        with holding.start("watch", holding.id("helper"), "--json") as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert "conversation.started" in watching.stdout.readline()
            holding("stop", "--now")
            said = watching.stderr.readline()
            (holding.folder / "go").touch()
            holding("run", "--resume")
            while "turn.finished" not in (line := watching.stdout.readline()):
                assert line, "it ended"
            watching.kill()

    assert f"process {running.pid} runs it no longer; going on by the store" in said


def told_of(running: subprocess.Popen[str]) -> None:
    """Until it says that it is about to end."""
    assert running.stderr is not None
    while "ending" not in (line := running.stderr.readline()):
        assert line, "it ended without a word"


async def test_what_was_left_is_taken_up_no_further_once_it_is_told_to_end() -> None:
    class Slow:
        """A kernel that takes for ever to take up what there is."""

        def __init__(self) -> None:
            self.stopping = Stopping()
            self.gave_up = False

        async def recover(self) -> list[Any]:
            try:
                found: list[Any] = await hang()
                return found
            except asyncio.CancelledError:
                self.gave_up = True
                raise

    kernel, signals = Slow(), Signals()
    kernel.stopping.listen()
    kernel.stopping.ask(force=False)
    await _take_up(cast("Kernel", kernel), signals)
    await _until_told(cast("Kernel", kernel), signals)

    assert kernel.gave_up
    assert (signals.told_by, signals.forced) == ("another terminal", False)
