"""new agent, new tool: what is written works as it is."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from agentos.definitions import load_agent
from agentos.toolboxes.script.reading import read_description
from tests.cli.support import Cli

ARGUMENTS = json.dumps({"text": "one\ntwo\nthree", "lines": 2})
RUN_HERE = ["bash", "python", *(["node"] if shutil.which("node") else [])]
"""The languages whose programs this machine can run; what node would print is looked at on every machine."""


@pytest.mark.parametrize("format", ["yaml", "toml", "json", "md"])
def test_a_new_agent_can_be_asked_at_once(project: Cli, format: str) -> None:
    path = project.read("new", "agent", "reviewer", "--format", format).out.strip()

    spec = load_agent(project.folder / path)

    assert path == f"agents/reviewer.{format}"
    assert (spec.slug, spec.model_ref.kind, spec.step_limit) == ("reviewer", "direct", 20)
    assert "You are reviewer." in "\n".join(spec.prompt)
    assert project("run", "-a", "reviewer", "-p", "hello").out == "hello\n"


@pytest.mark.parametrize("format", ["yaml", "toml", "json", "md"])
def test_a_new_agent_has_the_model_that_was_named(cli: Cli, format: str) -> None:
    cli.read("new", "agent", "reviewer", "--model", "scripted:talk.yaml", "--format", format)

    ref = load_agent(cli.folder / f"reviewer.{format}").model_ref

    assert (ref.kind, ref.name) == ("scripted", "talk.yaml")


def test_the_name_of_the_file_says_its_format(cli: Cli) -> None:
    cli.read("new", "agent", "reviewer", "team/lead.toml")

    assert load_agent(cli.folder / "team" / "lead.toml").slug == "reviewer"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agent", "two words"], "'two words' is no slug"),
        (["agent", "a/b"], "'a/b' is no slug"),
        (["tool", "-x"], "-x"),
        (["agent", "a", "a.ini"], "a.ini: an agent file ends with .yaml, .toml, .json, .md"),
        (["agent", "a", "a.toml", "--format", "md"], "a.toml is not the name of a md file"),
        (["agent", "a", "--model", 'x"y'], "--model is kind or kind:name"),
        (["tool", "a", "--lang", "cobol"], "cobol"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(cli: Cli, words: list[str], told: str) -> None:
    assert told in cli.read("new", *words, code=2).err
    assert list(cli.folder.iterdir()) == []


@pytest.mark.parametrize("what", ["agent", "tool"])
def test_nothing_is_written_over_unless_it_is_wanted(cli: Cli, what: str) -> None:
    mine = cli.write("mine.yaml", "mine")

    refused = cli.read("new", what, "name", "mine.yaml", code=3)
    assert "mine.yaml exists already; -f writes over it" in refused.err
    assert mine.read_text() == "mine"

    cli.read("new", what, "name", "mine.yaml", "-f")
    assert "name" in mine.read_text()


@pytest.mark.parametrize("lang", RUN_HERE)
def test_a_new_tool_is_one_and_runs(project: Cli, lang: str) -> None:
    path = project.read("new", "tool", "first_lines", "--lang", lang).out.strip()

    checked = project.read("tool", "check", path)
    called = project("tool", "call", "first_lines", stdin=ARGUMENTS)
    failed = project("tool", "call", "first_lines", stdin='{"text": "a", "lines": "many"}', code=5)

    assert path == "tools/first_lines"
    assert checked.out == f"{project.folder}/{path}: tool first_lines\n"
    assert checked.err == ""
    assert called.out == "one\ntwo\n"
    assert "failed (exit)" in failed.err


@pytest.mark.parametrize("lang", ["bash", "python", "node"])
def test_a_new_tool_may_be_executed_and_has_its_slug(cli: Cli, lang: str) -> None:
    cli.read("new", "tool", "first_lines", "deep/tool", "--lang", lang)

    path = cli.folder / "deep" / "tool"
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env ")
    assert "@" not in re.sub(r'"\$@"', "", path.read_text())


def test_what_the_new_tool_for_node_describes_needs_no_note(cli: Cli) -> None:
    cli.read("new", "tool", "first_lines", "--lang", "node")
    text = (cli.folder / "first_lines").read_text()
    found = re.search(r"DESCRIPTION = `(.*?)`;", text, re.DOTALL)
    assert found is not None

    described = read_description(found[1].encode())

    assert described.notes == ()
    assert described.form.slug == "first_lines"
    assert [argument.name for argument in described.form.args] == ["text", "lines"]


def test_without_a_project_a_new_tool_stands_here(cli: Cli) -> None:
    written = cli.read("new", "tool", "first_lines")

    assert written.out == "first_lines\n"
    assert "agentos tool call ./first_lines" in written.err
    assert cli("tool", "call", "./first_lines", stdin=ARGUMENTS).out == "one\ntwo\n"
