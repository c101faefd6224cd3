"""tool list, describe and check."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import Cli

OLD = """#!/bin/sh
[ "$1" = describe ] && cat <<'END'
loading
{"slug": "old", "description": "Turns.", "args": [
  {"name": "pdf", "description": "the file", "type": "string", "required": true}]}
END
"""
BROKEN = "#!/bin/sh\nexit 3\n"


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))

    return write


def test_list_shows_every_tool_of_the_project_with_its_toolbox(project: Cli) -> None:
    lines = project.read("tool", "list").out.splitlines()

    assert lines[0].split() == ["name", "toolbox", "effect", "access", "description"]
    assert [line.split()[:4] for line in lines[1:]] == [
        ["find_text", "files", "pure", "read"],
        ["count_words", "words", "pure", "read"],
        ["longest_words", "words", "pure", "read"],
    ]


def test_list_as_json_has_schemas_problems_and_notes(project: Cli) -> None:
    project.write("tools/broken", BROKEN, executable=True)
    project.write("tools/old", OLD, executable=True)

    told = project.read("tool", "list", "--json").data

    assert [tool["name"] for tool in told["tools"]] == ["find_text", "old", "count_words", "longest_words"]
    assert told["tools"][0]["schema"]["required"] == ["text"]
    assert [problem["reason"] for problem in told["problems"]] == ["describe ended with exit code 3"]
    assert told["problems"][0]["place"] == f"toolbox files: {project.folder}/tools/broken"
    assert "argument 'pdf': no mode; positional was assumed" in [note["reason"] for note in told["notes"]]


def test_list_tells_what_is_left_out_and_takes_no_other_with_it(project: Cli) -> None:
    project.write("tools/broken", BROKEN, executable=True)

    listed = project.read("tool", "list")

    assert "tools/broken is left out: describe ended with exit code 3" in listed.err
    assert "find_text" in listed.out


def test_list_tells_a_toolbox_that_cannot_be_used(project: Cli) -> None:
    project.write("words.py", "import no_such_module\n")

    listed = project.read("tool", "list")

    assert "toolbox words is left out: " in listed.err
    assert "No module named 'no_such_module'" in listed.err
    assert "find_text" in listed.out


def test_list_has_the_tools_that_belong_to_one_agent_alone(project: Cli) -> None:
    project.write("own/old", OLD, executable=True)
    file = project.write(
        "lone.yaml", "slug: lone\nmodel: direct\ntoolboxes:\n  - {name: mine, kind: script, path: own}\n"
    )

    listed = project.read("tool", "list", "--agent-file", str(file)).out

    assert ["old", "lone/mine"] in [line.split()[:2] for line in listed.splitlines()]


def test_list_without_a_project_says_what_to_do(cli: Cli) -> None:
    assert "'agentos init' makes a project" in cli.read("tool", "list", code=3).err


def test_describe_shows_the_tool_its_arguments_and_what_was_assumed(project: Cli) -> None:
    project.write("tools/old", OLD, executable=True)

    shown = project.read("tool", "describe", "tools/old").out

    assert shown.startswith("old  ")
    assert "  effect once, access write\n" in shown
    assert "  pdf       positional  string  single  the file\n" in shown
    assert "  note: describe: printed 8 characters before the object, which were left out\n" in shown


def test_describe_as_json_gives_the_description_in_its_whole_form(project: Cli) -> None:
    project.write("tools/old", OLD, executable=True)

    told = project.read("tool", "describe", "tools/old", "--json").data

    assert told["problem"] is None
    assert told["description"]["protocol"] == 1
    assert told["description"]["args"] == [
        {
            "name": "pdf",
            "description": "the file",
            "type": "string",
            "backing_type": "string",
            "arity": "single",
            "mode": "positional",
        }
    ]
    assert told["schema"]["required"] == ["pdf"]
    assert len(told["notes"]) == 4


@pytest.mark.parametrize("words", [("tool", "describe"), ("tool", "check")])
def test_a_script_that_is_no_tool_ends_with_3_and_its_reason(project: Cli, words: tuple[str, ...]) -> None:
    path = project.write("tools/broken", BROKEN, executable=True)

    told = project.read(*words, "tools/broken", code=3)

    assert f"{path}: describe ended with exit code 3" in told.err
    assert told.out == ""


def test_describe_of_a_directory_says_which_command_takes_one(project: Cli) -> None:
    assert "'agentos tool check tools'" in project.read("tool", "describe", "tools", code=2).err


def test_check_looks_at_every_script_of_a_directory_and_tells_each_problem(project: Cli) -> None:
    project.write("tools/broken", BROKEN, executable=True)
    project.write("tools/newer", '#!/bin/sh\necho \'{"slug": "n", "protocol": 2}\'\n', executable=True)
    project.write("tools/twin", (project.folder / "tools/find_text").read_text(), executable=True)

    told = project.read("tool", "check", "tools", code=3)

    assert told.out == f"{project.folder}/tools/find_text: tool find_text\n"
    assert "tools/broken: describe ended with exit code 3" in told.err
    assert "tools/newer: describe: the script speaks protocol 2, this program up to 1" in told.err
    assert f"tools/twin: slug 'find_text' is already that of {project.folder}/tools/find_text" in told.err


def test_check_tells_notes_of_a_tool_that_works(project: Cli) -> None:
    project.write("tools/old", OLD, executable=True)

    told = project.read("tool", "check", "tools/old")

    assert "tools/old: note: argument 'pdf': no arity; single was assumed" in told.err


def test_check_of_a_path_that_is_not_there_ends_with_3(cli: Cli) -> None:
    assert "gone: No such file or directory" in cli.read("tool", "check", "gone", code=3).err


def test_check_of_nothing_is_a_mistake_of_the_caller(cli: Cli) -> None:
    (cli.folder / "empty").mkdir()

    assert "nothing to check" in cli.read("tool", "check", code=2).err
    assert "nothing to check" in cli.read("tool", "check", "empty", code=2).err


def test_arguments_that_fit_are_fine(project: Cli, stdin: Callable[[str], None]) -> None:
    stdin('{"text": "tool"}')

    project.read("tool", "check", "tools/find_text", "--args", "-")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            '{"txt": 1, "folder": []}',
            [
                "1. arguments: Additional properties are not allowed ('txt' was unexpected)",
                "2. folder: [] is not of types",
                '3. arguments: "text" is a required property',
            ],
        ),
        ("{", ["1. arguments: not valid JSON; send one JSON object"]),
        ("[]", ["1. arguments: a list is not an object; send one JSON object"]),
        ("", ['1. arguments: "text" is a required property']),
    ],
)
def test_arguments_that_do_not_fit_end_with_1_and_a_numbered_list(
    project: Cli, arguments: str, told: list[str]
) -> None:
    file = project.write("arguments.json", arguments)

    err = project.read("tool", "check", "tools/find_text", "--args", str(file), code=1).err

    lines = err.splitlines()
    assert lines[0] == "error: the arguments do not fit:"
    assert len(lines) == 1 + len(told)
    assert all(any(line.startswith(one[3:]) or one[3:] in line for line in lines[1:]) for one in told)
    assert [line.partition(".")[0] for line in lines[1:]] == [str(n) for n in range(1, len(told) + 1)]


def test_arguments_as_json(project: Cli) -> None:
    file = project.write("arguments.json", "{}")

    told = project.read("tool", "check", "tools/find_text", "--args", str(file), "--json", code=1).data

    assert told["arguments"] == ['arguments: "text" is a required property']
    assert told["scripts"][0]["path"] == f"{project.folder}/tools/find_text"


def test_arguments_go_with_one_script(project: Cli, tmp_path: Path) -> None:
    file = project.write("arguments.json", "{}")
    project.write("tools/old", OLD, executable=True)

    told = project.read("tool", "check", "tools", "--args", str(file), code=2).err

    assert "--args goes with one script, and there are 2" in told
