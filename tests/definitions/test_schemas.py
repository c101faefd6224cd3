"""The schemas that editors use say what the models check."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from agentos.definitions import load_project
from agentos.definitions.files import read_agent
from agentos.definitions.schemas import AGENT_SCHEMA, PROJECT_SCHEMA, schema_files
from agentos.errors import ConfigurationError

SHIPPED = resources.files("agentos.definitions.schemas")
TEMPLATES = resources.files("agentos.interfaces.cli") / "templates"


def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(SHIPPED.joinpath(name).read_text("utf-8")))


@pytest.mark.parametrize("name", [AGENT_SCHEMA, PROJECT_SCHEMA])
def test_the_shipped_schemas_are_those_of_the_models(name: str) -> None:
    shipped = SHIPPED.joinpath(name).read_text("utf-8")

    assert shipped == schema_files()[name], "run: python -m agentos.definitions.schemas"
    jsonschema_rs.meta.validate(json.loads(shipped))


def test_the_templates_fit_them() -> None:
    project = tomllib.loads(TEMPLATES.joinpath("agentos.toml").read_text("utf-8"))
    agent = yaml.safe_load(TEMPLATES.joinpath("agents/helper.yaml").read_text("utf-8"))

    assert [str(error) for error in validator(PROJECT_SCHEMA).iter_errors(project)] == []
    assert [str(error) for error in validator(AGENT_SCHEMA).iter_errors(agent)] == []


AGENTS: list[tuple[str, bool]] = [
    ('{"slug": "a"}', True),
    ('{"$schema": "agent.schema.json", "slug": "a", "model": "openai:x"}', True),
    ('{"slug": "a", "model": {"kind": "scripted", "options": {"steps": []}}}', True),
    ('{"slug": "a", "toolboxes": ["notes", {"name": "files", "expose": ["read_*"], "grant": []}]}', True),
    ('{"slug": "a", "toolboxes": [{"kind": "script", "name": "own", "path": "x", "effects": {"t": "pure"}}]}', True),
    ('{"slug": "a", "toolboxes": [{"kind": "mcp", "name": "own", "command": ["x"]}]}', True),
    ('{"slug": "a", "subagents": ["b", {"slug": "c", "path": "c.md", "session": "reuse", "input": "history"}]}', True),
    ('{"slug": "a", "maxSteps": 3}', True),
    ('{"slug": "a", "policy": [{"tool": "*", "verdict": "ask"}], "approval": "park"}', True),
    ('{"slug": "a", "system_prompt": ["x", "y"], "step_limit": 0}', True),
    ("{}", False),
    ('{"slug": "two words"}', False),
    ('{"slug": "a", "anounce": "x"}', False),
    ('{"slug": "a", "step_limit": -1}', False),
    ('{"slug": "a", "toolboxes": [{"kind": "script", "name": "own"}]}', False),
    ('{"slug": "a", "toolboxes": [{"kind": "script", "path": "x"}]}', False),
    ('{"slug": "a", "toolboxes": [{"kind": "scrpt", "name": "own", "path": "x"}]}', False),
    ('{"slug": "a", "toolboxes": [{"kind": "sqlite", "name": "own", "path": "x", "acces": "y"}]}', False),
    ('{"slug": "a", "subagents": [{"path": "c.md"}]}', False),
    ('{"slug": "a", "subagents": [{"slug": "c", "history_messages": 0}]}', False),
    ('{"slug": "a", "approval": "perhaps"}', False),
]


@pytest.mark.parametrize(("text", "good"), AGENTS)
def test_an_agent_is_good_for_both_or_for_neither(tmp_path: Path, text: str, good: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)

    assert validator(AGENT_SCHEMA).is_valid(json.loads(text)) is good
    assert (read_agent(path).spec is not None) is good


PROJECTS: list[tuple[str, bool]] = [
    ("", True),
    ("store = 'memory:'\nkeys = ['k.json']\ndefault_agent = 'a'", True),
    ("[agents]\nfiles = ['a.yaml']\ndirectories = []", True),
    ("[toolboxes.a]\nkind = 'script'\npaths = ['x']\nsharing = 'pool(2)'", True),
    ("[toolboxes.a]\nkind = 'system'\ncapabilities = ['date']", True),
    ("[aliases.sum]\ntemplate = 'x'\ninput = 'file'", True),
    ("[settings]\ndepth_max = 3", True),
    ("stor = 'x'", False),
    ("[toolboxes.a]\npath = 'x'", False),
    ("[toolboxes.a]\nkind = 'script'", False),
    ("[aliases.sum]\ninput = 'file'", False),
    ("[settings]\ndepth = 3", False),
    ("[settings]\ndepth_max = 0", False),
]


@pytest.mark.parametrize(("text", "good"), PROJECTS)
def test_a_project_is_good_for_both_or_for_neither(tmp_path: Path, text: str, good: bool) -> None:
    (tmp_path / "agentos.toml").write_text(text)

    def loads() -> bool:
        try:
            return load_project(tmp_path) is not None
        except ConfigurationError:
            return False

    assert validator(PROJECT_SCHEMA).is_valid(tomllib.loads(text)) is good
    assert loads() is good


def test_an_editor_is_told_what_each_key_means() -> None:
    schema = json.loads(SHIPPED.joinpath(AGENT_SCHEMA).read_text("utf-8"))

    silent = [name for name, found in schema["properties"].items() if "description" not in found]

    assert silent == []
    assert schema["properties"]["max_turns"]["deprecated"] is True
    assert schema["$defs"]["PrivateScript"]["description"].startswith("Executables that describe themselves")
