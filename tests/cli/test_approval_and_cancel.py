"""Turns that wait for a person, answered and cancelled from other processes."""

from __future__ import annotations

import pytest

from tests.cli.support import Cli

ASKER = """
slug: asker
model: direct
toolboxes: [words]
policy: [{tool: count_words, verdict: ask}]
approval: park
"""
ASK = ("run", "-a", "asker", "-p", 'count_words text="a b"')


@pytest.fixture
def asker(project: Cli) -> Cli:
    project.write("agents/asker.yaml", ASKER)
    return project


def request(cli: Cli) -> str:
    """The call that waits."""
    ((call,),) = cli.rows("select id from tool_calls where status = 'waiting'")
    return str(call)


def is_parked(cli: Cli) -> bool:
    return cli.rows("select 1 from conversations where state = 'parked'") != []


def test_a_turn_that_needs_approval_is_left_parked_with_7(asker: Cli) -> None:
    asked = asker(*ASK, code=7)

    assert asked.out == ""
    assert f"agentos answer {request(asker)} allow|deny, then agentos run --resume" in asked.err
    assert asker.rows("select state from conversations") == [("parked",)]


def test_an_answer_and_a_resume_take_the_turn_to_its_end(asker: Cli) -> None:
    asker(*ASK, code=7)
    call = request(asker)

    listed = asker("answer", "--json").data["requests"]
    asker("answer", call, "allow")
    resumed = asker("run", "--resume")

    assert listed == [
        {
            "request": call,
            "conversation": asker.id("asker"),
            "agent": "asker",
            "tool": "count_words",
            "arguments": '{"text":"a b"}',
        }
    ]
    assert resumed.out == 'count_words text="a b": 2\n'
    assert "completed" in resumed.err


def test_a_denial_is_read_by_the_agent_with_its_reason(asker: Cli) -> None:
    asker(*ASK, code=7)

    asker("answer", request(asker)[-6:], "deny", "--reason", "not today")
    resumed = asker("run", "--resume", asker.id("asker"))

    assert "not run: denied: not today" in resumed.out


def test_what_nobody_answered_stays_parked_on_resume(asker: Cli) -> None:
    asker(*ASK, code=7)

    assert "waiting for approval of count_words" in asker("run", "--resume", code=7).err
    assert is_parked(asker)


def test_only_the_first_answer_counts(asker: Cli) -> None:
    asker(*ASK, code=7)
    call = request(asker)
    asker("answer", call, "allow")

    assert "was answered before" in asker("answer", call, "deny", code=1).err
    asker("run", "--resume")
    assert "does not wait for approval: it is done" in asker("answer", call, "deny", code=2).err


def test_an_answer_names_its_request_and_its_verdict(asker: Cli) -> None:
    asker(*ASK, code=7)
    call = request(asker)
    wrong = call[:-4] + "zz" + call[-2:]

    assert f"no call '{wrong}' waits for approval" in (told := asker("answer", wrong, "allow", code=2).err)
    assert f"Did you mean {call}?" in told
    assert "say allow or deny" in asker("answer", call, code=2).err
    assert 'Did you mean "allow"?' in asker("answer", call, "alow", code=2).err


def test_an_answer_from_another_process_wakes_a_running_kernel(asker: Cli) -> None:
    with asker.start(*ASK, "--wait") as running:
        asker.until(lambda: is_parked(asker))
        asker("answer", request(asker), "allow")
        out, err = running.communicate(timeout=60)

    assert (running.returncode, out) == (0, 'count_words text="a b": 2\n'), err


def test_cancel_from_another_process_ends_the_turn(asker: Cli) -> None:
    with asker.start(*ASK, "--wait") as running:
        asker.until(lambda: is_parked(asker))
        told = asker("cancel", asker.id("asker"))
        out, err = running.communicate(timeout=60)

    assert "cancel is under way" in told.err
    assert (running.returncode, out) == (1, "")
    assert "cancelled(interrupt)" in err
    assert asker.rows("select status, kind from calls") == [("cancelled", "not_started")]


def test_a_parked_turn_can_be_cancelled_without_a_kernel(asker: Cli) -> None:
    asker(*ASK, code=7)

    asker("cancel", asker.id("asker"))
    resumed = asker("run", "--resume", code=1)

    assert "cancelled(interrupt)" in resumed.err
    assert asker.rows("select state from conversations") == [("idle",)]


def test_there_is_nothing_to_cancel_in_an_idle_conversation(project: Cli) -> None:
    project("run", "-p", "hello")

    assert "is idle; there is nothing to cancel" in project("cancel", project.id("helper")).err
    assert project.rows("select count(*) from inbox") == [(0,)]


def test_a_parked_child_is_told_with_its_parent(asker: Cli) -> None:
    asker.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [asker]\n")

    asker("run", "-a", "lead", "-p", "ask_asker task='count_words text=\"a\"'", code=7)
    asker("answer", request(asker), "allow")
    resumed = asker("run", "--resume", asker.id("lead"))

    assert resumed.out == 'ask_asker task="count_words text=\\"a\\"": count_words text="a": 1\n'
    assert len(resumed.err.splitlines()) == 3
