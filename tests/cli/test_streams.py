"""Pipes, locales, colours, and what must not reach a terminal."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from agentos.interfaces.cli.output import cell, table, visible
from tests.cli.support import LIMIT_S, Cli, command, environment
from tests.history.session_files import DATA, WHOLE


def test_a_reader_that_goes_away_is_no_error(shared: Cli) -> None:
    endless = "with recursive n (i) as (select 1 union all select i + 1 from n limit 90000) select i from n"

    with shared.start("query", endless) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr is not None
        err = running.stderr.read()
        running.wait(LIMIT_S)

    assert (running.returncode, err) == (141, "")


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (("init", "mine"), ["mine/agentos.toml", "mine/agents/helper.yaml", "mine/tools/find_text", "mine/words.py"]),
        (("new", "tool", "shout", "shout"), ["shout"]),
    ],
)
def test_what_a_command_writes_is_whole_though_nobody_reads_what_it_prints(
    cli: Cli, words: tuple[str, ...], written: list[str]
) -> None:
    code = without_a_reader(cli, *words)

    assert code == 141
    assert [name for name in written if not (cli.folder / name).is_file()] == []
    scripts = [cli.folder / name for name in written if name.endswith(("find_text", "shout"))]
    assert [script for script in scripts if not os.access(script, os.X_OK)] == []


def test_an_import_of_many_files_goes_on_when_its_reader_goes_away(cli: Cli) -> None:
    files = [str(DATA / name) for name in WHOLE]

    code = without_a_reader(cli, "import", *files)

    assert code == 0
    assert len(cli.ids()) == len(files) > 2


def without_a_reader(cli: Cli, *words: str) -> int:
    """The exit code of a command whose output has no reader from the start on."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        command(words),
        stdout=writing,
        stderr=subprocess.DEVNULL,
        cwd=cli.folder,
        env=environment({"PYTHONUNBUFFERED": "1"}),
        check=False,
    )
    os.close(writing)
    return ended.returncode


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
