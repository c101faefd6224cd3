"""Reads YAML and TOML files within bounds, and remembers where each key stands, for errors with line and column."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from agentos.errors import ConfigurationError

FILE_BYTES_MAX = 1024 * 1024
DEPTH_MAX = 50
NODES_MAX = 20_000
"""Also counts a node again each time an alias repeats it, so that a few lines cannot grow without end."""

Keys = tuple[str | int, ...]
"""The way to a value: keys of mappings and positions in lists."""

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Place(NamedTuple):
    """From 1."""

    line: int
    column: int


class Source(NamedTuple):
    """What a file says, and the places of its keys and list items."""

    path: Path
    value: Any
    places: dict[Keys, Place]

    def where(self, keys: Keys) -> str:
        """file:line:column of the innermost of these keys that stands in the file."""
        while keys not in self.places and keys:
            keys = keys[:-1]
        place = self.places.get(keys, Place(1, 1))
        return f"{self.path}:{place.line}:{place.column}"


def read_text(path: Path) -> str:
    """The text of a configuration file. Raises ConfigurationError naming the file."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigurationError(f"{path}: over {FILE_BYTES_MAX:,} bytes, which no configuration needs")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: byte {error.start} is not UTF-8") from error


def read_yaml(path: Path) -> Source:
    """One document of plain values. Raises ConfigurationError naming file, line and column."""
    text = read_text(path)
    try:
        _check_depth(path, text)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            reader = _Reader(path, loader)
            value = None if node is None else reader.read(node, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ConfigurationError(_said(path, error)) from error
    return Source(path, value, reader.places)


def read_toml(path: Path) -> Source:
    """A TOML file. Raises ConfigurationError naming file, line and column."""
    text = read_text(path)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
        if found is None:
            raise ConfigurationError(f"{path}: {error}") from error
        raise ConfigurationError(f"{path}:{found[1]}:{found[2]}: {str(error)[: found.start()]}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: nested too deeply") from error
    return Source(path, value, _toml_places(text))


def _toml_places(text: str) -> dict[Keys, Place]:
    """Of the keys that stand plainly at the beginning of a line, as nearly all do; the parser tells no places."""
    places: dict[Keys, Place] = {}
    table: Keys = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([\w.-]+)\]", line):
            table = tuple(header[1].split("."))
            for end in range(len(table)):
                places.setdefault(table[: end + 1], Place(number, header.start(1) + 1))
        elif key := re.match(r"\s*([\w-]+)\s*=", line):
            places.setdefault((*table, key[1]), Place(number, key.start(1) + 1))
    return places


def _check_depth(path: Path, text: str) -> None:
    """Before anything recurses into it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_MAX:
                place = _place(event)
                raise ConfigurationError(f"{path}:{place.line}:{place.column}: nested deeper than {DEPTH_MAX} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reader:
    """Turns nodes into values, and counts them."""

    def __init__(self, path: Path, loader: Any) -> None:
        self.places: dict[Keys, Place] = {}
        self._path, self._loader = path, loader
        self._nodes = 0

    def read(self, node: Any, keys: Keys) -> Any:
        self._nodes += 1
        if self._nodes > NODES_MAX or len(keys) > DEPTH_MAX:
            raise self._wrong(node, f"more than {NODES_MAX:,} values, or an alias that repeats itself")
        self.places.setdefault(keys, _place(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag not in _PLAIN_TAGS:
            raise self._wrong(node, f"the tag {node.tag!r} has no meaning here")
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*keys, n)) for n, item in enumerate(node.value)]
        return self._mapping(node, keys)

    def _mapping(self, node: Any, keys: Keys) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise self._wrong(key_node, "a key must be text")
            if key in found:
                raise self._wrong(key_node, f"the key {key!r} stands here twice")
            self.places[*keys, key] = _place(key_node)
            found[key] = self.read(value_node, (*keys, key))
        return found

    def _scalar(self, node: Any) -> Any:
        try:
            return self._loader.construct_object(node)
        except ValueError as error:
            raise self._wrong(node, str(error)) from error

    def _wrong(self, node: Any, why: str) -> ConfigurationError:
        place = _place(node)
        return ConfigurationError(f"{self._path}:{place.line}:{place.column}: {why}")


def _place(marked: Any) -> Place:
    return Place(marked.start_mark.line + 1, marked.start_mark.column + 1)


def _said(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
    why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    return f"{where}: {why} {context}" if context else f"{where}: {why}"
