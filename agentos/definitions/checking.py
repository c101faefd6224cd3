"""From what a file says to a checked model; every error names the place and, where one is near, the right word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ValidationError

from agentos.definitions.source import Keys, Source
from agentos.errors import ConfigurationError
from agentos.governance.policy import near_names

M = TypeVar("M", bound=BaseModel)


def checked(model: type[M], source: Source, parts: Mapping[str, type[BaseModel]]) -> M:
    """The model of a file. parts are the models within it, by the top key that they stand under.

    Errors: ConfigurationError with one line for each problem, each with file, line and column.
    """
    value = {} if source.value is None else source.value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = dict.fromkeys(_said(model, source, parts, problem) for problem in error.errors(include_url=False))
        raise ConfigurationError("\n".join(problems)) from error


def did_you_mean(name: str, known: list[str]) -> str:
    """Words for the end of an error, or nothing."""
    near = near_names(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _said(model: type[BaseModel], source: Source, parts: Mapping[str, type[BaseModel]], problem: Any) -> str:
    keys = _keys(source.value, problem["loc"])
    where = source.where(keys)
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        owner = model if len(keys) == 1 else parts.get(str(keys[0]), model)
        return f"{where}: unknown key {name!r}{did_you_mean(name, _names(owner))}"
    if problem["type"] == "missing":
        return f"{where}: the key {name!r} is missing"
    if problem["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return f"{where}: {_dotted(keys)}a mapping of keys is needed here"
    return f"{where}: {_dotted(keys)}{problem['msg'].removeprefix('Value error, ')}"


def _keys(value: Any, loc: tuple[str | int, ...]) -> Keys:
    """The way to the problem in the file; what pydantic adds of its own is no key there."""
    keys: list[str | int] = []
    for part in loc:
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int))
        if inside and part in (value if isinstance(value, dict) else range(len(value))):
            value = value[part]
            keys.append(part)
    return tuple(keys)


def _dotted(keys: Keys) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{text.removeprefix('.')}: " if text else ""


def _names(model: type[BaseModel]) -> list[str]:
    names: list[str] = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            names.extend(str(choice) for choice in alias.choices)
        else:
            names.append(alias if isinstance(alias, str) else name)
    return names
