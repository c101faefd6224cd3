"""tool call: one tool by hand, and inside a script by way of its portal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import ROOT, Cli, command, environment

TOOLS = '''
import sys
from agentos import tool
from agentos.errors import ToolError
from agentos.toolboxes import Finish

@tool
def odd(how: str = "") -> object:
    """Ends in its own way."""
    if how == "tool error":
        raise ToolError("not today")
    if how == "exit":
        sys.exit(7)
    if how == "finish":
        return Finish({"a": 1})
    raise LookupError("lost")

@tool(timeout_s=0.05)
async def slow() -> str:
    """Takes its time."""
    import asyncio
    await asyncio.sleep(60)
    return "late"
'''

PICTURE = """#!/bin/sh
case "$1" in
    describe) echo '{"slug": "picture", "description": "", "args": [], "output-media-type": "image/png"}' ;;
    run) printf '\\211PNG' ;;
esac
"""

ASKING = """#!/bin/sh
case "$1" in
    describe) cat <<'END'
{"slug": "asking", "description": "Asks another tool.", "portal": true, "args": [
  {"name": "tool", "description": "which", "type": "string", "backing_type": "string", "arity": "single",
   "mode": "positional"}]}
END
    ;;
    run) echo '{"text": "a b c"}' | PYTHON -m agentos tool call "$2"; echo "code $?" ;;
esac
"""


def asking(project: Cli) -> Path:
    return project.write(
        "tools/asking", ASKING.replace("PYTHON", f"PYTHONPATH='{ROOT}' '{sys.executable}'"), executable=True
    )


@pytest.fixture
def odd(project: Cli) -> Cli:
    """The project, with tools that end in odd ways."""
    project.write("odd.py", TOOLS)
    with (project.folder / "agentos.toml").open("a") as file:
        file.write('[toolboxes.odd]\nkind = "python"\npath = "odd.py"\n')
    return project


def test_the_result_is_all_that_stands_on_stdout_and_nothing_is_recorded(project: Cli) -> None:
    called = project("tool", "call", "count_words", stdin='{"text": "to be or not"}')

    assert (called.out, called.err) == ("4\n", "")
    assert not (project.folder / ".agentos").exists()


def test_a_tool_without_arguments_needs_no_stdin(project: Cli) -> None:
    project.write("tools/picture", PICTURE, executable=True)

    called = subprocess.run(
        command(["tool", "call", "picture"]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=project.folder,
        env=environment(None),
        check=True,
    )

    assert called.stdout == b"\x89PNG"


def test_a_script_is_called_by_its_path_without_a_project(cli: Cli) -> None:
    cli.write("tools/picture", PICTURE, executable=True)

    called = cli("tool", "call", "./tools/picture", "--json", stdin="{}").data

    assert called.pop("call").startswith("call_")
    assert called == {"status": "done", "kind": None, "text": "image/png (4 bytes, base64) iVBORw=="}


def test_arguments_that_do_not_fit_are_a_failure_with_every_problem(project: Cli) -> None:
    failed = project("tool", "call", "count_words", stdin='{"txt": 1}', code=5)

    assert failed.out == ""
    assert "failed (invalid): " in failed.err
    assert "'txt' was unexpected" in failed.err
    assert '"text" is a required property' in failed.err


def test_a_script_that_fails_ends_with_5_and_what_it_wrote(project: Cli) -> None:
    project.write(
        "tools/fail",
        '#!/bin/sh\n[ "$1" = run ] || { echo \'{"slug": "fail"}\'; exit; }\necho broken >&2; exit 9\n',
        executable=True,
    )

    failed = project("tool", "call", "fail", code=5)

    assert "error: failed (exit): " in failed.err
    assert "ended with exit code 9\nstderr:\nbroken" in failed.err


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("odd", '{"how": "tool error"}', "failed (tool): not today"),
        ("odd", '{"how": "exit"}', "failed (raised): SystemExit: 7"),
        ("odd", "{}", "failed (raised): LookupError: lost"),
        ("slow", "{}", "timed_out (timeout): no result within 0.05 s"),
    ],
)
def test_whatever_a_tool_does_is_its_own_failure(odd: Cli, tool: str, arguments: str, told: str) -> None:
    failed = odd("tool", "call", tool, stdin=arguments, code=5)

    assert failed.err == f"error: {told}\n"


def test_a_value_that_would_end_a_turn_is_shown_as_its_text(odd: Cli) -> None:
    assert odd("tool", "call", "odd", stdin='{"how": "finish"}').out == '{"a": 1}\n'


def test_an_unknown_tool_is_told_with_the_nearest_one(project: Cli) -> None:
    told = project("tool", "call", "count_word", code=3).err

    assert "there is no tool 'count_word'. Did you mean count_words" in told


def test_a_name_in_two_toolboxes_has_to_be_chosen(odd: Cli) -> None:
    with (odd.folder / "agentos.toml").open("a") as file:
        file.write('[toolboxes.more]\nkind = "python"\npath = "words.py"\n')

    assert "name one with --toolbox: words, more" in odd("tool", "call", "count_words", code=3).err
    assert odd("tool", "call", "count_words", "--toolbox", "more", stdin='{"text": "a"}').out == "1\n"


def test_a_script_with_a_portal_calls_other_tools_also_by_hand(project: Cli) -> None:
    asking(project)

    called = project("tool", "call", "asking", stdin='{"tool": "count_words"}').out
    failed = project("tool", "call", "asking", stdin='{"tool": "gone"}').out

    assert called == "3\ncode 0\n"
    assert failed == "code 5\n"


def test_a_script_of_an_agent_calls_other_tools_of_it_below_its_own_call(project: Cli) -> None:
    asking(project)

    answered = project("run", "-p", "asking tool=count_words").out

    assert [line.strip() for line in answered.splitlines()[1:]] == ["3", "code 0"]
    sql = "select tool, status, parent_call from tool_calls order by parent_call is not null"
    (outer, status, parent), (inner, inner_status, inner_parent) = project.rows(sql)
    assert (outer, status, parent) == ("asking", "done", None)
    assert (inner, inner_status) == ("count_words", "done")
    assert inner_parent is not None


def test_a_portal_that_is_gone_is_told(project: Cli, tmp_path: Path) -> None:
    told = project("tool", "call", "count_words", env={"AGENTOS_PORTAL": str(tmp_path / "gone")}, code=3).err

    assert "the portal in AGENTOS_PORTAL does not answer: No such file or directory" in told


def test_a_call_by_way_of_a_portal_loads_nothing_that_it_does_not_need(cli: Cli) -> None:
    program = (
        "import sys; from agentos.interfaces.cli import main; code = main(['tool', 'call', 'x']);"
        "print([name for name in ('sqlalchemy', 'pydantic', 'agentos.kernel') if name in sys.modules]); sys.exit(code)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=b"{}",
        capture_output=True,
        env=environment({"AGENTOS_PORTAL": str(cli.folder / "gone")}),
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (3, b"[]\n")
