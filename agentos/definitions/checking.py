"""From what a file says to a checked model; every problem has its place and, where one is near, the right word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ValidationError

from agentos.definitions.limits import LIMITS
from agentos.definitions.problem import Problem, and_more, raise_errors
from agentos.definitions.source import Keys, Source, cut, dotted
from agentos.governance.policy import near_names

M = TypeVar("M", bound=BaseModel)

Parts = Mapping[str, "type[BaseModel] | Callable[[Any], type[BaseModel]]"]
"""The models within a model, by the top key that they stand under; where there are several, what tells it by the value."""


def check(model: type[M], source: Source, parts: Parts) -> tuple[M | None, list[Problem]]:
    """The model of a file, None when it is not good, and the problems of its content: at most file_problems_max of them."""
    value = {} if source.value is None else source.value
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=True)
    problems = [_said(model, source, parts, problem) for problem in errors[: LIMITS.file_problems_max]]
    more = len(errors) - len(problems)
    if more:
        problems.append(and_more(problems[-1], more))
    return None, list(dict.fromkeys(problems))


def checked(model: type[M], source: Source, parts: Parts) -> M:
    """The model of a file. Errors: ConfigurationError with one line for each problem, each with file, line and column."""
    found, problems = check(model, source, parts)
    raise_errors((*source.problems, *problems))
    assert found is not None, "without an error there is a model"
    return found


def did_you_mean(name: str, known: list[str]) -> str:
    """Words for the end of an error, or nothing."""
    near = near_names(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _said(model: type[BaseModel], source: Source, parts: Parts, problem: Any) -> Problem:
    """One problem in our words."""
    keys, kind = _keys(source.value, problem["loc"]), problem["type"]
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    if kind == "extra_forbidden":
        return source.problem(keys, _unknown_key(name, keys, source.value, model, parts))
    if kind == "missing":
        return source.problem(keys, f"the key {name!r} is missing")
    if kind == "union_tag_not_found":
        return source.problem(keys, "the key 'kind' is missing")
    if kind == "union_tag_invalid":
        return source.problem((*keys, "kind"), dotted((*keys, "kind")) + _no_tag(problem["ctx"]))
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return source.problem(keys, f"{dotted(keys)}a mapping of keys is needed here")
    near = _near_word(problem) if kind in ("enum", "literal_error") else ""
    return source.problem(keys, f"{dotted(keys)}{problem['msg'].removeprefix('Value error, ')}{near}")


def _unknown_key(name: str, keys: Keys, value: Any, model: type[BaseModel], parts: Parts) -> str:
    owner: Any = model if len(keys) == 1 else parts.get(str(keys[0]), model)
    if not isinstance(owner, type):
        for key in keys[:-1]:
            value = value[key]
        owner = owner(value)
    words = _words(owner)
    near = " or ".join(dict.fromkeys(words[word] for word in near_names(name, list(words))))
    return f"unknown key {cut(name)!r}" + (f"; did you mean {near}?" if near else "")


def _no_tag(context: Mapping[str, str]) -> str:
    """The tags that are words of the file have no blank in them; the others tell forms."""
    known = [tag for tag in re.findall(r"'([^']*)'", context["expected_tags"]) if " " not in tag]
    tag = cut(context["tag"])
    return f"{tag!r} is none of {', '.join(known)}{did_you_mean(tag, known)}"


def _near_word(problem: Any) -> str:
    known = re.findall(r"'([^']*)'", problem["ctx"]["expected"])
    return did_you_mean(problem["input"], known) if isinstance(problem["input"], str) else ""


def _keys(value: Any, loc: tuple[str | int, ...]) -> Keys:
    """The way to the problem in the file; what pydantic adds of its own is no key there."""
    keys: list[str | int] = []
    for part in loc:
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int))
        if inside and part in (value if isinstance(value, dict) else range(len(value))):
            value = value[part]
            keys.append(part)
    return tuple(keys)


def _words(model: type[BaseModel]) -> dict[str, str]:
    """The keys that a mapping may have; to words of other systems belongs ours."""
    words: dict[str, str] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        spelled = alias.choices if isinstance(alias, AliasChoices) else [alias if isinstance(alias, str) else name]
        words |= dict.fromkeys(map(str, spelled), str(spelled[0]))
    return words
