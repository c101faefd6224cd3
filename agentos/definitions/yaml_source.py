"""YAML with places: one document of plain values, by a loader that makes no objects."""

from __future__ import annotations

from typing import Any

import yaml

from agentos.definitions.json_source import Read
from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Keys, Place, Refused, cut, too_deep, too_many

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = (f"{_TAG}map", f"{_TAG}seq")
_DATE = f"{_TAG}timestamp"
_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml says when it has looked ahead too far to tell the levels one by one."""

# What the constructors of PyYAML raise for a tag that does not fit its text, as in `!!bool maybe`.
_UNFIT = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


def read_yaml_text(text: str, limits: FileLimits) -> Read:
    """Raises Refused."""
    try:
        _check_size(text, limits)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            reader = _Reader(loader, limits)
            value = None if node is None else reader.read(node, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _refused(error, limits) from error
    return value, reader.places, reader.problems


def _check_size(text: str, limits: FileLimits) -> None:
    """Before anything recurses into it; stops at the first event beyond a bound."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.NodeEvent):
            values += 1
            if values > 2 * limits.file_values_max:
                raise too_many(_place(event), limits.file_values_max)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > limits.file_depth_max:
                raise too_deep(_place(event), limits.file_depth_max)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reader:
    """Turns nodes into values, and counts them."""

    def __init__(self, loader: Any, limits: FileLimits) -> None:
        self.places: dict[Keys, Place] = {}
        self.problems: list[tuple[Place, str]] = []
        self._loader, self._limits = loader, limits
        self._values = 0

    def read(self, node: Any, keys: Keys) -> Any:
        self._values += 1
        if self._values > self._limits.file_values_max or len(keys) > self._limits.file_depth_max:
            raise too_many(_place(node), self._limits.file_values_max)
        self.places.setdefault(keys, _place(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag not in _COLLECTIONS:
            raise Refused(_place(node), f"the tag {node.tag!r} has no meaning here")
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*keys, n)) for n, item in enumerate(node.value)]
        return self._mapping(node, keys)

    def _mapping(self, node: Any, keys: Keys) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise Refused(_place(key_node), "a key must be text")
            if key in found:
                self.problems.append((_place(key_node), f"the key {cut(key)!r} stands here twice"))
            self.places[*keys, key] = _place(key_node)
            found[key] = self.read(value_node, (*keys, key))
        return found

    def _scalar(self, node: Any) -> Any:
        if node.tag == _DATE:
            return node.value  # a date without quotes is the text that it looks like
        try:
            return self._loader.construct_object(node)
        except _UNFIT as error:
            raise Refused(_place(node), f"{cut(node.value)!r} does not fit its tag {node.tag!r}: {error}") from error


def _place(marked: Any) -> Place:
    return Place(marked.start_mark.line + 1, marked.start_mark.column + 1)


def _refused(error: yaml.YAMLError, limits: FileLimits) -> Refused:
    mark = getattr(error, "problem_mark", None)
    place = Place(mark.line + 1, mark.column + 1) if mark is not None else Place(1, 1)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if _TOO_DEEP in why:
        return too_deep(place, limits.file_depth_max)
    context = getattr(error, "context", None)
    return Refused(place, f"{why} {context}" if context else why)
