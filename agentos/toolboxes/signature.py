"""From a Python function to the tool that a model sees: schema from the signature, words from the docstring.

Type hints become a JSON Schema through pydantic: an object with `properties`, `additionalProperties: false`, no titles,
and references only where a type contains itself. A parameter annotated `CallContext` is filled in by the toolbox and
stands in no schema. When every parameter is plain JSON, arguments pass as they are; else pydantic makes them first.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union

import docstring_parser
import msgspec
from pydantic import ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from agentos.errors import ConfigurationError
from agentos.ports import CallContext

Convert = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From JSON arguments to the values that the function takes. Raises ArgumentsRefused."""

_PLAIN = (str, int, float, bool, list, dict, None, type(None), Any, object)
_NAMES_INSIDE = ("properties", "$defs", "patternProperties")
_VALUES_INSIDE = ("default", "const", "enum", "examples")


class ArgumentsRefused(ValueError):
    """Arguments fit the schema, but not the types of the function; says each problem."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class Signature(msgspec.Struct, frozen=True):
    """What a function says of itself.

    context names the parameter that takes the CallContext. convert is None when arguments pass as they are; but a whole
    float for one of the integers (1.0 is an integer to JSON Schema) goes through exact first.
    """

    description: str
    schema: dict[str, Any]
    context: str | None
    convert: Convert | None
    exact: Convert
    integers: tuple[str, ...]


def signature_of(function: Callable[..., Any]) -> Signature:
    """Reads a function. Raises ConfigurationError naming its file and line."""
    hints = _hints(function)
    parameters = list(inspect.signature(function).parameters.values())
    context = next((p.name for p in parameters if _is_context(hints.get(p.name))), None)
    fields = [(p, hints.get(p.name, Any)) for p in parameters if p.name != context]
    for parameter, _ in fields:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _wrong(function, f"parameter {parameter} cannot be given by name")
    doc = docstring_parser.parse(inspect.getdoc(function) or "")
    schema, exact = _schema_and_convert(function, fields)
    for param in doc.params:
        if param.description and param.arg_name in schema["properties"]:
            schema["properties"][param.arg_name].setdefault("description", " ".join(param.description.split()))
    plain = all(_is_plain(hint) and not isinstance(p.default, FieldInfo) for p, hint in fields)
    integers = tuple(p.name for p, hint in fields if hint is int)
    words = "\n\n".join(part for part in (doc.short_description, doc.long_description) if part)
    return Signature(words, cleaned(schema), context, None if plain else exact, exact, integers)


def place_of(function: Callable[..., Any]) -> str:
    """file:line of a function, for errors."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles, and with every definition that does not contain itself put where it is used."""
    definitions = schema.get("$defs", {})
    loops = {name for name in definitions if name in _reachable(name, definitions)}
    clean: dict[str, Any] = _cleaned(schema, definitions, loops)
    clean.pop("$defs", None)
    if kept := loops & _referred(clean, definitions):
        clean["$defs"] = {name: _cleaned(definitions[name], definitions, loops) for name in sorted(kept)}
    return clean


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise _wrong(function, f"its type hints cannot be read here: {error}") from error


def _wrong(function: Callable[..., Any], why: str) -> ConfigurationError:
    name = getattr(function, "__name__", type(function).__name__)
    return ConfigurationError(f"{place_of(function)}: tool {name}: {why}")


def _is_context(hint: object) -> bool:
    return hint is CallContext or CallContext in typing.get_args(hint)


def _schema_and_convert(
    function: Callable[..., Any], fields: list[tuple[inspect.Parameter, Any]]
) -> tuple[dict[str, Any], Convert]:
    """One pydantic model with the fields p0, p1, ... under the parameters' names, so that any name is a good one."""
    names = {f"p{i}": parameter.name for i, (parameter, _) in enumerate(fields)}
    definitions: Any = {f"p{i}": _field(parameter, hint) for i, (parameter, hint) in enumerate(fields)}
    whole = any(isinstance(parameter.default, FieldInfo) for parameter, _ in fields)
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **definitions)
        schema = model.model_json_schema(schema_generator=_QuietSchema)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError) as error:
        raise _wrong(function, f"no schema for its parameters: {str(error).splitlines()[0]}") from error
    schema.setdefault("properties", {})
    schema.pop("description", None)

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = model.model_validate(arguments)
        except ValidationError as error:
            raise ArgumentsRefused([_problem(problem) for problem in error.errors()]) from error
        return {names[field]: getattr(made, field) for field in (names if whole else made.model_fields_set)}

    return schema, convert


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    if isinstance(parameter.default, FieldInfo):
        return Annotated[hint, parameter.default], Field(alias=parameter.name)
    if parameter.default is parameter.empty:
        return hint, Field(alias=parameter.name)
    return hint, Field(alias=parameter.name, default=parameter.default)


def _problem(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}"


class _QuietSchema(GenerateJsonSchema):
    """A default that JSON cannot hold is left out without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - the base declares it so


def _is_plain(hint: Any) -> bool:
    """Whether the JSON value is the very thing that the function takes."""
    if any(hint is plain for plain in _PLAIN):
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _is_plain(inner[0]) and all(isinstance(note, (str, FieldInfo)) for note in inner[1:])
    if origin is Literal:
        return all(isinstance(value, (str, int, bool, type(None))) for value in inner)
    if origin in (Union, types.UnionType, list):
        return all(_is_plain(part) for part in inner)
    return origin is dict and inner[0] is str and _is_plain(inner[1])


def _cleaned(node: Any, definitions: dict[str, Any], loops: set[str]) -> Any:
    if isinstance(node, list):
        return [_cleaned(item, definitions, loops) for item in node]
    if not isinstance(node, dict):
        return node
    name = _target(node)
    if name in definitions and name not in loops:
        node = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        return _cleaned(node, definitions, loops)
    clean: dict[str, Any] = {}
    for key, value in node.items():
        if key in _NAMES_INSIDE and isinstance(value, dict):
            clean[key] = {inner: _cleaned(item, definitions, loops) for inner, item in value.items()}
        elif key in _VALUES_INSIDE:
            clean[key] = value
        elif key not in ("title", "discriminator"):
            clean[key] = _cleaned(value, definitions, loops)
    return clean


def _target(node: Mapping[str, Any]) -> str:
    reference = node.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def _referred(node: Any, definitions: dict[str, Any]) -> set[str]:
    """Names of all definitions that a node leads to, at once or through others."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting.extend(here)
        elif isinstance(here, dict):
            name = _target(here)
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            waiting.extend(here.values())
    return found


def _reachable(name: str, definitions: dict[str, Any]) -> set[str]:
    return _referred(definitions[name], definitions)
