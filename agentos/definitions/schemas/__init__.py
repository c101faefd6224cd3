"""JSON Schemas of agent files and of `agentos.toml`, for editors. They are made of the models that check the files.

`python -m agentos.definitions.schemas` writes the files that are shipped here; a test keeps them equal to the models. A
file names its schema with the key `$schema`, or for YAML in a comment that the editor reads.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from agentos.definitions.project_file import ProjectFile
from agentos.definitions.spec import STEP_LIMIT_WORDS, AgentSpec
from agentos.definitions.toolbox_spec import ToolboxSpec
from agentos.settings import Settings

FOLDER = Path(__file__).parent
AGENT_SCHEMA = "agent.schema.json"
PROJECT_SCHEMA = "project.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Plain(GenerateJsonSchema):
    """Without titles that only repeat the keys, and with one alternative for what looks the same."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        """Editors tell more of `anyOf`, and several tags may have one model."""
        found = super().tagged_union_schema(schema)
        alternatives = found.pop("oneOf", [])
        unique = {json.dumps(one, sort_keys=True): one for one in alternatives}
        return {**found, "anyOf": list(unique.values())}


def agent_schema() -> dict[str, Any]:
    """What an agent file may say, with the words of other systems as deprecated ones."""
    schema = _schema_of(AgentSpec, "An agent of agentos")
    limit = schema["properties"]["step_limit"]
    for word in STEP_LIMIT_WORDS:
        schema["properties"][word] = {**limit, "description": "Another word for step_limit.", "deprecated": True}
    return schema


def project_schema() -> dict[str, Any]:
    """What `agentos.toml` may say."""
    schema = _schema_of(ProjectFile, "A project of agentos")
    schema["properties"]["settings"] |= {"properties": _settings(), "additionalProperties": False}
    return schema


def schema_files() -> dict[str, str]:
    """The texts of the files, by name."""
    schemas = {AGENT_SCHEMA: agent_schema(), PROJECT_SCHEMA: project_schema()}
    return {name: json.dumps(schema, indent=2, sort_keys=True) + "\n" for name, schema in schemas.items()}


def _schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Plain)
    for definition in (schema, *schema["$defs"].values()):
        _complete(definition)
    for name, found in _models(model).items():
        _describe(schema if found is model else schema["$defs"].get(name, {}), found)
    return {"$schema": _DIALECT, **schema, "title": title}


def _complete(definition: dict[str, Any]) -> None:
    """The kind of a toolbox has to be said in a file, though a program may leave it out; and paths in one of two ways."""
    properties = definition.get("properties", {})
    for found in properties.values():
        if found.get("default", "") is None:
            del found["default"]
    kind = properties.get("kind", {})
    if "const" in kind or "enum" in kind:
        kind.pop("default", None)
        definition["required"] = sorted({"kind", *definition.get("required", ())})
    if {"path", "paths"} <= properties.keys():
        definition["anyOf"] = [{"required": ["path"]}, {"required": ["paths"]}]


def _describe(definition: dict[str, Any], model: type[BaseModel]) -> None:
    """The text below a class or a field is what an editor shows of it."""
    texts = [owner.__doc__ for owner in model.__mro__ if issubclass(owner, ToolboxSpec) and owner.__doc__]
    if texts and definition:
        definition["description"] = inspect.cleandoc(texts[0])
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            for field, text in _texts_below_fields(owner).items():
                name = "$schema" if field == "schema_url" else field
                if name in definition.get("properties", {}):
                    definition["properties"][name]["description"] = text


def _texts_below_fields(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef), "the source of a class is a class"
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[ast.unparse(field.target)] = inspect.cleandoc(str(below.value.value))
    return found


def _models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model itself and all that may stand within it, by name."""
    found = {model.__name__: model}
    rest: list[type[BaseModel]] = [BaseModel]
    while rest:
        for child in rest.pop().__subclasses__():
            if child.__module__.startswith("agentos.definitions."):
                found.setdefault(child.__name__, child)
                rest.append(child)
    return found


def _settings() -> dict[str, Any]:
    types: dict[Any, dict[str, Any]] = {
        bool: {"type": "boolean"},
        int: {"type": "integer", "exclusiveMinimum": 0},
        int | None: {"type": ["integer", "null"], "exclusiveMinimum": 0},
        float: {"type": "number", "exclusiveMinimum": 0},
        float | None: {"type": ["number", "null"], "exclusiveMinimum": 0},
    }
    return {field.name: {**types[field.type], "default": field.default} for field in msgspec.structs.fields(Settings)}
