"""`agentos.toml`: found upward, read whole, refused with reasons."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentos.components import EffectClass, ToolboxSharing
from agentos.definitions import DEFAULT_STORE, load_project, make_toolbox, project_store
from agentos.definitions.toolbox_spec import PythonSpec, ScriptSpec
from agentos.errors import ConfigurationError
from agentos.settings import Settings

PROJECT = """
default_agent = "lead"

[agents]
files = ["lead.yaml"]
directories = ["agents"]

[toolboxes.files]
kind = "script"
path = "tools"
sharing = "pool(2)"
effects = {count = "pure"}
environment = ["NOTES_DIR"]

[toolboxes.notes]
kind = "python"
paths = ["notes.py"]
sharing = "exclusive"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with two agents, a script and a Python file."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "agentos.toml").write_text(PROJECT)
    (tmp_path / "lead.yaml").write_text("slug: lead\ntoolboxes: [files, notes]\nsubagents: [helper]")
    (tmp_path / "agents" / "helper.yaml").write_text("slug: helper")
    (tmp_path / "notes.py").write_text("from agentos import tool\n@tool\ndef keep(text: str): ...\n")
    script = tmp_path / "tools" / "count"
    script.write_text("""#!/bin/sh\necho '{"slug": "count", "description": "Counts.", "args": []}'\n""")
    script.chmod(0o755)
    return tmp_path


def test_a_project_is_found_from_any_folder_below(folder: Path) -> None:
    below = folder / "a" / "b"
    below.mkdir(parents=True)

    project = load_project(below)

    assert project is not None
    assert (project.root, project.default_agent) == (folder, "lead")
    assert list(project.agents()) == ["lead", "helper"]


def test_without_a_project_there_is_none(tmp_path: Path) -> None:
    assert load_project(tmp_path) is None
    assert project_store(tmp_path) == DEFAULT_STORE


def test_the_store_is_one_from_every_folder(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()

    assert project_store(below) == f"sqlite:///{folder}/.agentos/agentos.db"


@pytest.mark.parametrize("url", ["memory:", "sqlite:////var/agents.db", "postgresql://host/agents"])
def test_a_whole_url_stays_as_it_is(tmp_path: Path, url: str) -> None:
    (tmp_path / "agentos.toml").write_text(f'store = "{url}"')

    assert project_store(tmp_path) == url


def test_a_folder_with_odd_characters_is_quoted(tmp_path: Path) -> None:
    odd = tmp_path / "50% ü?"
    odd.mkdir()
    (odd / "agentos.toml").write_text('store = "sqlite:///a.db?durability=full"')

    assert project_store(odd) == f"sqlite:///{tmp_path}/50%25%20%C3%BC%3F/a.db?durability=full"


async def test_toolboxes_are_made_as_the_file_says(folder: Path) -> None:
    project = load_project(folder)
    assert project is not None

    files, notes = project.toolboxes()
    await files.open()
    await notes.open()

    assert (files.name, files.kind, files.sharing, files.size) == ("files", "script", ToolboxSharing.POOL, 2)
    assert (notes.name, notes.kind, notes.sharing) == ("notes", "python", ToolboxSharing.EXCLUSIVE)
    assert [(tool.name, tool.effect) for tool in files.tools()] == [("count", EffectClass.PURE)]
    assert [(tool.name, tool.toolbox) for tool in notes.tools()] == [("keep", "notes")]
    await files.close()
    await notes.close()


def test_sharing_is_that_of_the_kind_unless_given(folder: Path) -> None:
    script = make_toolbox("s", ScriptSpec(path="tools"), folder)
    python = make_toolbox("p", PythonSpec(path="notes.py"), folder)

    assert (script.sharing, script.size) == (ToolboxSharing.POOL, 4)
    assert python.sharing is ToolboxSharing.STATELESS


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [("pool(12)", (ToolboxSharing.POOL, 12)), ("per-agent", (ToolboxSharing.PER_AGENT, 0)), (None, None)],
)
def test_sharing_is_a_word_or_a_pool_with_its_size(sharing: str | None, expected: Any) -> None:
    assert ScriptSpec(path="x", sharing=sharing).shared == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[toolboxes.a]\nkind = 'script'\npat = 'x'", ":3:1: unknown key 'pat'; did you mean path"),
        ("[toolboxes.a]\npath = 'x'\nkind = 'scirpt'", ":3:1: toolboxes.a.kind: 'scirpt' is none of script, "),
        ("[toolboxes.a]\npath = 'x'", ":1:12: the key 'kind' is missing"),
        ("[toolboxes.a]\nkind = 'script'", "toolboxes.a: path or paths is needed"),
        ("[toolboxes.a]\nkind = 'python'\npath = 'x'\ncwd = 'y'", ":4:1: unknown key 'cwd'"),
        (
            "[toolboxes.a]\nkind = 'script'\npath = 'x'\nsharing = 'pool(0)'",
            r"'pool(0)' is none of pool(N) and exclusive",
        ),
        ("[toolbox.a]\nkind = 'script'", ":1:2: unknown key 'toolbox'; did you mean toolboxes"),
        ("[agents]\nfile = ['x']", "unknown key 'file'; did you mean files"),
        ("stor = 'x'", "unknown key 'stor'; did you mean store"),
        ("[aliases.a]\ntemplat = 'x'", ":2:1: unknown key 'templat'; did you mean template?"),
        ("[aliases.a]\ntemplate = 'x'\ninput = 'fil'", "aliases.a.input: Input should be 'stdin' or 'file'; did you"),
        ("[settings]\ndepth = 3", ":1:2: settings: no setting 'depth'; did you mean depth_max?"),
        ("[settings]\ndepth_max = 'x'", ":1:2: settings: depth_max: Expected `int`, got `str`"),
        ("[settings]\ndepth_max = 0", ":1:2: settings: depth_max: 0 is no bound; it has to be above 0"),
        ("store = ", ":1:9: Invalid value (at end of document)"),
        ("a = 1\nb = = 2", ":2:5: Invalid value"),
        ("a = 1\na = 2", ": Cannot overwrite a value (at end of document)"),
        ("a = " + "[" * 5_000, ":1:55: nested deeper than 50 levels (file_depth_max)"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "agentos.toml").write_text(text)

    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path)

    assert str(caught.value).startswith(f"{tmp_path / 'agentos.toml'}:")
    assert why in str(caught.value)


