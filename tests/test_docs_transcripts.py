"""The pages say what happens: their commands run as they stand, in order, and print what the pages show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transcript import ROOT, mismatch, steps_of

DOCS = ROOT / "docs"
PAGES = ("tutorial.md", "agent-files.md", "tools.md", "lua.md", "commands.md", "operating.md", "sessions.md")
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_prints_what_the_page_shows(page: str, tmp_path: Path) -> None:
    found = mismatch((DOCS / page).read_text(), tmp_path)

    assert found is None, f"{found}\n`python -m tests.transcript docs/{page}` renews the outputs"


def test_no_page_shows_commands_that_are_not_run() -> None:
    shown = {page.name for page in DOCS.rglob("*.md") if "```console" in page.read_text()}

    assert shown - {"chat-transcript.md"} == set(PAGES)


def test_a_page_that_shows_another_output_is_found(tmp_path: Path) -> None:
    page = "```console\n$ echo one\none\n$ echo two\nthree\n```"

    found = mismatch(page, tmp_path)

    assert found is not None
    assert (found.step.text, found.step.shown, found.came) == ("echo two", "three", "two")


def test_an_id_in_two_places_has_to_be_the_same_one(tmp_path: Path) -> None:
    lines = ["```console", "$ echo 1234abcd 5678efgh", "aaaa1111 bbbb2222", "$ echo aaaa1111", "bbbb2222", "```"]

    found = mismatch("\n".join(lines), tmp_path)

    assert found is not None
    assert (found.step.text, found.came) == ("echo aaaa1111", "1234abcd")


def test_a_terminal_goes_on_while_others_run(tmp_path: Path) -> None:
    waits = "until [ -e go ]; do sleep 0.05; done"
    lines = ["```console", f"first$ echo one; {waits}; echo two", "one", "second$ touch go", "first$", "two", "```"]

    assert mismatch("\n".join(lines), tmp_path) is None


def test_a_terminal_that_prints_more_than_a_page_shows_is_found(tmp_path: Path) -> None:
    found = mismatch("```console\nfirst$ printf 'one\\ntwo\\n'\none\n```", tmp_path)

    assert found is not None
    assert found.came == "one\ntwo"


def test_a_process_in_two_places_has_to_be_the_same_one(tmp_path: Path) -> None:
    lines = [
        "```console",
        "$ echo process 12, process 34",
        "process 56, process 78",
        "$ echo kill 56",
        "kill 78",
        "```",
    ]

    found = mismatch("\n".join(lines), tmp_path)

    assert found is not None
    assert (found.step.text, found.came) == ("echo kill 56", "kill 12")


def test_a_file_is_what_a_line_before_the_block_names() -> None:
    page = "Write `a/b`:\n\n```yaml\nx: 1\n```\n```yaml\ny: 2\n```"

    assert [(step.text, step.shown) for step in steps_of(page) if step.is_file] == [("a/b", "x: 1\n")]


def test_the_programs_of_the_page_of_models_print_what_stands_below_them(tmp_path: Path) -> None:
    programs = PROGRAM.findall((DOCS / "models.md").read_text())

    ran = [
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
        for program, _ in programs
    ]

    assert len(programs) == 2
    assert [(one.stdout, one.stderr) for one in ran] == [(printed, "") for _, printed in programs]
