"""The toolboxes of an agents-exe file. Each becomes a private toolbox of the agent.

Here are scripts, and the way of all lists of toolboxes; the kinds that are built in stand in modules of their own. Paths
count from the working directory there and here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentos.definitions.agents_exe.form import BoxNames, Draft
from agentos.definitions.agents_exe.reading import Notes, Part, Tagged, part_of, quoted, tagged
from agentos.definitions.agents_exe.sandbox import Sandboxes
from agentos.definitions.source import Keys

COMMON = ("activation", "lifetime", "bindings")
"""What every toolbox there may say beside its own keys, and this version does not follow."""
SCRIPT_PREFIX = "bash_"
BOX_NAME_CHARS_MAX = 39
"""So that `system_NAME_working-directory` has 64 characters at most, as many as providers take for a tool."""
_NO_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Boxes:
    """The toolboxes of one agent, as they are read."""

    def __init__(self, notes: Notes, draft: Draft, sandboxes: Sandboxes) -> None:
        self.notes, self.draft, self.sandboxes = notes, draft, sandboxes
        self._tools: set[str] = set()
        self._names = BoxNames()
        self._scripts: set[tuple[str, str | None]] = set()

    def start(self, kind: str, name: str, origin: Keys) -> Keys:
        """A new toolbox. Tells the way to it in the native form."""
        keys = self.draft.add(("toolboxes",), {}, origin)
        self.draft.put((*keys, "kind"), kind, origin)
        self.draft.put((*keys, "name"), self._names.free(name), origin)
        return keys

    def scripts(self, path: str, origin: Keys, only: str | None = None, only_origin: Keys = ()) -> None:
        """A directory of scripts, or a single one. The same source a second time would be the same tools twice."""
        path = posixpath.normpath(path)
        if (path, only) in self._scripts:
            self.notes.warn(origin, f"the scripts of {path!r} are already this agent's; read past")
            return
        self._scripts.add((path, only))
        keys = self.start("script", path, origin)
        self.draft.put((*keys, "path"), path, origin)
        self.draft.put((*keys, "base"), "working-directory", origin)
        self.draft.put((*keys, "prefix"), SCRIPT_PREFIX, origin)
        self.draft.put((*keys, "filter"), only, only_origin)

    def unavailable(self, keys: Keys, origin: Keys, reason: str) -> None:
        """Marks a toolbox as one that loads, has no tools, and says why."""
        self.notes.warn(origin, reason)
        self.draft.put((*keys, "unavailable"), reason, origin)

    def name_of(self, part: Part) -> str | None:
        """The name of a toolbox, in the letters that the names of its tools may have."""
        name = part.needed("name")
        if name is None:
            return None
        plain = _NO_TOOL_NAME.sub("_", name)
        if not plain or len(plain) > BOX_NAME_CHARS_MAX:
            part.error("name", f"1 to {BOX_NAME_CHARS_MAX} characters are needed: it stands in the names of the tools")
            return None
        if plain != name:
            part.warn("name", f"{quoted(plain)} in the names of its tools, which have only letters, digits, _ and -")
        return plain

    def common(self, part: Part) -> None:
        """Says which of the common keys are not followed."""
        if part.value("activation") not in (None, "always"):
            part.warn("activation", "tools on demand are not in this version; these are there from the start")
        if part.value("lifetime") is not None:
            part.warn("lifetime", "how long a toolbox lives is a matter of its kind here; read past")
        if part.value("bindings"):
            part.warn("bindings", "not in this version; the model sees and chooses the bound arguments itself")

    def free_tool(self, part: Part, tool: str) -> bool:
        """Whether no other toolbox has a tool of this name; says so when one has."""
        if tool in self._tools:
            part.error("name", f"another toolbox of this agent has the tool {quoted(tool)} already")
            return False
        self._tools.add(tool)
        return True


Kinds = Mapping[str, Callable[[Boxes, Tagged], None]]


def read_list(boxes: Boxes, agent: Part, name: str, kinds: Kinds) -> None:
    """The toolboxes of one list, each by what its tag says."""
    for keys, item in agent.items(name):
        found = tagged(boxes.notes, keys, item, tuple(kinds))
        if found is not None:
            kinds[found.tag](boxes, found)


def _directory(boxes: Boxes, found: Tagged) -> None:
    part = part_of(boxes.notes, found, ("path", "basenameFilter", "root", *COMMON))
    path = None if part is None else part.path("path")
    if part is None or path is None:
        return
    root = part.text("root") or ""
    only = part.text("basenameFilter") or None
    boxes.scripts(posixpath.join(root, path), part.at("path"), only, part.at("basenameFilter"))
    boxes.common(part)


def _single(boxes: Boxes, found: Tagged) -> None:
    part = part_of(boxes.notes, found, ("path", *COMMON))
    path = None if part is None else part.path("path")
    if part is None or path is None:
        return
    boxes.scripts(path, part.at("path"))
    boxes.common(part)


SCRIPTS: Kinds = {"FileSystemDirectory": _directory, "SingleTool": _single}


def script_directories(agent: Part) -> list[tuple[Keys, str]]:
    """The directories of scripts that an agent names, each with its place: agent files in them are its helpers."""
    found: list[tuple[Keys, str]] = []
    for keys, item in agent.items("bashToolboxes"):
        contents: Any = item.get("contents") if isinstance(item, dict) else None
        if isinstance(contents, dict) and item.get("tag") == "FileSystemDirectory":
            quiet = Part(Notes(agent.notes.source), (*keys, "contents"), contents, ("path", "root"))
            path, root = quiet.value("path"), quiet.value("root")
            if isinstance(path, str):
                found.append((quiet.at("path"), posixpath.join(root if isinstance(root, str) else "", path)))
    return found
