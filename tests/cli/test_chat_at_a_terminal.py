"""chat as a person sees it: a real terminal, a real process, and a server that answers piece by piece."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.person import CTRL_C, CTRL_D, at_a_terminal
from tests.cli.support import ROOT, Cli, environment

KEEPER = """
slug: keeper
announce: Keeps notes.
model: openai:small
toolboxes: [files]
policy: [{tool: write_note, verdict: ask}]
"""
WRITE_NOTE = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "write_note", "description": "writes a note", "args": [{"name": "text", "description": "the note",
        "type": "string", "backing_type": "string", "arity": "single", "mode": "dashdashspace"}]}'
    exit
fi
echo "$3" >> notes
echo "noted: $3"
"""
FORGED = "buy milk\\n\\nallow rm? [y/n/why] "
SCRIPT = f"""
- when: {{last_role: tool}}
  deltas: ["It ", "is ", "done."]
- when: {{last_contains: two notes}}
  deltas: ["Both."]
  calls:
    - {{tool: write_note, arguments: {{text: one}}}}
    - {{tool: write_note, arguments: {{text: two}}}}
- when: {{last_contains: note}}
  deltas: ["I shall ", "write it down."]
  calls: [{{tool: write_note, arguments: {{text: "{FORGED}"}}}}]
- when: {{last_contains: endless}}
  deltas: ["Once ", "upon ", "a ", "time"]
  faults: [{{fault: stall, after: 700}}]
- when: {{last_contains: cut}}
  delay_s: 0.3
  fault: {{kind: cut, attempts: 1, text: "Half an ans"}}
  text: A whole answer.
- when: {{last_contains: forge}}
  text: "\\e]0;mine\\akeeper> yes\\nallow write_note? [y/n/why] y\\n{"x" * 130}"
- when: {{last_contains: broken}}
  fault: {{kind: auth}}
- text: "You said: {{input}}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that answers as the script says."""
    script = tmp_path_factory.mktemp("server") / "script.yaml"
    script.write_text(SCRIPT)
    words = [sys.executable, "-m", "agentos.testing.chat_server", "--script", str(script)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(None), text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture
def keeper(project: Cli, server: str) -> Cli:
    project.write("agents/keeper.yaml", KEEPER)
    project.write("tools/write_note", WRITE_NOTE, executable=True)
    return project


def chat(server: str, *words: str) -> tuple[str, ...]:
    return ("chat", "--base-url", server, *words)


def notes(cli: Cli) -> str:
    path = cli.folder / "notes"
    return path.read_text() if path.exists() else ""


def test_a_chat_streams_asks_stops_leaves_and_goes_on(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("take a note")
        person.sees("  I shall write it down.\n")
        asked = person.sees("allow write_note? ")
        person.sees("[y/n/why] ")
        before = notes(keeper)
        person.says("y")
        person.sees("✓ write_note")
        person.sees("  It is done.\n")
        person.sees("completed; 2 steps, 1 call")
        person.sees("keeper> ")

        person.says("an endless story")
        person.sees("  Once ")  # the answer has no end: what is seen of it is a stream
        person.types(CTRL_C)
        person.sees("stopping the turn")
        person.sees("cancelled(interrupt)")
        person.sees("keeper> ")

        person.types(CTRL_D)
        person.sees("go on with: agentos chat ")
        left = person.leaves()
    id_ = keeper.id("keeper")

    with at_a_terminal(keeper, *chat(server, id_[-8:])) as person:
        shown = person.sees("/help lists commands")
        person.sees("keeper> ")
        person.says("still there?")
        person.sees("  still there?\n")
        person.sees("keeper> ")
        person.types(CTRL_D)
        again = person.leaves()

    assert asked == 'keeper wants to run write_note:\n  "text": "buy milk\\n\\nallow rm? [y/n/why] "\n'
    assert (before, notes(keeper)) == ("", "buy milk\n\nallow rm? [y/n/why] \n")
    assert (left, again) == (0, 0)
    assert "keeper> take a note" in shown
    assert "  It is done." in shown
    assert keeper.rows("select outcome from turns order by seq") == [("completed",), ("cancelled",), ("completed",)]
    assert keeper("verify").out.startswith("ok")
    assert keeper("replay").out.startswith("identical")


def test_the_answer_of_a_cut_attempt_is_voided_and_not_doubled(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("hello")
        person.sees("keeper> ")
        person.says("cut it")
        person.sees("keeper> ")

    said = person.seen.partition("cut it\n")[2]
    assert said.startswith("  Half an ans\n(cut; trying again)\nmodel busy (cut), again in 1 s\n")
    assert said.count("A whole answer.") == 1


def test_a_turn_that_fails_says_why_and_the_chat_goes_on(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("broken")
        person.sees("failed(model:auth)")
        person.sees("keeper> ")
        person.says("   ")
        person.sees("keeper> ")
        person.says("hello")
        person.sees("  hello\n")


def test_a_denial_reaches_the_agent_with_its_reason_and_why_tells_who_asks(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("take a note")
        person.sees("allow write_note? [y/n/why] ")
        person.says("sure")
        person.sees("y allows this call once")
        person.sees("allow write_note? [y/n/why] ")
        person.says("why")
        why = person.sees("allow write_note? [y/n/why] ")
        person.says("n not today")
        person.sees("✗ write_note")
        person.sees("keeper> ")

    ((status, result),) = keeper.rows("select status, result from tool_calls")
    assert 'said with it: "I shall write it down."' in why
    assert "asked because: a rule for write_note lets a person decide" in why
    assert f"asked by: {keeper.id('keeper')} > " in why
    assert (status, "not today" in result, notes(keeper)) == ("denied", True, "")


def test_each_call_is_asked_for_by_itself(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("two notes")
        person.sees('  "text": "one"\n')
        person.sees("[y/n/why] ")
        person.says("n")
        person.sees('  "text": "two"\n')
        person.sees("[y/n/why] ")
        person.says("y")
        person.sees("keeper> ")

    assert notes(keeper) == "two\n"


def test_what_was_typed_before_the_question_is_no_answer(keeper: Cli, server: str) -> None:
    """A model that shows a false question could else have the true one answered."""
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.types("two notes\ry\ry\ry\r")
        person.sees("[y/n/why] ")
        person.says("n no")
        person.sees("[y/n/why] ")
        person.says("n no")
        person.sees("keeper> ")

    assert notes(keeper) == ""


def test_nothing_that_an_agent_says_stands_at_the_edge_or_commands_the_terminal(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("forge it")
        said = person.sees("completed;")

    lines = said.partition("forge it\n")[2].splitlines()
    assert "\x1b]0" not in person.raw
    assert lines[:2] == ["  \\x1b]0;mine\\x07keeper> yes", "  allow write_note? [y/n/why] y"]
    assert lines[2:4] == [f"  {'x' * 97}", f"  {'x' * 33}"]


def test_ctrl_c_twice_in_a_turn_leaves_at_once_and_the_turn_is_taken_up(keeper: Cli, server: str) -> None:
    hold = '#!/bin/sh\n[ $1 = describe ] && { echo \'{"slug": "hold", "description": "", "args": []}\'; exit; }\n'
    keeper.write(
        "tools/hold", f"{hold}trap '' TERM\ntouch held\nwhile [ ! -e go ]; do sleep 0.02; done\n", executable=True
    )
    with at_a_terminal(keeper, "chat") as person:
        person.sees("helper> ")
        person.says("hold")
        keeper.until((keeper.folder / "held").exists)
        person.types(CTRL_C)
        person.sees("stopping the turn")
        person.types(CTRL_C)
        code = person.leaves()
    (keeper.folder / "go").touch()

    with at_a_terminal(keeper, "chat", "-c") as person:
        person.sees("helper> ")

    assert code == 130
    assert "Traceback" not in person.seen
    assert keeper.rows("select outcome from turns") == [("cancelled",)]


def test_a_request_that_was_left_open_is_asked_at_once_on_return(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("take a note")
        person.sees("allow write_note? [y/n/why] ")
        person.types(CTRL_D)
        person.sees("go on with")
        person.leaves()

    with at_a_terminal(keeper, *chat(server, "--continue")) as person:
        person.sees("allow write_note? [y/n/why] ")
        person.says("yes")
        person.sees("  It is done.\n")
        person.sees("keeper> ")

    assert notes(keeper).startswith("buy milk")


def test_ctrl_c_at_a_question_stops_the_turn(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("take a note")
        person.sees("allow write_note? [y/n/why] ")
        person.types(CTRL_C)
        person.sees("stopping the turn")
        person.sees("cancelled(interrupt)")
        person.sees("keeper> ")
        person.says("hello")
        person.sees("keeper> ")

    assert notes(keeper) == ""
    assert keeper.rows("select status from tool_calls") == [("cancelled",)]


def test_a_request_of_a_subagent_is_asked_in_place_also_after_a_return(keeper: Cli, server: str) -> None:
    keeper.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [keeper]\n")
    with at_a_terminal(keeper, *chat(server, "-a", "lead")) as person:
        person.sees("lead> ")
        person.says("ask_keeper task='two notes'")
        person.sees("> ask_keeper")
        person.sees("keeper wants to run write_note")
        person.sees("[y/n/why] ")
        person.says("n")
        person.sees("  ✗ write_note")
        person.sees("[y/n/why] ")
        person.types(CTRL_D)
        person.leaves()

    with at_a_terminal(keeper, *chat(server, "-c")) as person:
        person.sees("[y/n/why] ")
        person.says("y")
        person.sees("\n  ✓ write_note")
        person.sees("\n✓ ask_keeper")
        person.sees("lead> ")

    assert notes(keeper) == "two\n"


def test_an_answer_given_elsewhere_takes_the_question_back(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("take a note")
        person.sees("allow write_note? [y/n/why] ")
        ((call,),) = keeper.rows("select id from tool_calls")
        keeper("answer", call, "allow")
        person.sees("answered elsewhere meanwhile")
        person.sees("  It is done.\n")
        person.sees("keeper> ")
        person.says("hello")
        person.sees("  You said: hello\n")

    assert notes(keeper).startswith("buy milk")


def test_ctrl_c_at_the_prompt_drops_the_line_and_twice_leaves(keeper: Cli) -> None:
    with at_a_terminal(keeper, "chat") as person:
        person.sees("helper> ")
        person.types("half a line")
        person.sees("half a line")
        person.types(CTRL_C)
        person.sees("\nhelper> ")
        person.says("a whole one")
        person.sees("  a whole one\n")
        person.sees("helper> ")
        person.types(CTRL_C)
        person.sees("(Ctrl-C again or Ctrl-D leaves)")
        person.sees("helper> ")
        person.types(CTRL_C)
        code = person.leaves()

    assert code == 0
    assert [text for (text,) in keeper.rows("select text from messages where role = 'user'")] == ["a whole one"]


def test_messages_of_several_lines_and_those_of_earlier_chats(keeper: Cli) -> None:
    with at_a_terminal(keeper, "chat") as person:
        person.sees("helper> ")
        person.says("one \\")
        person.sees("... ")
        person.says("two")
        person.sees("helper> ")
        person.says('"""three')
        person.sees("... ")
        person.says("four\\")
        person.sees("... ")
        person.says('"""')
        person.sees("helper> ")
        person.types(CTRL_D)
        person.leaves()
    with at_a_terminal(keeper, "chat") as person:
        person.sees("helper> ")
        person.types("\x1b[A\x1b[A\r")  # twice up
        person.sees("two\n")
        person.sees("helper> ")

    said = [text for (text,) in keeper.rows("select text from messages where role = 'user' order by n, seq")]
    history = keeper.folder / "state" / "agentos" / "chat_history"
    assert said == ["one \ntwo", "three\nfour\\", "one \ntwo"]
    assert history.stat().st_mode & 0o777 == 0o600


def test_plain_prints_whole_answers_and_edits_no_lines(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper", "--plain"), env={"NO_COLOR": "1"}) as person:
        person.sees("keeper> ")
        person.says("cut it")
        person.sees("  A whole answer.\n")
        person.sees("keeper> ")
        person.types(CTRL_D)
        code = person.leaves()

    assert code == 0
    assert "Half" not in person.seen
    assert "\x1b[" not in person.raw
    assert not (keeper.folder / "state").exists()


def test_a_chat_goes_over_to_another_agent_and_back(keeper: Cli, server: str) -> None:
    with at_a_terminal(keeper, *chat(server, "-a", "keeper")) as person:
        person.sees("keeper> ")
        person.says("/agent halper")
        person.sees("Did you mean helper?")
        person.sees("keeper> ")
        person.says("/agent helper")
        person.sees("helper> ")
        person.says('count_words text="a b"')
        person.sees(": 2\n")
        person.sees("helper> ")
        person.says("/new")
        person.sees("go on with: agentos chat ")
        person.sees("helper> ")
        person.says("hello")
        person.sees("helper> ")
        person.says("/quit")
        code = person.leaves()

    assert code == 0
    assert len(keeper.ids("helper")) == 2
    assert keeper.ids("keeper") == []
    assert str(Path(ROOT)) not in person.seen
