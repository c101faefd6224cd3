"""Inputs from another terminal, to the process that has the conversation or by way of the store."""

from __future__ import annotations

import signal

from tests.cli.support import Cli
from tests.cli.test_up import told, up

TEXTS = "select text from messages where role = 'user' order by n, seq"


def test_an_input_reaches_the_process_that_has_the_conversation_and_its_key_counts_once(project: Cli) -> None:
    project("run", "-p", "help")
    id_ = project.id("helper")
    with up(project) as running:
        waits = project("send", id_, "-p", "first", "--json").data
        project.until(lambda: project.rows(f"{TEXTS} limit 1 offset 1") == [("first",)])
        taken = [project("send", id_, "--key", "k", "--json", stdin="second").data for _ in range(2)]
        told(running, signal.SIGTERM)

    assert waits == {"conversation": id_, "sent": True, "taken_by": None}
    assert [one["taken_by"] for one in taken] == [running.pid] * 2
    assert project.rows(TEXTS) == [("help",), ("first",), ("second",)]


def test_without_a_process_it_waits_in_the_store_and_is_taken_once(project: Cli) -> None:
    project("run", "-p", "help")
    sent = [project("send", project.id("helper"), "-p", "help", "--key", "k") for _ in range(2)]
    project("run", "--resume")

    assert all("waits in the store" in one.err for one in sent)
    assert project.rows("select count(*) from turns where outcome = 'completed'") == [(2,)]


def test_a_blank_input_and_an_unknown_conversation_are_refused(project: Cli) -> None:
    project("run", "-p", "help")

    assert "blank" in project("send", project.id("helper"), "-p", " ", code=2).err
    assert "no conversation" in project("send", "nosuch", "-p", "x", code=3).err
