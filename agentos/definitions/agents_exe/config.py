"""`agents-exe.cfg.json` as the file of a project: its agents, key file and prompt aliases.

Its relative paths count from its own folder, wherever in the project a command is started. What agentos has another
place for, such as logs and sessions, is said to be read past.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from agentos.definitions.agents_exe.envelope import SLUG, slug_in
from agentos.definitions.agents_exe.form import Draft
from agentos.definitions.agents_exe.reading import Notes, Part, kind_of, quoted
from agentos.definitions.reading import read_source
from agentos.definitions.source import Source, cut

KEY_FILE = "secret-keys"
ALIAS_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEYS = (
    "agentsConfigDir",
    "agentsDirectories",
    "agentsFiles",
    "agentsLogs",
    "promptAliases",
    "selfDescribeSlug",
    "selfDescribeDescription",
    "keymap",
    "sessions",
    "tramajLibraries",
)
_NOT_FOLLOWED = {
    "selfDescribeSlug": "agentos describe has --slug for it; read past",
    "selfDescribeDescription": "agentos describe has --description for it; read past",
    "keymap": "there are no keys to map in this version; read past",
    "tramajLibraries": "templates are not in this version; read past",
}
_PARTS = {
    "agentsLogs": (
        ("logJsonHttpEndpoint", "logJsonPath", "logRawPath", "logSessionsJsonPrefix"),
        "--log-file says where a log goes; read past",
    ),
    "sessions": (
        ("writeLocation", "readLocations"),
        "conversations are kept in the store, and session files are not looked for; read past",
    ),
}


def cfg_source(path: Path) -> Source:
    """What the file says, as the values of a ProjectFile, with their places; None for a file that cannot be read.

    Never raises for what it says.
    """
    source = read_source(path)
    if source.value is None and source.problems:
        return source
    notes, draft = Notes(source), Draft(source)
    if isinstance(source.value, dict):
        config = Part(notes, (), source.value, _KEYS)
        _agents(config, draft)
        _key_file(config, draft)
        _aliases(config, draft)
        _others(config)
    else:
        notes.error((), f"a mapping of keys is needed here, not {kind_of(source.value)}")
    return Source(path, draft.value, draft.places, (*source.problems, *notes.told()))


def _agents(config: Part, draft: Draft) -> None:
    """Directories that are not there are left out; a file that is named and not there is an error when it is loaded."""
    root = config.notes.source.path.parent
    for keys, name in config.texts("agentsDirectories"):
        directory = _found_from(name)
        if os.path.isdir(root / directory):
            draft.add(("agents", "directories"), directory, keys)
        else:
            config.notes.warn(keys, f"agentsDirectories: no directory {root / cut(directory)}; left out")
    for keys, name in config.texts("agentsFiles"):
        draft.add(("agents", "files"), _found_from(name), keys)
    first = draft.value.get("agents", {}).get("files", [])[:1]
    for name in first:
        slug = slug_in(read_source(root / name).value)
        if slug is not None and SLUG.fullmatch(slug):
            draft.put(("default_agent",), slug, config.at("agentsFiles"))


def _key_file(config: Part, draft: Draft) -> None:
    directory = config.text("agentsConfigDir")
    if directory:
        draft.add(("keys",), posixpath.join(_found_from(directory), KEY_FILE), config.at("agentsConfigDir"))


def _aliases(config: Part, draft: Draft) -> None:
    for name, value in (config.mapping("promptAliases") or {}).items():
        keys = (*config.at("promptAliases"), name)
        if not ALIAS_NAME.fullmatch(name):
            config.notes.error(keys, f"{quoted(name)} cannot be an alias: it has 1 to 64 letters, digits, and _ . -")
        elif not isinstance(value, dict):
            config.notes.error(keys, f"a mapping of keys is needed here, not {kind_of(value)}")
        else:
            _alias(name, Part(config.notes, keys, value, ("description", "template", "inputMode")), draft)


def _alias(name: str, alias: Part, draft: Draft) -> None:
    template = alias.needed("template")
    if template == "":
        alias.error("template", "it is empty")
        return
    mode = None if alias.value("inputMode") is None else alias.choice("inputMode", ("stdin", "file"))
    for key, value, origin in (
        ("description", alias.text("description"), "description"),
        ("template", template, "template"),
        ("input", mode, "inputMode"),
    ):
        draft.put(("aliases", name, key), value, alias.at(origin))


def _others(config: Part) -> None:
    for name, words in _NOT_FOLLOWED.items():
        if config.value(name):
            config.warn(name, words)
    for name, (known, words) in _PARTS.items():
        value = config.mapping(name)
        if value is not None:
            part = Part(config.notes, config.at(name), value, known)
            for key in part.given():
                part.warn(key, words)


def _found_from(name: str) -> str:
    """A path as it is looked for: a tilde is the folder of the user, and no stroke stands at its end."""
    return posixpath.normpath(os.path.expanduser(name))
