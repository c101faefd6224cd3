"""Where a project is, and where its store; for commands that only read a store, so without all that checks a file."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

from agentos.definitions.limits import LIMITS
from agentos.definitions.problem import Problem
from agentos.definitions.source import Refused, Source
from agentos.definitions.text import read_text
from agentos.definitions.toml_source import read_toml_text
from agentos.errors import ConfigurationError

PROJECT_FILE = "agentos.toml"
FOREIGN_PROJECT_FILE = "agents-exe.cfg.json"
PROJECT_FILES = (PROJECT_FILE, FOREIGN_PROJECT_FILE)
"""In one folder the first goes before the second."""

DEFAULT_STORE = "sqlite:///.agentos/agentos.db"
PATH_KINDS = ("sqlite:///", "file:")
"""What stands before the path of a store that has one; the others have none on this machine."""


def find_project(start: Path) -> Path | None:
    """The file of the project of a folder, looked for upward from there."""
    folder = start.absolute()
    candidates = (root / name for root in (folder, *folder.parents) for name in PROJECT_FILES)
    return next((path for path in candidates if os.path.isfile(path)), None)


def project_store(start: Path) -> str:
    """The URL of the store of the project around a folder, or the default one below the current folder.

    Errors: ConfigurationError for a file that cannot be read, or names no store.
    """
    path = find_project(start)
    if path is None:
        return DEFAULT_STORE
    if path.name == FOREIGN_PROJECT_FILE:
        return store_below(path.parent, DEFAULT_STORE)
    return store_below(path.parent, _store_of(path))


def store_below(root: Path, store: str) -> str:
    """A store whose path counts from the folder of the project, made whole: one store from every folder below."""
    for kind in PATH_KINDS:
        place = store.removeprefix(kind)
        if place != store and place and not place.startswith("/"):
            return f"{kind}{quote(str(root))}/{place}"
    return store


def place_of(store: str) -> Path | None:
    """The file or folder of a store, None for one that has none. A relative path counts from the current folder."""
    for kind in PATH_KINDS:
        place = store.partition("?")[0].removeprefix(kind)
        if store.startswith(kind) and place and place != ":memory:":
            return Path(unquote(f"/{place.lstrip('/')}" if place.startswith("//") else place))
    return None


def _store_of(path: Path) -> str:
    """What the file says of the store; the rest of it is left to those who use it."""
    try:
        text, _ = read_text(path, LIMITS)
        value, places, _ = read_toml_text(text, LIMITS)
    except Refused as refused:
        raise ConfigurationError(str(Problem(path, *refused.place, refused.text))) from refused
    store = value.get("store", DEFAULT_STORE)
    if isinstance(store, str) and store:
        return store
    raise ConfigurationError(
        str(Source(path, value, places).problem(("store",), "store: the URL of a store is needed"))
    )
