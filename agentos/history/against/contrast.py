"""Two configurations, replies or decisions side by side: the fields that differ, and texts line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentos.components import AgentContext, ToolSpec
from agentos.history.against.departure import Change
from agentos.history.replay.results import Divergence

CONTEXT_LINES = 2
"""Lines around a changed one that are shown too."""
_NOT_ASKED = ("effect", "access", "toolbox", "timeout_s")
"""What a tool has that no model is told."""
_DECIDE = ("limits", "policy", "approval", "granted", "hidden")
"""The parts of a configuration that only the kernel's decisions rest on."""


def request_changes(recorded: AgentContext, other: AgentContext) -> list[Change]:
    """What a request of the other configuration would say otherwise: prompt, model, and the tools that are offered."""
    changes = [] if recorded.prompt == other.prompt else [_text("prompt", _joined(recorded), _joined(other))]
    changes += _fields("model", _plain(recorded.model), _plain(other.model))
    return [*changes, *_tool_changes(recorded.tools, other.tools)]


def decision_changes(
    found: Divergence, recorded: AgentContext | None = None, other: AgentContext | None = None
) -> list[Change]:
    """The fields of the entry, then what the configurations have that decisions rest on."""
    paths = [*found.stored, *(path for path in found.produced if path not in found.stored)]
    changes = [Change(path=path, recorded=found.stored.get(path), other=found.produced.get(path)) for path in paths]
    if recorded is None or other is None:
        return changes
    for part in _DECIDE:
        changes += _fields(part, _plain(getattr(recorded, part)), _plain(getattr(other, part)))
    return [*changes, *_deciding_tools(recorded, other)]


def reply_changes(recorded: Mapping[str, Any], other: Mapping[str, Any]) -> list[Change]:
    """What a script says otherwise."""
    changes: list[Change] = []
    for path in dict.fromkeys((*recorded, *other)):
        was, is_ = recorded.get(path), other.get(path)
        if was == is_:
            continue
        both = isinstance(was, str) and isinstance(is_, str) and path == "text"
        changes.append(_text(path, str(was), str(is_)) if both else Change(path=path, recorded=was, other=is_))
    return changes


def unified(before: str, after: str) -> tuple[str, ...]:
    """The lines of a unified diff, without its head and the places of its parts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=CONTEXT_LINES, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _tool_changes(recorded: Sequence[ToolSpec], other: Sequence[ToolSpec]) -> Iterator[Change]:
    """Tools that a model is no longer offered, is offered too, or is told of otherwise."""
    was, is_ = ({tool.name: _told(tool) for tool in tools} for tools in (recorded, other))
    for name in sorted({*was, *is_}):
        if name not in is_:
            yield Change(path=f"tools.{name}", recorded=was[name])
        elif name not in was:
            yield Change(path=f"tools.{name}", other=is_[name])
        else:
            yield from _fields(f"tools.{name}", was[name], is_[name])


def _deciding_tools(recorded: AgentContext, other: AgentContext) -> Iterator[Change]:
    was, is_ = ({tool.name: _plain(tool) for tool in (*side.tools, *side.hidden)} for side in (recorded, other))
    for name in sorted(was.keys() & is_.keys()):
        for key in _NOT_ASKED:
            if was[name].get(key) != is_[name].get(key):
                yield Change(path=f"tools.{name}.{key}", recorded=was[name].get(key), other=is_[name].get(key))


def _told(tool: ToolSpec) -> dict[str, Any]:
    """What a model is told of a tool."""
    return {"description": tool.description, "schema": tool.schema}


def _fields(path: str, was: Any, is_: Any) -> Iterator[Change]:
    """The leaves of mappings that differ; other values as they are, texts of several lines line by line."""
    if was == is_:
        return
    if isinstance(was, Mapping) and isinstance(is_, Mapping):
        for key in _keys(was, is_):
            yield from _fields(f"{path}.{key}", was.get(key), is_.get(key))
    elif isinstance(was, str) and isinstance(is_, str) and "\n" in was + is_:
        yield _text(path, was, is_)
    else:
        yield Change(path=path, recorded=was, other=is_)


def _keys(was: Mapping[str, Any], is_: Mapping[str, Any]) -> Iterable[str]:
    return dict.fromkeys((*was, *is_))


def _text(path: str, was: str, is_: str) -> Change:
    return Change(path=path, recorded=was, other=is_, lines=unified(was, is_))


def _joined(context: AgentContext) -> str:
    return "\n".join(context.prompt)


def _plain(value: Any) -> Any:
    """As JSON has it; of a Struct every field, also one that is as by default."""
    whole = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
    return msgspec.json.decode(msgspec.json.encode(whole))
