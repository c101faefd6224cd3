"""Arguments against the JSON Schema of their tool.

Schemas come from strangers: nothing remote is fetched, nothing is followed that would multiply without end, and what
does not compile refuses each call with its reason instead of raising.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from agentos.codec import DEPTH_MAX
from agentos.components import ToolSpec
from agentos.errors import AgentosError
from agentos.governance.cache import IdentityCache

PROBLEMS_MAX = 20
PROBLEM_CHARS_MAX = 300
SCHEMA_BYTES_MAX = 1024 * 1024
SCHEMA_DEPTH_MAX = 100
SCHEMA_COST_MAX = 100_000
"""How many subschemas one value may be held against when every reference is followed once."""
VALIDATORS_MAX = 4_096


class SchemaRefused(AgentosError):
    """A tool's schema cannot be used."""


def normalized(arguments: Any) -> Any:
    """The arguments as meant: nothing at all (missing, null, blank text) is an empty object."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    return arguments


def problems_of(tool: ToolSpec, arguments: object) -> list[str]:
    """What is wrong with the arguments, each problem with its place; empty when nothing is."""
    validator = _validators.get(tool.schema)
    if isinstance(validator, str):
        return [f"the schema of {tool.name} cannot be used: {validator}"]
    value = normalized(arguments)
    if not isinstance(value, dict):
        return [_not_an_object(value)]
    if _is_deep(value):  # the validator would overflow the stack of the whole process
        return [f"arguments: nested deeper than {DEPTH_MAX} levels"]
    try:
        if validator.is_valid(value):
            return []
        return _problems(validator, value)
    except ValueError as error:  # something in it is no JSON
        return [f"arguments: cannot be checked: {error}"]


def problem_of_schema(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used, for a warning when its tool is loaded; None when it can."""
    try:
        _compiled(schema)
    except SchemaRefused as error:
        return str(error)
    return None


def explain(problems: Sequence[str]) -> str:
    """The problems as a numbered list for the model, and what to do about them."""
    lines = [f"{number}. {problem}" for number, problem in enumerate(problems, 1)]
    return "\n".join([*lines, "Send the call again with corrected arguments."])


def _problems(validator: jsonschema_rs.Validator, value: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for error in validator.iter_errors(value):
        if len(found) == PROBLEMS_MAX:
            found.append("and more")
            break
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        found.append(_cut(f"{path.removeprefix('.') or 'arguments'}: {error.message}"))
    return found


def _is_deep(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX):
        inside = (item.values() if isinstance(item, dict) else item for item in level)
        level = [inner for items in inside for inner in items if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def _not_an_object(value: object) -> str:
    if isinstance(value, str):
        return "arguments: not valid JSON; send one JSON object"
    return f"arguments: a {type(value).__name__} is not an object; send one JSON object"


def _cut(text: str) -> str:
    return text if len(text) <= PROBLEM_CHARS_MAX else f"{text[: PROBLEM_CHARS_MAX - 3]}..."


def _validator_or_reason(schema: Mapping[str, Any]) -> jsonschema_rs.Validator | str:
    try:
        return _compiled(schema)
    except SchemaRefused as error:
        return str(error)


def _compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Raises SchemaRefused."""
    try:
        cost = _Cost(schema).of(schema, 0)
        size = len(msgspec.json.encode(schema))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise SchemaRefused(f"it is no JSON: {error}") from error
    if size > SCHEMA_BYTES_MAX:
        raise SchemaRefused(f"it has {size:,} bytes, over {SCHEMA_BYTES_MAX:,}")
    if cost > SCHEMA_COST_MAX:
        raise SchemaRefused(f"its references multiply to over {SCHEMA_COST_MAX:,} checks")
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_retrieve_nothing)
    except (ValueError, TypeError, jsonschema_rs.ValidationError) as error:
        raise SchemaRefused(_cut(str(error).splitlines()[0])) from error


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError("nothing remote is fetched")


class _Cost:
    """How often subschemas are held against one value when each local reference is followed, a recursive one once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names: dict[str, Any] = {"#": root}
        self._known: dict[str, float] = {}
        self._find_names(root, 0)

    def of(self, node: Any, depth: int) -> float:
        if depth > SCHEMA_DEPTH_MAX:
            raise SchemaRefused(f"its references are nested deeper than {SCHEMA_DEPTH_MAX} levels")
        if isinstance(node, list):
            return sum(self.of(item, depth + 1) for item in node)
        if not isinstance(node, Mapping):
            return 0
        reference = node.get("$ref", node.get("$dynamicRef"))
        target = self._target(reference, depth) if isinstance(reference, str) else 0
        inside = (value for key, value in node.items() if key not in ("$defs", "definitions"))
        return 1 + target + sum(self.of(value, depth + 1) for value in inside)

    def _target(self, reference: str, depth: int) -> float:
        known = self._known.get(reference)
        if known is None:
            self._known[reference] = 0  # while it is counted, a reference to itself costs nothing more
            known = self._known[reference] = self.of(self._look_up(reference), depth + 1)
        return known if known <= SCHEMA_COST_MAX else math.inf

    def _look_up(self, reference: str) -> Any:
        """What a reference within the schema names; None for a pointer to nothing, which the compiler then tells."""
        if reference in self._names:
            return self._names[reference]
        if not reference.startswith("#/"):
            raise SchemaRefused(_cut(f"it refers to {reference}, and nothing remote is fetched"))
        node: Any = self._root
        for part in unquote(reference[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list):
                node = node[int(key)] if key.isdecimal() and int(key) < len(node) else None
            else:
                node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def _find_names(self, node: Any, depth: int) -> None:
        """Names that references may use instead of pointers."""
        if depth > SCHEMA_DEPTH_MAX:
            raise SchemaRefused(f"it is nested deeper than {SCHEMA_DEPTH_MAX} levels")
        for inner in node.values() if isinstance(node, Mapping) else node:
            if isinstance(inner, (Mapping, list)):
                self._find_names(inner, depth + 1)
        if isinstance(node, Mapping):
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(key), str):
                    self._names[f"#{node[key]}"] = node
            if isinstance(node.get("$id"), str):
                self._names[node["$id"]] = node


_validators: IdentityCache[dict[str, Any], jsonschema_rs.Validator | str] = IdentityCache(
    _validator_or_reason, VALIDATORS_MAX
)
