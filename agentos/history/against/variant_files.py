"""From a file to the variant that it holds: what it is follows from what it says, and is told.

A text file, or Markdown without a head, is a prompt. Of JSON and YAML: a mapping with a slug is an agent; one with tools,
as `agentos tool list --json` prints them, or a list of them, is tools; else a list or a mapping of lists is a script. All
else is read as an agent's file, in any of its forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from agentos import codec
from agentos.components import ToolSpec
from agentos.definitions import load_agent
from agentos.errors import CodecError, ConfigurationError
from agentos.history.against.variants import Variant
from agentos.ids import Name
from agentos.models.script import load_script

FILE_BYTES_MAX = 4 * 1024 * 1024
_MARKDOWN = (".md", ".markdown")
_DATA = (".json", ".yaml", ".yml")


def variant_of(path: Path) -> Variant:
    """What a file says instead. Raises ConfigurationError naming the file and what is wrong with it."""
    text = _read(path)
    suffix = path.suffix.lower()
    if suffix == ".txt" or (suffix in _MARKDOWN and not text.startswith("---")):
        return Variant(name=f"the prompt of {path}", prompt=(text.rstrip("\n"),))
    if suffix in _DATA:
        data = _data(path, text)
        tools: Any = data.get("tools") if isinstance(data, Mapping) and "slug" not in data else data
        if _are_tools(tools):
            return Variant(name=f"the tools of {path}", tools=_tools(path, tools))
        if _is_script(data):
            return Variant(name=f"the script of {path}", script=load_script(path))
    return Variant(name=f"the agent of {path}", agent=load_agent(path))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigurationError(f"{path}: over {FILE_BYTES_MAX:,} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def _data(path: Path, text: str) -> Any:
    """What JSON or YAML says; None for what is neither, of which the reader of agents' files tells the place."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _are_tools(value: Any) -> bool:
    return bool(_is_list(value) and all(isinstance(one, Mapping) and {"name", "schema"} <= one.keys() for one in value))


def _is_script(data: Any) -> bool:
    """A list of steps, or such lists by agent."""
    lists = [*data.values()] if isinstance(data, Mapping) else [data]
    if isinstance(data, Mapping) and "slug" in data:
        return False
    return bool(lists) and all(_is_list(steps) and all(isinstance(step, Mapping) for step in steps) for steps in lists)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tools(path: Path, tools: Sequence[Mapping[str, Any]]) -> dict[Name, list[ToolSpec]]:
    """By toolbox. Raises ConfigurationError naming the tool."""
    found: defaultdict[Name, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        try:
            spec = codec.convert(dict(tool), ToolSpec)
        except CodecError as error:
            raise ConfigurationError(f"{path}: tool {str(tool['name'])[:80]!r}: {error}") from error
        if spec.toolbox is None:
            raise ConfigurationError(f"{path}: tool {spec.name!r} does not name its toolbox")
        found[spec.toolbox].append(spec)
    return dict(found)
