"""The agents that an agents-exe file may ask: those it names, and those whose files lie among its tools.

Paths of agents count from the file that says them, unlike those of tools. So a directory of tools is two places: its
scripts are looked for from the working directory, its agent files from the folder of the agent's own file.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agentos.definitions.agents_exe.envelope import SLUG, SLUG_WORDS, slug_in
from agentos.definitions.agents_exe.form import Draft
from agentos.definitions.agents_exe.reading import Notes, Part, kind_of, quoted
from agentos.definitions.agents_exe.toolboxes import script_directories
from agentos.definitions.limits import LIMITS
from agentos.definitions.reading import read_source
from agentos.definitions.source import Keys, cut

HELPER_PREFIX = "io_prompt_agent_"
TOOL_NAME_CHARS_MAX = 64


class Helpers:
    """The helpers of one agent, each slug once."""

    def __init__(self, notes: Notes, draft: Draft) -> None:
        self.notes = notes
        self._draft = draft
        self._paths: dict[str, str] = {}

    def add(self, slug: str, path: str, slug_keys: Keys, path_keys: Keys) -> None:
        """One more. The same slug again is nothing new when it is the same file, and an error when it is another."""
        if not SLUG.fullmatch(slug):
            self.notes.error(slug_keys, f"the slug {quoted(slug)} cannot be used: {SLUG_WORDS}")
            return
        path = posixpath.normpath(path)
        if slug in self._paths:
            if self._real(self._paths[slug]) != self._real(path):
                words = f"the helper {quoted(slug)} is {quoted(self._paths[slug])} already, and {quoted(path)} as well"
                self.notes.error(slug_keys, words)
            return
        self._paths[slug] = path
        keys = self._draft.add(("subagents",), {}, path_keys)
        self._draft.put((*keys, "slug"), slug, slug_keys)
        self._draft.put((*keys, "path"), path, path_keys)
        self._draft.put((*keys, "tool"), self._tool(slug, slug_keys), slug_keys)

    def _real(self, path: str) -> str:
        return os.path.realpath(self.notes.source.path.parent / path)

    def _tool(self, slug: str, slug_keys: Keys) -> str | None:
        tool = HELPER_PREFIX + slug
        if len(tool) <= TOOL_NAME_CHARS_MAX:
            return tool
        words = f"{HELPER_PREFIX}{slug} has over {TOOL_NAME_CHARS_MAX} characters; the tool is called ask_{slug}"
        self.notes.warn(slug_keys, words)
        return None


def read_helpers(helpers: Helpers, agent: Part) -> None:
    """All of them: `extraAgents` first, then the files among the tools."""
    for keys, item in agent.items("extraAgents"):
        if isinstance(item, dict):
            _named(helpers, Part(agent.notes, keys, item, ("slug", "path", "with", "narrowable")))
        else:
            agent.notes.error(keys, f"""{{"slug": ..., "path": ...}} is needed here, not {kind_of(item)}""")
    folder = agent.notes.source.path.parent
    for key in ("toolDirectory", "tools"):
        if directory := agent.text(key):
            if not os.path.isdir(folder / directory):
                words = "so no helpers come from it; its scripts count from the working directory"
                agent.warn(key, f"no directory {folder / cut(directory)}, {words}")
            _found(helpers, directory, agent.at(key))
    for keys, directory in script_directories(agent):
        _found(helpers, directory, keys)


def _named(helpers: Helpers, part: Part) -> None:
    slug, path = part.needed("slug"), part.path("path")
    if part.value("with"):
        part.warn("with", "parameters of helpers are not in this version; read past")
    if slug is not None and path is not None:
        helpers.add(slug, path, part.at("slug"), part.at("path"))


def _found(helpers: Helpers, directory: str, keys: Keys) -> None:
    """The agent files in a directory beside the agent's own file, each by the slug that it says."""
    own = helpers.notes.source.path
    for path in _json_files(own.parent / directory):
        if os.path.realpath(path) == os.path.realpath(own):
            continue
        slug = slug_in(read_source(path).value)
        if slug is None:
            helpers.notes.warn(keys, f"{path} lies among the tools, and is no agent file; no helper comes of it")
        else:
            helpers.add(slug, posixpath.join(directory, path.name), keys, keys)


def _json_files(directory: Path) -> list[Path]:
    """Sorted. A directory that is not there, or may not be read, has none."""
    try:
        with os.scandir(directory) as entries:
            return sorted(_json_of(entries))
    except (OSError, ValueError):
        return []


def _json_of(entries: Iterator[os.DirEntry[str]]) -> Iterator[Path]:
    for entry in islice(entries, LIMITS.files_max):
        if entry.name.endswith(".json") and entry.is_file():
            yield Path(entry.path)
