"""run: answers on stdout, what became of the turn on stderr, an exit code for each end."""

from __future__ import annotations

import re

from agentos.ids import conversation_id
from tests.cli.support import Cli


def test_init_writes_a_project_whose_agent_uses_both_kinds_of_tools(cli: Cli) -> None:
    written = cli("init", "new").out.split()

    answered = cli(
        "run", "-p", 'count_words text="to be or not"\nfind_text text=count_words', folder=cli.folder / "new"
    )

    assert written == [f"new/{name}" for name in ("agentos.toml", "agents/helper.yaml", "tools/find_text", "words.py")]
    assert 'count_words text="to be or not": 4\n' in answered.out
    assert "words.py:7:def count_words" in answered.out


def test_init_overwrites_nothing(cli: Cli) -> None:
    mine = cli.write("words.py", "mine")

    refused = cli("init", code=3)

    assert "words.py exists already; nothing was written" in refused.err
    assert mine.read_text() == "mine"
    assert [path.name for path in cli.folder.iterdir()] == ["words.py"]


def test_the_answer_is_all_that_stands_on_stdout(project: Cli) -> None:
    asked = project("run", "-p", 'count_words text="a b"')

    assert asked.out == 'count_words text="a b": 2\n'
    assert re.fullmatch(r"conversation_\w+ \(helper\): completed; 2 steps, 1 call, \d+\+\d+ tokens\n", asked.err)


def test_the_text_comes_from_stdin_when_none_is_given(project: Cli) -> None:
    assert project("run", stdin="just words\n").out == "just words\n"


def test_a_text_may_begin_with_a_hyphen(project: Cli) -> None:
    assert project("run", "-p", "--not an option", "-p", "-x").out == "--not an option\n-x\n"


def test_json_is_the_outcome_as_one_object(project: Cli) -> None:
    outcome = project("run", "-p", 'count_words text="a b"', "--json").data

    assert conversation_id(outcome.pop("conversation"))
    assert outcome.pop("turn").startswith("turn_")
    assert outcome.pop("input_tokens") > 0
    assert outcome.pop("output_tokens") > 0
    assert outcome == {
        "agent": "helper",
        "outcome": "completed",
        "name": None,
        "text": 'count_words text="a b": 2',
        "error": "",
        "steps": 2,
        "calls": 1,
    }


def test_a_conversation_goes_on_by_a_part_of_its_id(project: Cli) -> None:
    project("run", "-p", "first")
    id_ = project.id("helper")

    project("run", id_[-6:], "-p", "second")

    said = project.rows("select conversation, text from history order by seq")
    assert said == [(id_, "first"), (id_, "first"), (id_, "second"), (id_, "second")]


def test_an_agent_named_by_file_goes_before_those_of_the_project(project: Cli) -> None:
    file = project.write("other.yaml", "slug: other\nmodel: direct\n")

    assert "(other)" in project("run", "--agent-file", str(file), "-p", "hello").err
    assert "(helper)" in project("run", "--agent-file", str(file), "-a", "helper", "-p", "hello").err


def test_a_limit_ends_with_6(project: Cli) -> None:
    file = project.write("short.yaml", "slug: short\nmodel: direct\ntoolboxes: [words]\nstep_limit: 1\n")

    asked = project("run", "--agent-file", str(file), "-p", 'count_words text="a"', code=6)

    assert "limit(steps)" in asked.err


def test_a_provider_that_lets_nobody_in_ends_with_4(project: Cli) -> None:
    project.write("script.yaml", "- fault: {kind: auth}\n")
    file = project.write("barred.yaml", "slug: barred\nmodel: scripted:script.yaml\n")

    asked = project("run", "--agent-file", str(file), "-p", "hello", code=4)

    assert "failed(model:auth)" in asked.err
    assert asked.out == ""


def test_a_refusal_ends_with_7(project: Cli) -> None:
    project.write("script.yaml", "- {text: 'I would rather not.', finish: refusal}\n")
    file = project.write("shy.yaml", "slug: shy\nmodel: scripted:script.yaml\n")

    asked = project("run", "--agent-file", str(file), "-p", "hello", code=7)

    assert asked.out == "I would rather not.\n"


def test_a_blank_text_is_a_mistake_of_the_caller(project: Cli) -> None:
    assert "blank" in project("run", "-p", "  ", code=2).err


def test_an_unknown_agent_is_told_with_the_nearest_one(project: Cli) -> None:
    told = project("run", "-a", "halper", "-p", "hello", code=3).err

    assert "no agent 'halper' is installed; installed: helper. Did you mean helper?" in told


def test_several_agents_and_no_default_have_to_be_chosen_from(cli: Cli) -> None:
    cli.write("agentos.toml", '[agents]\ndirectories = ["."]\n')
    cli.write("a.yaml", "slug: a\n")
    cli.write("b.yaml", "slug: b\n")

    assert "name one with -a: a, b" in cli("run", "-p", "hello", code=2).err