def test_a_project_says_keys_aliases_and_limits(tmp_path: Path) -> None:
    text = """
keys = ["secrets.json"]
[aliases.sum]
template = "Sum up: {{content}}"
input = "file"
[settings]
depth_max = 4
close_grace_s = 2.5
"""
    (tmp_path / "agentos.toml").write_text(text)

    project = load_project(tmp_path)

    assert project is not None
    assert project.key_files == (tmp_path / "secrets.json",)
    assert (project.file.aliases["sum"].template, project.file.aliases["sum"].input) == ("Sum up: {{content}}", "file")
    assert project.settings == Settings(depth_max=4, close_grace_s=2.5)


def test_every_value_knows_where_it_comes_from(folder: Path) -> None:
    web = "[toolboxes.web]\nkind = 'mcp'\nenv = {TOKEN = 'secret'}\n"
    (folder / "agentos.toml").write_text(PROJECT + "[settings]\ndepth_max = 4\n" + web)
    project = load_project(folder)
    assert project is not None

    origins = {key: (value, origin) for key, value, origin in project.origins()}

    file = folder / "agentos.toml"
    assert origins["default_agent"] == ("lead", f"{file}:2")
    assert origins["agents.files"] == (["lead.yaml"], f"{file}:5")
    assert origins["toolboxes.files.effects.count"] == ("pure", f"{file}:12")
    assert (origins["toolboxes.web.kind"][0], origins["toolboxes.web.env.TOKEN"][0]) == ("mcp", "(not shown)")
    assert origins["settings.depth_max"] == (4, f"{file}:20")
    assert origins["settings.inbox_max"] == (Settings().inbox_max, "default")
    assert origins["store"] == (DEFAULT_STORE, "default")
    assert origins["keys"] == ([], "default")


def test_the_file_of_agents_exe_is_a_project_where_ours_is_not(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents-exe.cfg.json").write_text('{"agentsDirectories": ["./agents/"],\n "sesions": {}}')
    below = tmp_path / "below"
    below.mkdir()

    project = load_project(below)

    assert project is not None
    assert (project.root, project.path.name) == (tmp_path, "agents-exe.cfg.json")
    assert project.file.agents.directories == ["agents"]
    assert [(problem.line, problem.severity) for problem in project.problems] == [(2, "warning")]
    assert project.store_url == project_store(below) == f"sqlite:///{tmp_path}/.agentos/agentos.db"
    (tmp_path / "agentos.toml").write_text("store = 'memory:'")
    ours = load_project(below)
    assert ours is not None
    assert ours.path.name == "agentos.toml"
    assert project_store(below) == "memory:"


def test_where_the_store_is_needs_no_good_file_but_a_good_store(tmp_path: Path) -> None:
    file = tmp_path / "agentos.toml"
    file.write_text("store = 'a.db'\nstor = 1")
    assert project_store(tmp_path) == "a.db"

    for text in ("store = 1", "store = ''", "store = ", "a." * 100_000 + "a = 1", "\ufeffstore = 5"):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=r"agentos\.toml:1:"):
            project_store(tmp_path)
    file.write_bytes(b"store = '\xfc'")
    with pytest.raises(ConfigurationError, match=r"agentos\.toml:1:10: byte 9 \(0xfc\) is not UTF-8"):
        project_store(tmp_path)


def test_finding_the_store_loads_no_library_that_checks(folder: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from agentos.definitions import project_store
print(project_store(Path({str(folder)!r})))
print(*[name for name in sys.modules if name.startswith(("pydantic", "yaml", "agentos.toolboxes"))])
"""

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.splitlines() == [f"sqlite:///{folder}/.agentos/agentos.db", ""]


def test_an_agent_that_a_project_names_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").write_text("[agents]\ndirectories = ['agents']")
    project = load_project(tmp_path)
    assert project is not None

    with pytest.raises(ConfigurationError, match="agents: no such directory of agents"):
        project.agents()
