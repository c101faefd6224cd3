"""describe: agentos as a tool of other agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentos.toolboxes.script.form import Arity, Mode
from agentos.toolboxes.script.reading import read_description
from tests.cli.support import ROOT, Cli

WRAPPER = """#!/bin/sh
cd '{folder}' && PYTHONPATH='{root}' exec '{python}' -m agentos "$@"
"""


def wrapper(folder: Path) -> str:
    """A script that is the agentos of another folder."""
    return WRAPPER.format(folder=folder, root=ROOT, python=sys.executable)


def other_project(cli: Cli, folder: str) -> Path:
    """A project whose only agent answers what its script says."""
    cli.write(f"{folder}/agentos.toml", '[agents]\nfiles = ["librarian.yaml"]\n')
    cli.write(
        f"{folder}/librarian.yaml", "slug: librarian\nannounce: Knows every book.\nmodel: scripted:answers.yaml\n"
    )
    cli.write(f"{folder}/answers.yaml", "- text: 'You asked: {input}'\n- text: 'second'\n")
    return cli.folder / folder


def test_without_a_project_agentos_describes_itself(cli: Cli) -> None:
    described = read_description(cli.read("describe").out.encode())

    assert described.notes == ()
    assert described.form.slug == "agentos"
    (prompt,) = described.form.args
    assert (prompt.name, prompt.mode, prompt.arity) == ("prompt", Mode.DASHDASHSPACE, Arity.SINGLE)


def test_in_a_project_it_is_the_agent_that_run_would_ask(project: Cli) -> None:
    described = project.read("describe").data

    assert (described["slug"], described["description"]) == ("ask_helper", "Finds and counts.")


def test_a_slug_and_a_description_may_be_given(project: Cli) -> None:
    described = project.read("describe", "--slug", "ask_library", "--description", "Knows every book.").data

    assert (described["slug"], described["description"]) == ("ask_library", "Knows every book.")
    assert "'two words' is no name for a tool" in project.read("describe", "--slug", "two words", code=2).err


def test_an_agent_here_asks_an_agent_of_another_project(project: Cli) -> None:
    folder = other_project(project, "library")
    project.write("tools/library", wrapper(folder), executable=True)

    listed = project.read("tool", "list", "--json").data
    answered = project("run", "-p", 'ask_librarian prompt="--which book?"').out

    assert "ask_librarian" in [tool["name"] for tool in listed["tools"]]
    assert (listed["problems"], [note for note in listed["notes"] if "library" in note["place"]]) == ([], [])
    assert 'ask_librarian prompt="--which book?":' in answered
    assert "You asked: --which book?" in answered
    assert project.rows("select tool, status from tool_calls") == [("ask_librarian", "done")]
    there = Cli(folder)
    assert there.rows("select role, text from messages where role = 'user'") == [("user", "--which book?")]


def test_a_link_to_the_command_is_a_tool_of_the_project_that_it_runs_in(project: Cli) -> None:
    program = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    program += "from agentos.__main__ import main\nsys.exit(main())\n"
    target = project.write("bin/agentos", program, executable=True)
    (project.folder / "tools" / "agentos").symlink_to(target)

    called = project("tool", "call", "ask_helper", stdin=json.dumps({"prompt": 'count_words text="a b"'}))

    assert called.out == 'count_words text="a b": 2\n'


def test_a_turn_over_there_that_fails_is_a_failed_call_here(project: Cli) -> None:
    folder = other_project(project, "library")
    project.write("library/answers.yaml", "- fault: {kind: auth}\n")
    project.write("tools/library", wrapper(folder), executable=True)

    failed = project("tool", "call", "ask_librarian", stdin=json.dumps({"prompt": "hello"}), code=5)

    assert "ended with exit code 4" in failed.err
    assert "failed(model:auth)" in failed.err