def test_a_mistake_in_an_agent_file_names_file_and_line(project: Cli) -> None:
    project.write("agents/bad.yaml", "slug: bad\nmodell: direct\n")

    told = project("run", "-p", "hello", code=3).err

    assert "agents/bad.yaml:2:1: unknown key 'modell'; did you mean model" in told
    assert "Traceback" not in told


def test_broken_yaml_and_toml_name_file_and_line(project: Cli) -> None:
    project.write("agents/bad.yaml", "slug: [bad\n")
    assert "agents/bad.yaml:2:1: " in project("run", "-p", "hello", code=3).err

    project.write("agentos.toml", "store = \n")
    assert "agentos.toml:1:" in project("run", "-p", "hello", code=3).err


def test_a_folder_without_a_project_says_how_to_make_one(cli: Cli) -> None:
    said = cli("run", "-p", "hello", code=3).err
    cli.write("agentos.toml", "")

    assert said.startswith(
        "error: no agents: no agentos.toml was found from here upward; 'agentos init' makes a project"
    )
    assert "no agents: agentos.toml names none" in cli("run", "-p", "hello", code=3).err


def test_a_script_that_cannot_describe_itself_is_left_out_and_told(project: Cli) -> None:
    project.write("tools/broken", "#!/bin/sh\nexit 3\n", executable=True)

    asked = project("run", "-p", 'count_words text="a"')

    assert "tools/broken: describe ended with exit code 3" in asked.err
    assert asked.out == 'count_words text="a": 1\n'


def test_a_project_is_found_from_the_folders_below_it(project: Cli) -> None:
    below = project.folder / "deep" / "down"
    below.mkdir(parents=True)

    project("run", "-p", "hello", folder=below)

    assert len(project.ids()) == 1
    assert not (below / ".agentos").exists()


def test_parts_of_a_prompt_stand_in_the_order_of_the_line(project: Cli) -> None:
    project.write("notes.txt", "from a file\n")

    asked = project("run", "-p", "one", "-s", "-", "-f", "notes.txt", "--shell", "echo two", "-p=three", code=0)

    assert asked.out == "one\n----\nfrom a file\ntwo\nthree\n"


def test_echo_prompt_prints_the_prompt_and_asks_nobody(cli: Cli) -> None:
    assert cli("run", "--echo-prompt", "-p", "{{content}}", "-S", "=").out == f"{{{{content}}}}\n{'=' * 40}\n"
    assert list(cli.folder.iterdir()) == []


def test_an_alias_of_the_project_goes_before_a_built_in_one(project: Cli) -> None:
    more = '\n[aliases.summarize]\ntemplate = "Briefly: {{content}}"\n[aliases.loud]\ntemplate = "{{content}}!"\n'
    project.write("agentos.toml", (project.folder / "agentos.toml").read_text() + more)

    assert project("run", "--alias", "summarize", stdin="a story\n").out == "Briefly: a story\n"
    assert project("run", "--alias", "loud", "--echo-prompt", stdin="hey\n").out == "hey!\n"
    told = project("run", "--alias", "lod", stdin="hey", code=2).err
    assert "no alias 'lod'. Did you mean loud?" in told
    assert "  explain: say what code does" in told


def test_a_prompt_that_cannot_be_built_leaves_no_conversation(project: Cli) -> None:
    assert "ended with exit code 3" in project("run", "--shell", "exit 3", code=2).err
    assert "gone.txt: No such file" in project("run", "-f", "gone.txt", code=1).err
    assert "blank" in project("run", "-p", " ", "-s", "", code=2).err
    assert not (project.folder / ".agentos" / "agentos.db").exists()


def test_only_the_toolboxes_that_a_turn_may_come_to_have_to_work(project: Cli) -> None:
    project.write("agents/far.yaml", "slug: far\nmodel: direct\ntoolboxes: [{kind: mcp, name: away, command: [x]}]\n")
    project.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [far]\n")

    asked = project("run", "-p", "hello")
    refused = project("run", "-a", "lead", "-p", "hello", code=3).err
    without = project("run", "-a", "lead", "--without", "away", "-p", "hello")

    assert (asked.out, without.out) == ("hello\n", "hello\n")
    assert "agent far: toolbox far/away" in refused
    assert "go on without a toolbox by --without NAME" in refused


def test_the_agent_of_a_conversation_is_asked_when_it_goes_on(project: Cli) -> None:
    project.write("agents/other.yaml", "slug: other\nmodel: direct\n")
    project("run", "-a", "other", "-p", "first")

    assert "(other)" in project("run", project.id("other"), "-p", "second").err
