"""`agentos.toml`: found upward, read whole, refused with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.components import EffectClass, ToolboxSharing
from agentos.definitions import DEFAULT_STORE, ToolboxSpec, load_project, make_toolbox, project_store
from agentos.errors import ConfigurationError

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
    script = make_toolbox("s", ToolboxSpec(kind="script", path="tools"), folder)
    python = make_toolbox("p", ToolboxSpec(kind="python", path="notes.py"), folder)

    assert (script.sharing, script.size) == (ToolboxSharing.POOL, 4)
    assert python.sharing is ToolboxSharing.STATELESS


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [("pool(12)", (ToolboxSharing.POOL, 12)), ("per-agent", (ToolboxSharing.PER_AGENT, 0)), (None, None)],
)
def test_sharing_is_a_word_or_a_pool_with_its_size(sharing: str | None, expected: Any) -> None:
    assert ToolboxSpec(kind="script", path="x", sharing=sharing).shared == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[toolboxes.a]\nkind = 'script'\npat = 'x'", ":3:1: unknown key 'pat'; did you mean path"),
        ("[toolboxes.a]\nkind = 'lua'\npath = 'x'", ":2:1: toolboxes.a.kind: Input should be 'script' or 'python'"),
        ("[toolboxes.a]\npath = 'x'", ":1:2: the key 'kind' is missing"),
        ("[toolboxes.a]\nkind = 'script'", "toolboxes.a: path or paths is needed"),
        ("[toolboxes.a]\nkind = 'python'\npath = 'x'\ncwd = 'y'", "environment, prefix and cwd are for scripts"),
        (
            "[toolboxes.a]\nkind = 'script'\npath = 'x'\nsharing = 'pool(0)'",
            r"'pool(0)' is none of pool(N) and exclusive",
        ),
        ("[toolbox.a]\nkind = 'script'", ":1:2: unknown key 'toolbox'; did you mean toolboxes"),
        ("[agents]\nfile = ['x']", "unknown key 'file'; did you mean files"),
        ("stor = 'x'", "unknown key 'stor'; did you mean store"),
        ("store = ", "Invalid value (at end of document)"),
        ("a = 1\nb = = 2", ":2:5: Invalid value"),
        ("a = 1\na = 2", ": Cannot overwrite a value (at end of document)"),
        ("a = " + "[" * 5_000, "nested too deeply"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "agentos.toml").write_text(text)

    with pytest.raises(ConfigurationError) as caught:
        load_project(tmp_path)

    assert str(caught.value).startswith(f"{tmp_path / 'agentos.toml'}:")
    assert why in str(caught.value)


def test_what_a_project_names_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"toolbox files: .*tools does not exist"):
        make_toolbox("files", ToolboxSpec(kind="script", path="tools"), tmp_path)
    (tmp_path / "agentos.toml").write_text("[agents]\ndirectories = ['agents']")
    project = load_project(tmp_path)
    assert project is not None
    with pytest.raises(ConfigurationError, match="agents: no such directory of agents"):
        project.agents()
