"""SQLite toolboxes of agents-exe: those with `Versioning`, and the older ones with `Path` and `Access`."""

from __future__ import annotations

from typing import NamedTuple

from agentos.definitions.agents_exe.reading import Part, Tagged, part_of
from agentos.definitions.agents_exe.toolboxes import COMMON, Boxes
from agentos.definitions.source import Keys

_VERSIONING = {
    "SqliteReadOnly": "read-only",
    "SqliteReadWrite": "read-write",
    "SqliteNoVersioning": "read-write",
    "SqliteVersioned": None,
}
_OLDER = {"read-only": "read-only", "read-write": "read-write", "snapshot": None}
_NO_VERSIONS = "databases with versions are not in this version"
_NO_SNAPSHOT = "a copy of the database for each conversation is not in this version"


class _Database(NamedTuple):
    """Where it is and what may be done with it; access None is one that this version lacks, for the reason."""

    path: str
    path_keys: Keys
    access: str | None
    access_keys: Keys
    reason: str


def sqlite(boxes: Boxes, found: Tagged) -> None:
    part = part_of(boxes.notes, found, ("name", "description", "versioning", "path", "access", *COMMON))
    if part is None:
        return
    name, database = boxes.name_of(part), _database(part)
    if name is None or database is None or not boxes.free_tool(part, f"sqlite_{name}_query"):
        return
    keys, put = boxes.start("sqlite", name, part.at("name")), boxes.draft.put
    put((*keys, "description"), part.text("description"), part.at("description"))
    put((*keys, "path"), database.path, database.path_keys)
    put((*keys, "base"), "working-directory", database.path_keys)
    put((*keys, "tool"), f"sqlite_{name}_query", part.at("name"))
    put((*keys, "access"), database.access, database.access_keys)
    if database.access is None:
        boxes.unavailable(keys, database.access_keys, database.reason)
    boxes.common(part)


def _database(part: Part) -> _Database | None:
    """From either form. None: what is wrong has been told."""
    if part.value("versioning") is None and (part.value("path") is not None or part.value("access") is not None):
        return _older(part)
    for name in ("path", "access"):
        if part.value(name) is not None:
            part.warn(name, f"{part.spelled('versioning')} says it; read past")
    value = None if part.lacks("versioning") else part.mapping("versioning")
    if value is None:
        return None
    inner = Part(part.notes, part.at("versioning"), value, ("tag", "path", "basePath", "shared", "storageRoot"))
    tag = inner.choice("tag", tuple(_VERSIONING))
    path_key = "basePath" if tag == "SqliteVersioned" else "path"
    path = inner.path(path_key)
    if tag is None or path is None:
        return None
    return _Database(path, inner.at(path_key), _VERSIONING[tag], inner.at("tag"), _NO_VERSIONS)


def _older(part: Part) -> _Database | None:
    path, access = part.path("path"), part.choice("access", tuple(_OLDER))
    if path is None or access is None:
        return None
    return _Database(path, part.at("path"), _OLDER[access], part.at("access"), _NO_SNAPSHOT)
