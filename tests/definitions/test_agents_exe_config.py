"""`agents-exe.cfg.json` as the file of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.definitions import load_all, load_project
from agentos.definitions.agents_exe.config import cfg_source
from agentos.definitions.checking import check
from agentos.definitions.project_file import ProjectFile
from agentos.errors import ConfigurationError
from tests.definitions.agents_exe_support import AGENTS, CONFIG, whole, written


def config(folder: Path, value: Any) -> Path:
    return written(folder, value, "agents-exe.cfg.json")


def told(path: Path) -> list[str]:
    return [f"{problem.severity}: {problem.text}" for problem in cfg_source(path).problems]


def test_the_real_one_is_explained_line_by_line_and_its_misspelt_key_has_the_right_word() -> None:
    source = cfg_source(CONFIG)

    assert source.value == {}
    assert [f"{p.severity} {p.line}:{p.column} {p.text.replace(f'{AGENTS}/', '')}" for p in source.problems] == [
        "warning 1:24 agentsDirectories: no directory agents; left out",
        "warning 1:37 agentsDirectories: no directory localdev-agents; left out",
        "warning 14:3 selfDescribeSlug: agentos describe has --slug for it; read past",
        "warning 15:3 selfDescribeDescription: agentos describe has --description for it; read past",
        "warning 4:5 logJsonPath: --log-file says where a log goes; read past",
        "warning 8:5 the key 'readLocation' is unknown and read past; did you mean readLocations or writeLocation?",
        (
            "warning 7:5 writeLocation: conversations are kept in the store, and session files are not looked for; "
            "read past"
        ),
    ]


def test_a_project_has_the_agents_keys_and_aliases_of_the_file(tmp_path: Path) -> None:
    written(tmp_path, whole(slug="first"), "first.json")
    written(tmp_path, whole(slug="second"), "agents/second.json")
    config(
        tmp_path,
        {
            "agentsConfigDir": "conf",
            "agentsDirectories": ["./agents/"],
            "agentsFiles": ["./first.json"],
            "promptAliases": {
                "sum": {"description": "Sums up.", "template": "Sum up {{content}}", "inputMode": "file"}
            },
        },
    )

    project = load_project(tmp_path / "agents")

    assert project is not None
    assert project.root == tmp_path
    assert project.key_files == (tmp_path / "conf" / "secret-keys",)
    assert project.default_agent == "first"
    assert project.file.aliases["sum"].model_dump() == {
        "description": "Sums up.",
        "template": "Sum up {{content}}",
        "input": "file",
    }
    loaded = load_all(project, ())
    loaded.check()
    assert sorted(loaded.agents) == ["first", "second"]


def test_a_named_agent_file_that_is_not_there_is_an_error_in_the_line_that_names_it(tmp_path: Path) -> None:
    path = config(tmp_path, {"agentsFiles": ["none.json"]})
    project = load_project(tmp_path)

    assert [str(problem) for problem in load_all(project, ()).errors] == [
        f"{path}:3:5: agents.files[0]: {tmp_path / 'none.json'}: no such file"
    ]


def test_a_tilde_is_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    values = cfg_source(config(tmp_path, {"agentsConfigDir": "~/conf"})).value

    assert values == {"keys": [f"{tmp_path}/conf/secret-keys"]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "error: a mapping of keys is needed here, not a list"),
        ({"agentsFiles": "a.json"}, "error: agentsFiles: a list is needed here, not a text"),
        ({"agentsFiles": [1]}, "error: agentsFiles: a text is needed here, not a number"),
        ({"agentsDirectory": []}, "warning: the key 'agentsDirectory' is unknown and read past; did you mean "),
        ({"promptAliases": {"a b": {}}}, "error: 'a b' cannot be an alias: it has 1 to 64 letters, digits, and _ . -"),
        ({"promptAliases": {"a": "x"}}, "error: a mapping of keys is needed here, not a text"),
        ({"promptAliases": {"a": {}}}, "error: the key 'template' is missing"),
        ({"promptAliases": {"a": {"template": ""}}}, "error: template: it is empty"),
        (
            {"promptAliases": {"a": {"template": "x", "inputMode": "fil"}}},
            "error: inputMode: 'fil' is none of stdin, file; did you mean file?",
        ),
        ({"keymap": "keys.json"}, "warning: keymap: there are no keys to map in this version; read past"),
        ({"sessions": []}, "error: sessions: a mapping of keys is needed here, not a list"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, value: Any, problem: str) -> None:
    [said] = told(config(tmp_path, value))

    assert said.startswith(problem)


def test_a_file_that_is_no_json_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "agents-exe.cfg.json"
    path.write_text('{"agentsFiles": [}')

    with pytest.raises(ConfigurationError, match=r"agents-exe\.cfg\.json:1:18: "):
        load_project(tmp_path)
    assert cfg_source(path).value is None


@pytest.mark.parametrize("value", [None, 0, "", [], {}, [[]], {"": ""}, [None], True])
@pytest.mark.parametrize("key", ["agentsConfigDir", "agentsDirectories", "agentsFiles", "promptAliases", "agentsLogs"])
def test_any_value_of_a_key_is_taken_or_explained(tmp_path: Path, key: str, value: Any) -> None:
    source = cfg_source(config(tmp_path, {key: value}))

    found, problems = check(ProjectFile, source, {})

    assert any(problem.is_error for problem in source.problems) or found is not None, problems
