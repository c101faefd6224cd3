"""The file sandboxes of an agents-exe file: written where they are used, or once for all under a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from agentos.definitions.agents_exe.reading import Notes, Part, quoted
from agentos.definitions.checking import did_you_mean
from agentos.definitions.source import Keys

_KEYS = ("fsbPredicate", "fsbMaxFileSize", "fsbName")


class FoundSandbox(NamedTuple):
    """What a sandbox says, and where."""

    value: dict[str, Any]
    keys: Keys


class Sandboxes:
    """Finds what a toolbox says of its sandbox."""

    def __init__(self, notes: Notes, agent: Part) -> None:
        self._notes = notes
        self._keys = agent.at("fileSandboxes")
        self._named = agent.mapping("fileSandboxes") or {}

    def of(self, part: Part) -> FoundSandbox | None:
        """The sandbox of a toolbox; None where it says nothing, or nothing that can be used, which is then told."""
        value = part.mapping("fileSandbox")
        if value is None:
            return None
        if "ref" not in value:
            return self._read(value, part.at("fileSandbox"))
        name, keys = value["ref"], (*part.at("fileSandbox"), "ref")
        if isinstance(name, str) and isinstance(self._named.get(name), dict):
            return self._read(self._named[name], (*self._keys, name))
        near = did_you_mean(name, list(self._named)) if isinstance(name, str) else ""
        words = quoted(name) if isinstance(name, str) else "that"
        self._notes.error(keys, f"ref: fileSandboxes has no mapping named {words}{near}")
        return None

    def check(self, found: FoundSandbox) -> None:
        """Tells what is wrong with the rules of a sandbox, each with its place."""
        from agentos.resources.folders.sandbox_rules import rule_of

        def tell(keys: Keys, what: str) -> None:
            self._notes.error((*found.keys, *keys), what)

        if "fsbPredicate" in found.value:
            rule_of(found.value["fsbPredicate"], Path("/"), tell, ("fsbPredicate",))

    def _read(self, value: dict[str, Any], keys: Keys) -> FoundSandbox:
        part = Part(self._notes, keys, value, _KEYS)
        size = part.number("fsbMaxFileSize")
        if size is not None and (not isinstance(size, int) or size < 0):
            part.error("fsbMaxFileSize", "a number of bytes is needed here")
            size = None
        read = {"fsbPredicate": part.mapping("fsbPredicate"), "fsbMaxFileSize": size, "fsbName": part.text("fsbName")}
        return FoundSandbox({name: value for name, value in read.items() if value is not None}, keys)
