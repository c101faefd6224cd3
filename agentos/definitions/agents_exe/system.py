"""The system toolbox of agents-exe. The capabilities that look at sessions are explained and left out."""

from __future__ import annotations

from agentos.definitions.agents_exe.reading import Part, Tagged, part_of, quoted
from agentos.definitions.agents_exe.toolboxes import COMMON, Boxes
from agentos.definitions.checking import did_you_mean
from agentos.definitions.source import Keys

SESSION_CAPABILITIES = (
    "list-sessions",
    "search-sessions",
    "read-session",
    "get-session-stats",
    "get-tool-call-status",
    "list-running-tool-calls",
    "cancel-tool-call",
    "wait",
    "send-message",
    "spawn-session",
    "watch-session",
)
_SESSION_KEYS = (
    "sessionIntrospectionScope",
    "sessionIntrospectionMaxResults",
    "sessionIntrospectionIncludeToolOutputs",
)
_KEYS = ("name", "description", "capabilities", "envVarFilter", "fileSandbox", "commandFilter", *_SESSION_KEYS)
_NOTHING_LEFT = "none of its capabilities is in this version"


def system(boxes: Boxes, found: Tagged) -> None:
    part = part_of(boxes.notes, found, (*_KEYS, *COMMON))
    name = None if part is None else boxes.name_of(part)
    if part is None or name is None or part.lacks("capabilities"):
        return
    if not boxes.free_tool(part, f"system_{name}_"):
        return
    keys, put = boxes.start("system", name, part.at("name")), boxes.draft.put
    put((*keys, "description"), part.text("description"), part.at("description"))
    put((*keys, "prefix"), f"system_{name}_", part.at("name"))
    put((*keys, "base"), "working-directory", part.keys)
    put((*keys, "env_filter"), part.text("envVarFilter"), part.at("envVarFilter"))
    put((*keys, "command_filter"), part.text("commandFilter") or None, part.at("commandFilter"))
    sandbox = boxes.sandboxes.of(part)
    if sandbox is not None:
        boxes.sandboxes.check(sandbox)
        put((*keys, "sandbox"), sandbox.value, sandbox.keys)
    _capabilities(boxes, keys, part)
    boxes.common(part)


def _capabilities(boxes: Boxes, keys: Keys, part: Part) -> None:
    errors = boxes.notes.errors
    usable = [(origin, word) for origin, word in part.texts("capabilities") if _usable(part, origin, word)]
    for name in _SESSION_KEYS:
        if part.value(name) is not None:
            part.warn(name, "for capabilities that this version lacks; read past")
    boxes.draft.put((*keys, "capabilities"), [], part.at("capabilities"))
    for origin, word in usable:
        boxes.draft.add((*keys, "capabilities"), word, origin)
    if not usable and boxes.notes.errors == errors:
        boxes.unavailable(keys, part.at("capabilities"), _NOTHING_LEFT)


def _usable(part: Part, origin: Keys, word: str) -> bool:
    from agentos.toolboxes.system import CAPABILITIES

    if word in SESSION_CAPABILITIES:
        part.notes.warn(origin, f"the capability {word!r} is not in this version; left out")
        return False
    if word not in CAPABILITIES:
        near = did_you_mean(word, [*CAPABILITIES, *SESSION_CAPABILITIES])
        part.notes.error(origin, f"the capability {quoted(word)} is unknown{near}")
        return False
    if word == "execute-command" and not part.value("commandFilter"):
        part.notes.warn(origin, f"the capability {word!r} is to be had with a CommandFilter alone; left out")
        return False
    return True
