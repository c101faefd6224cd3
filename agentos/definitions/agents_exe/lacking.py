"""The toolboxes of agents-exe that this version lacks. Their settings are kept for the version that has them.

That they have no tools is told where all agents are checked, as it is for those of our own files.
"""

from __future__ import annotations

from typing import Any

from agentos.definitions.agents_exe.reading import Part, Tagged, part_of
from agentos.definitions.agents_exe.toolboxes import COMMON, Boxes, Kinds
from agentos.definitions.source import Keys

_SERVER = ("specUrl", "baseUrl", "headers", "token", "filter", "secrets", *COMMON)
_DEVELOPER = ("name", "description", "capabilities", "fileSandbox", *COMMON)
_MCP = ("name", "executable", "args", "env", *COMMON)


def developer(boxes: Boxes, found: Tagged) -> None:
    _named(boxes, found, "developer", _DEVELOPER)


def _mcp(boxes: Boxes, found: Tagged) -> None:
    _named(boxes, found, "mcp", _MCP)


def _named(boxes: Boxes, found: Tagged, kind: str, known: tuple[str, ...]) -> None:
    part = part_of(boxes.notes, found, known)
    name = None if part is None else boxes.name_of(part)
    if part is None or name is None:
        return
    keys = boxes.start(kind, name, part.at("name"))
    sandbox = boxes.sandboxes.of(part)
    if sandbox is not None:
        boxes.draft.put((*keys, "settings", "fileSandbox"), sandbox.value, sandbox.keys)
    _settings(boxes, keys, part, known)


def _openapi(boxes: Boxes, found: Tagged) -> None:
    _server(boxes, found, "openapi", _SERVER)


def _postgrest(boxes: Boxes, found: Tagged) -> None:
    _server(boxes, found, "postgrest", (*_SERVER, "allowedMethods"))


def _server(boxes: Boxes, found: Tagged, kind: str, known: tuple[str, ...]) -> None:
    """It has no name of its own there."""
    part = part_of(boxes.notes, found, known)
    if part is None or part.needed("specUrl") is None or part.needed("baseUrl") is None:
        return
    _settings(boxes, boxes.start(kind, kind, part.at("specUrl")), part, known)


def _openapi_on_disk(boxes: Boxes, found: Tagged) -> None:
    _on_disk(boxes, found, "openapi")


def _postgrest_on_disk(boxes: Boxes, found: Tagged) -> None:
    _on_disk(boxes, found, "postgrest")


def _on_disk(boxes: Boxes, found: Tagged, kind: str) -> None:
    if not isinstance(found.contents, str):
        boxes.notes.error(found.keys, f"{found.tag}: its contents have to be the path of a file")
        return
    keys = boxes.start(kind, kind, found.keys)
    boxes.draft.put((*keys, "settings", "path"), found.contents, found.keys)


def skills(boxes: Boxes, agent: Part) -> None:
    """All sources of skills together are one toolbox."""
    sources, enabled = agent.items("skillSources"), agent.texts("autoEnableSkills")
    if not sources:
        if enabled:
            agent.warn("autoEnableSkills", "there are no skillSources; read past")
        return
    keys = boxes.start("skills", "skills", agent.at("skillSources"))
    put = boxes.draft.put
    put((*keys, "settings", "skillSources"), [source for _, source in sources], agent.at("skillSources"))
    put((*keys, "settings", "autoEnableSkills"), [name for _, name in enabled] or None, agent.at("autoEnableSkills"))


def _settings(boxes: Boxes, keys: Keys, part: Part, known: tuple[str, ...]) -> None:
    """All else that it says, as it says it, under the names of the documentation."""
    for name in known:
        value: Any = part.value(name)
        if name not in ("name", "fileSandbox"):
            boxes.draft.put((*keys, "settings", name), value, part.at(name))


MCP: Kinds = {"McpSimpleBinary": _mcp}
OPENAPI: Kinds = {"OpenAPIServer": _openapi, "OpenAPIServerOnDisk": _openapi_on_disk}
POSTGREST: Kinds = {"PostgRESTServer": _postgrest, "PostgRESTServerOnDisk": _postgrest_on_disk}
