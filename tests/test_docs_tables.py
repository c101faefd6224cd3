"""The tables of the pages have every key that the code has, with its default, and no other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from agentos.components import TurnLimits
from agentos.definitions.files import load_agent
from agentos.definitions.private_toolbox import Private
from agentos.definitions.project_file import AgentsSection, ProjectFile, PromptAlias
from agentos.definitions.spec import STEP_LIMIT_WORDS, AgentSpec, ModelUse, PolicyRule, SubagentUse, ToolboxUse
from agentos.definitions.toolbox_spec import (
    LACKING_KINDS,
    SHARED_MODELS,
    JsonRpcSpec,
    LuaSpec,
    PythonSpec,
    ScriptSpec,
    SqliteSpec,
    SystemSpec,
    ToolboxSpec,
)
from agentos.errors import ModelError
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.listing import COMMANDS, GROUPS
from agentos.models import model_kinds
from agentos.models.openai_chat.flavors import FLAVORS
from agentos.models.options import GenerationOptions
from agentos.models.script import Step
from agentos.resources.kinds.http_pool import HttpLimits
from agentos.resources.kinds.lua import LuaLimits
from agentos.resources.kinds.sandbox import SandboxLimits
from agentos.resources.kinds.sqlite_connection.link import SqliteLimits
from agentos.settings import Settings
from agentos.testing.chat_server.reply import FAULT_KINDS
from agentos.toolboxes.script.form import Argument, Mode, ScriptForm
from agentos.toolboxes.system import CAPABILITIES
from tests.transcript import ROOT, steps_of

DOCS = ROOT / "docs"
FORMATS = ("reviewer.yaml", "reviewer.toml", "reviewer.json", "reviewer.md")

AGENT_FILE_TABLES: dict[str, type[BaseModel] | type[msgspec.Struct]] = {
    "agent": AgentSpec,
    "use": ToolboxUse,
    "toolbox": ToolboxSpec,
    "script": ScriptSpec,
    "python": PythonSpec,
    "sqlite": SqliteSpec,
    "jsonrpc": JsonRpcSpec,
    "lua": LuaSpec,
    "system": SystemSpec,
    "subagent": SubagentUse,
    "model": ModelUse,
    "rule": PolicyRule,
    "project": ProjectFile,
    "agents": AgentsSection,
    "alias": PromptAlias,
    "settings": Settings,
}
OTHER_TABLES: dict[tuple[str, str], Collection[str] | type[msgspec.Struct]] = {
    ("tools.md", "describe"): [
        field.encode_name for field in msgspec.structs.fields(ScriptForm) if field.name != "media_type"
    ]
    + ["output-media-type"],
    ("tools.md", "argument"): Argument.__struct_fields__,
    ("tools.md", "sqlite limits"): SqliteLimits,
    ("lua.md", "lua limits"): LuaLimits,
    ("resources.md", "sandbox limits"): SandboxLimits,
    ("limits.md", "turn limits"): TurnLimits,
    ("tools.md", "capabilities"): CAPABILITIES,
    ("models.md", "step"): Step.__struct_fields__,
    ("models.md", "options"): GenerationOptions,
    ("models.md", "timeouts"): HttpLimits,
    ("models.md", "flavors"): [flavor.name for flavor in FLAVORS],
    ("models.md", "errors"): FAULT_KINDS,
}


@pytest.mark.parametrize("name", AGENT_FILE_TABLES)
def test_the_keys_of_agent_files_and_projects_are_those_of_their_models(name: str) -> None:
    rows = table("agent-files.md", name)

    assert {row["key"]: row["default"] for row in rows} == defaults(AGENT_FILE_TABLES[name])


@pytest.mark.parametrize(("page", "name"), OTHER_TABLES)
def test_other_tables_have_what_the_code_has(page: str, name: str) -> None:
    rows, said = table(page, name), OTHER_TABLES[page, name]

    found = {next(iter(row.values())): row.get("default") for row in rows}
    if isinstance(said, type):
        assert found == defaults(said)
    else:
        assert sorted(found) == sorted(said)


def test_every_marked_table_is_compared() -> None:
    marked = {
        (page.name, name)
        for page in DOCS.glob("*.md")
        for name in re.findall(r"<!-- keys: (.*?) -->", page.read_text())
    }

    assert marked == {("agent-files.md", name) for name in AGENT_FILE_TABLES} | set(OTHER_TABLES)


def test_the_four_formats_say_the_same_agent(tmp_path: Path) -> None:
    shown = {step.text: step.shown for step in steps_of((DOCS / "agent-files.md").read_text()) if step.is_file}
    for name in FORMATS:
        (tmp_path / name).write_text(shown[name])

    agents = [load_agent(tmp_path / name).model_dump() for name in FORMATS]

    normal = [{**agent, "system_prompt": agent["system_prompt"].strip()} for agent in agents]
    assert normal == [normal[0]] * len(FORMATS)


def test_a_private_toolbox_has_the_keys_of_a_use_and_of_its_kind() -> None:
    assert set(Private.model_fields) == set(ToolboxUse.model_fields)


def test_the_page_of_agent_files_names_all_kinds_and_all_words_for_the_step_limit() -> None:
    page = (DOCS / "agent-files.md").read_text()
    kinds = {*LACKING_KINDS, *SHARED_MODELS, *model_kinds()}

    assert {word for word in (*STEP_LIMIT_WORDS, *kinds) if f"`{word}`" not in page} == set()


def test_the_page_of_tools_names_every_mode() -> None:
    page = (DOCS / "tools.md").read_text()

    assert {mode.value for mode in Mode if f"| `{mode.value}` |" not in page} == set()


def test_the_page_of_models_tells_which_errors_are_tried_again() -> None:
    retried = {row["kind"] for row in table("models.md", "errors") if row["tried again"] == "yes"}

    assert retried == ModelError.RETRYABLE


def test_the_page_of_models_has_every_other_name_of_a_flavor() -> None:
    rows = table("models.md", "flavors")

    assert {row["flavor"]: set(code(row["also"])) for row in rows} == {one.name: set(one.aliases) for one in FLAVORS}


def test_the_page_of_commands_has_every_command_with_its_words() -> None:
    rows = list(rows_after((DOCS / "commands.md").read_text(), "| command |"))
    groups = [(f"{group.name} {command.name}", command.help) for group in GROUPS for command in group.commands]

    assert [(plain(row["command"]), row["what it does"]) for row in rows] == [
        *((command.name, command.help) for command in COMMANDS),
        *groups,
    ]


def test_the_page_of_commands_has_every_exit_code() -> None:
    rows = list(rows_after((DOCS / "commands.md").read_text(), "| exit code |"))

    assert {int(row["exit code"]): row["name"].upper().replace(" ", "_") for row in rows} == {
        code_.value: code_.name for code_ in Exit
    }


def table(page: str, name: str) -> list[dict[str, str]]:
    """The rows of a marked table by column, the first one without its backticks."""
    rows = list(rows_after((DOCS / page).read_text(), f"<!-- keys: {name} -->"))
    assert rows, f"{page} has no table {name}"
    first = next(iter(rows[0]))
    return [{**row, first: plain(row[first])} for row in rows]


def rows_after(page: str, mark: str) -> Iterable[dict[str, str]]:
    """The rows of the table that a line with this mark begins, or stands before."""
    lines = page.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(mark)), len(lines))
    block = []
    for line in lines[start + (not mark.startswith("|")) :]:
        if not line.startswith("|"):
            break
        block.append([cell.strip() for cell in line.strip("|").split(" | ")])
    head, _, *rows = block or [[], []]
    for row in rows:
        assert len(row) == len(head), row
        yield dict(zip(head, row, strict=True))


def defaults(model: type[Any]) -> dict[str, str]:
    """The keys that a table has to have, each with how it writes the default."""
    if issubclass(model, BaseModel):
        shared = set(ToolboxSpec.model_fields) if model is not ToolboxSpec and issubclass(model, ToolboxSpec) else set()
        fields = {name: field for name, field in model.model_fields.items() if name not in shared}
        return {
            str(field.validation_alias) if name == "schema_url" else name: _limit(
                model, name, field.get_default(call_default_factory=True, validated_data={})
            )
            for name, field in fields.items()
        }
    return {field.name: written(_struct_default(field)) for field in msgspec.structs.fields(model)}


def _limit(model: type[BaseModel], name: str, default: object) -> str:
    """A limit of an agent that is not given is that of the turn."""
    limits = AgentSpec(slug="any").limits
    names = [one for one in (name, f"{name}_max") if one in type(limits).__struct_fields__]
    if model is AgentSpec and names:
        bound = getattr(limits, names[0])
        return "no bound" if bound is None else written(bound)
    return written(default)


def _struct_default(field: Any) -> object:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def written(default: object) -> str:
    match default:
        case _ if default is PydanticUndefined:
            return "needed"
        case bool():
            return str(default).lower()
        case Enum():
            return f"`{default.value}`"
        case int() | float():
            return f"{default:g}" if isinstance(default, float) else str(default)
        case str() if default:
            return f"`{default}`"
        case None | str() | Collection() | Mapping() | BaseModel() | msgspec.Struct():
            return "-"
    raise AssertionError(f"no way to write {default!r}")


def plain(cell: str) -> str:
    (one,) = code(cell)
    return one


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
