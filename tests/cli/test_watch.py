"""watch: stored entries, then those that another process writes."""

from __future__ import annotations

import json
import signal

from tests.cli.support import Cli
from tests.cli.test_interrupt_and_crash import HOLD


def test_watch_prints_what_is_stored_and_ends_when_nothing_is_open(project: Cli) -> None:
    project("run", "-p", "hello")
    id_ = project.id("helper")

    lines = [json.loads(line) for line in project("watch", id_, "--until-settled", "--json").out.splitlines()]
    later = project("watch", id_, "--until-settled", "--after", "4").out

    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert {line["type"] for line in lines} == {"entry"}
    assert later.split()[0] == "5"


def test_watch_follows_another_process_to_the_end_of_the_turn(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("EFFECT", "pure"), executable=True)
    with project.start("run", "-p", "hold") as running:
        project.until((project.folder / "effects").exists)
        with project.start("watch", project.id("helper"), "--until-settled", "--json") as watching:
            assert watching.stdout is not None
            lines = [json.loads(watching.stdout.readline())]
            (project.folder / "go").touch()
            lines += [json.loads(line) for line in watching.stdout]
            watching.wait(60)
        running.communicate(timeout=60)

    entries = [line for line in lines if line["type"] == "entry"]
    deltas = [line["text"] for line in lines if line["type"] == "delta"]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[-1]["kind"] == "turn.finished"
    assert "".join(deltas) == "hold: released"
    assert (watching.returncode, running.returncode) == (0, 0)


def test_watch_ends_with_ctrl_c(project: Cli) -> None:
    project("run", "-p", "hello")

    with project.start("watch", project.id("helper")) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)

    assert (watching.returncode, err) == (130, "")


def test_what_was_said_and_waits_for_its_turn_is_not_settled(project: Cli) -> None:
    """Who says something and watches sees what comes of it, though nobody has taken it yet."""
    project("run", "-p", "hello")
    id_ = project.id("helper")
    project("send", id_, "-p", "later")
    with project.start("watch", id_, "--after", "6", "--until-settled", "--json") as watching:
        assert watching.stdout is not None
        project("run", "--resume")
        lines = [json.loads(line) for line in watching.stdout]
        watching.wait(60)

    assert [line["kind"] for line in lines if line["type"] == "entry"][-1:] == ["turn.finished"]
