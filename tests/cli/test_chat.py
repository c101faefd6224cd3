"""chat over pipes: each line a message, answers alone on stdout, an exit code for the turns."""

from __future__ import annotations

import signal

import pytest

from tests.cli.support import Cli

ASKER = """
slug: asker
model: direct
toolboxes: [words]
policy: [{tool: count_words, verdict: ask}]
approval: park
"""


def last_line(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[2]


def test_each_line_is_a_message_and_answers_alone_stand_on_stdout(project: Cli) -> None:
    told = project("chat", stdin='hello\ncount_words text="a b"\n')

    assert told.out == 'hello\ncount_words text="a b": 2\n'
    assert '✓ count_words {"text": "a b"} done, ' in told.err
    assert "\x1b" not in told.err
    assert "helper>" not in told.err
    assert last_line(told.err) == f"go on with: agentos chat {project.id('helper')}"
    assert project.rows("select count(*), sum(turns) from conversations") == [(1, 2)]


def test_several_lines_are_one_message_and_answers_go_out_as_they_are(project: Cli) -> None:
    told = project("chat", stdin='one \\\n\x1b[1mtwo\n"""\nthree\n\nfour\n"""\n')

    assert told.out.startswith("one\n\x1b[1mtwo\n")
    said = project.rows("select text from messages where role = 'user' order by seq")
    assert said == [("one \n\x1b[1mtwo",), ("three\n\nfour",)]


def test_a_pipe_that_ends_within_a_message_is_a_mistake_of_the_caller(project: Cli) -> None:
    told = project("chat", stdin='hello\n"""\nno end\n', code=2)

    assert "the input ends within a message" in told.err
    assert told.out == "hello\n"


def test_it_goes_on_with_the_conversation_of_an_id_or_the_last_one(project: Cli) -> None:
    project("chat", stdin="first\n")
    id_ = project.id("helper")
    project("run", "-p", "another")

    by_id = project("chat", id_[-8:], stdin="second\n")
    last = project("chat", "-c", stdin="third\n")
    same = project("chat", "--resume", stdin="")

    assert (by_id.out, last.out, same.out) == ("second\n", "third\n", "")
    assert "helper> first\n  first\n" in by_id.err
    assert project.ids() == [id_, project.ids()[1]]
    assert [text for (text,) in project.rows("select text from history where role = 'user' order by at")] == [
        "first",
        "another",
        "second",
        "third",
    ]


def test_there_has_to_be_a_conversation_to_go_on_with(project: Cli) -> None:
    project("run", "-p", "hello")
    wrong = project.id("helper")[:-2] + "zz"

    assert f"Did you mean {project.id('helper')}?" in project("chat", wrong, code=3).err


def test_nothing_said_leaves_nothing_in_the_store(project: Cli) -> None:
    told = project("chat", stdin="\n   \n/tools\n/show\n/usage\n")

    assert "count_words  Count the words" in told.err
    assert told.err.count("nothing was said yet") == 2
    assert "go on with" not in told.err
    assert project.rows("select count(*) from conversations") == [(0,)]


def test_a_turn_that_fails_gives_the_exit_code_and_the_next_one_goes_on(project: Cli) -> None:
    project.write("script.yaml", "- when: {last_contains: '?'}\n  text: Here I am.\n- fault: {kind: auth}\n")
    project.write("shy.yaml", "slug: shy\nmodel: scripted:script.yaml\n")

    told = project("chat", "--agent-file", "shy.yaml", stdin="hello\nhello?\n", code=4)

    assert "failed(model:auth)" in told.err
    assert told.out == "Here I am.\n"


def test_a_wait_for_a_busy_model_is_told_and_a_cut_answer_is_not_doubled(project: Cli) -> None:
    script = "- fault: {kind: rate_limit, retry_after_s: 0.1, text: 'Half an', attempts: 1}\n  text: Whole.\n"
    project.write("script.yaml", script)
    project.write("busy.yaml", "slug: busy\nmodel: scripted:script.yaml\n")

    told = project("chat", "--agent-file", "busy.yaml", stdin="hello\n")

    assert told.out == "Whole.\n"
    assert "model busy (rate_limit), again in 1 s" in told.err


def test_a_request_that_nobody_can_answer_ends_the_chat_with_7(project: Cli) -> None:
    project.write("agents/asker.yaml", ASKER)
    asked = project("chat", "-a", "asker", stdin='count_words text="a b"\ny\n', code=7)
    ((call,),) = project.rows("select id from tool_calls")

    still = project("chat", "-c", stdin="y\n", code=7)
    project("answer", call, "allow")
    taken = project("chat", "-c", stdin="and then?\n")

    assert f"agentos answer {call} allow|deny, then agentos chat {project.id('asker')}" in asked.err
    assert (asked.out, still.out) == ("", "")
    assert taken.out == 'count_words text="a b": 2\nand then?\n'
    assert project.rows("select text from messages where role = 'user' and text = 'y'") == []


def test_an_agent_whose_rules_ask_is_denied_when_nobody_listens(project: Cli) -> None:
    project.write("agents/asker.yaml", ASKER.replace("approval: park\n", ""))

    told = project("chat", "-a", "asker", stdin='count_words text="a b"\n')

    assert "nobody listens" in told.out
    assert "✗ count_words" in told.err
    assert "denied (approval)" in told.err


def test_what_subagents_do_stands_below_the_call_that_asked_them(project: Cli) -> None:
    project.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [helper]\n")

    told = project("chat", "-a", "lead", stdin="ask_helper task='count_words text=\"a b\"'\n")

    marks = [line.partition(" {")[0] for line in told.err.splitlines()[:3]]
    assert marks == ["> ask_helper", "  ✓ count_words", "✓ ask_helper"]


def test_commands_show_the_conversation_and_what_it_took(project: Cli) -> None:
    told = project("chat", stdin='count_words text="a b"\n/show\n/usage\n/agents\n/help\n').err

    assert f"helper {project.id('helper')}  idle" in told
    assert "call 6 count_words  done" in told
    assert "* helper  Finds and counts." in told
    assert "helper              1      1      2      1" in told
    assert "tokens in all" in told
    assert "/agent        SLUG: begin a new conversation with another agent" in told


def test_a_command_that_is_none_is_told_with_the_nearest_and_never_sent(project: Cli) -> None:
    told = project("chat", stdin="/tolls\n/etc/passwd\n /etc is a folder\n")

    assert "there is no /tolls. Did you mean /tools?" in told.err
    assert "there is no /etc/passwd" in told.err
    assert project.rows("select text from messages where role = 'user'") == [(" /etc is a folder",)]


def test_another_agent_begins_another_conversation(project: Cli) -> None:
    project.write("agents/other.yaml", "slug: other\nmodel: direct\n")

    told = project("chat", stdin="one\n/agent other\ntwo\n/agent helper\nthree\n/new\nfour\n")

    assert told.out == "one\ntwo\nthree\nfour\n"
    assert (len(project.ids("helper")), len(project.ids("other"))) == (3, 1)
    assert [line for line in told.err.splitlines() if line.startswith("go on with")] == [
        f"go on with: agentos chat {id_}" for id_ in project.ids()
    ]


def test_an_agent_that_cannot_be_opened_leaves_the_one_before(project: Cli) -> None:
    broken = "slug: other\nmodel: direct\ntoolboxes: [{kind: mcp, name: far, command: [x]}]\n"
    project.write("agents/other.yaml", broken)

    told = project("chat", stdin="one\n/agent other\ntwo\n")

    assert "go on without a toolbox by --without NAME" in told.err
    assert told.out == "one\ntwo\n"
    assert project.ids("other") == []


def test_a_blank_line_is_no_message_and_too_long_a_one_is_refused(project: Cli) -> None:
    settings = (project.folder / "agentos.toml").read_text() + "\n[settings]\ninput_bytes_max = 100\n"
    project.write("agentos.toml", settings)

    told = project("chat", stdin=f"\n{'x' * 101}\n\u200b\nhello\n", code=2)

    assert "over input_bytes_max (100)" in told.err
    assert "the input is blank" in told.err
    assert told.out == "hello\n"


def test_a_conversation_that_another_process_works_on_is_told(project: Cli) -> None:
    project.write("agents/asker.yaml", ASKER)
    with project.start("run", "-a", "asker", "-p", 'count_words text="a"', "--wait") as running:
        project.until(lambda: project.rows("select 1 from conversations where state = 'parked'") != [])

        told = project("chat", project.id("asker"), stdin="hello\n", code=1)

        assert running.poll() is None
    assert told.out == ""
    assert "is at work in another process (" in told.err
    assert f"pid {running.pid}" in told.err


@pytest.mark.parametrize("presses", [1, 2])
def test_a_signal_stops_the_turn_and_a_second_one_leaves(project: Cli, presses: int) -> None:
    describe = '[ $1 = describe ] && { echo \'{"slug": "hold", "description": "", "args": []}\'; exit; }'
    trap = "trap '' TERM\n" if presses == 2 else ""
    hold = f"#!/bin/sh\n{describe}\n{trap}touch held\nwhile [ ! -e go ]; do sleep 0.02; done\n"
    project.write("tools/hold", hold, executable=True)
    project.write("say", "hold\n")

    with project.start("chat", stdin=project.folder / "say") as running:
        project.until((project.folder / "held").exists)
        running.send_signal(signal.SIGINT)
        project.until(lambda: project.rows("select 1 from entries where kind = 'turn.cancelling'") != [])
        if presses == 2:
            running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)

    assert running.returncode == 130
    assert "stopping the turn" in err
    assert "Traceback" not in err
    assert ("cancelled(interrupt)" in err) == (presses == 1)
