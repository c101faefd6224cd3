"""Pipes, locales, colours, and what must not reach a terminal."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from agentos.interfaces.cli.output import cell, table, visible
from tests.cli.support import Cli, command, environment


def test_a_reader_that_goes_away_is_no_error(shared: Cli) -> None:
    endless = "with recursive n (i) as (select 1 union all select i + 1 from n limit 90000) select i from n"

    with shared.start("query", endless) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr is not None
        err = running.stderr.read()

    assert (running.returncode, err) == (141, "")


def test_output_is_utf_8_in_any_locale(project: Cli) -> None:
    plain = {"LANG": "C", "LC_ALL": "C"}

    assert project("run", "-p", "déjà vu ✓", env=plain).out == "déjà vu ✓\n"
    assert project("run", stdin="naïve ✓", env={**plain, "PYTHONIOENCODING": "ascii"}).out == "naïve ✓\n"


def on_a_terminal(cli: Cli, *words: str, **env: str) -> str:
    """What a command prints when a terminal is on all its ends."""
    mine, its = pty.openpty()
    process = subprocess.Popen(
        command(words), stdin=its, stdout=its, stderr=its, cwd=cli.folder, env=environment({"TERM": "xterm", **env})
    )
    os.close(its)
    read = b""
    while True:
        try:
            read += os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
    os.close(mine)
    process.wait(60)
    return read.decode().replace("\r\n", "\n")


def test_colours_are_for_terminals_and_can_be_refused(shared: Cli) -> None:
    assert "\x1b[1m" in on_a_terminal(shared, "ps")
    assert "\x1b[" not in on_a_terminal(shared, "ps", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(shared, "--no-color", "ps")
    assert "\x1b[" not in on_a_terminal(shared, "ps", TERM="dumb")
    assert "\x1b[" not in shared("ps").out


def test_an_answer_cannot_command_the_terminal(project: Cli) -> None:
    evil = "\x1b]0;mine\x07\x1b[2J done"

    assert project("run", "-p", evil).out == f"{evil}\n"
    assert "\\x1b]0;mine\\x07\\x1b[2J done" in on_a_terminal(project, "run", "-p", evil)


def test_a_terminal_without_a_text_is_told_how_to_ask(project: Cli) -> None:
    assert "give the text with -p TEXT, or on stdin" in on_a_terminal(project, "run")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb", "a\\x0d\nb"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("日本 ✓ é", "日本 ✓ é"),
    ],
)
def test_control_characters_are_shown_and_not_sent(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_table_stands_straight_with_wide_letters() -> None:
    lines = table(("name", "n"), [("日本", 1), ("ab", 200), (None, None)])

    assert lines == ["name    n", "日本    1", "ab    200", "-       -"]
    assert cell("two\nlines") == "two\\nlines"
