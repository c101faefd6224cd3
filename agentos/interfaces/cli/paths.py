"""paths and config: where things are, what holds, and who said so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentos.definitions import PROJECT_FILE, Project, load_all, load_project
from agentos.definitions.location import DEFAULT_STORE, place_of
from agentos.interfaces.cli.invocation import STORE_VARIABLE, Flag, Here, Invocation
from agentos.interfaces.cli.output import put_json, put_table
from agentos.interfaces.cli.workplace import BASE_URL_VARIABLE, KEYS_VARIABLE, LOG_VARIABLE, Selection
from agentos.secrets import default_key_files, without_password

VARIABLES = (STORE_VARIABLE, BASE_URL_VARIABLE, KEYS_VARIABLE, LOG_VARIABLE, "OPENAI_BASE_URL")
"""Variables whose values may be shown; that of a key is none of them."""


class Where(NamedTuple):
    """One place: what it is for, and whether anything is there."""

    what: str
    path: str
    there: bool


class Value(NamedTuple):
    """What holds for a key, and where it is said: a flag, a variable, FILE:LINE, or the default."""

    key: str
    value: Any
    origin: str


def paths(*, json: Flag = False, here: Here) -> None:
    """Print where the project, its agents, the store and the key files are, whether they exist or not.

    Parameters
    ----------
    json
        print one JSON object
    """
    found = list(places(here))
    if json:
        put_json({"paths": [place._asdict() for place in found]})
    else:
        put_table(Where._fields, [(place.what, place.path, "yes" if place.there else "no") for place in found])


def config(*, show_origin: Flag = False, json: Flag = False, here: Here) -> None:
    """Print every setting that holds here. A flag goes before a variable, that before the project's file, that before the
    default. References to secrets are shown as they are written, and their values nowhere.

    Parameters
    ----------
    show_origin
        also print where each is said
    json
        print one JSON object
    """
    found = list(values(here))
    if json:
        put_json({"values": [value._asdict() for value in found]})
        return
    columns = Value._fields if show_origin else Value._fields[:2]
    put_table(columns, [tuple(value)[: len(columns)] for value in found])


def places(here: Invocation) -> Iterator[Where]:
    """In the order in which a person would look."""
    project = load_project(Path.cwd())
    if project is None:
        yield _where("project", Path.cwd() / PROJECT_FILE)
    else:
        yield _where("project", project.path)
        for name in project.file.agents.directories:
            yield _where("agents", project.root / name)
        for spec in load_all(project, ()).agents.values():
            if spec.path is not None:
                yield _where(f"agent {spec.slug}", spec.path)
    yield _store(here)
    for path in (*Selection().keys(project), *default_key_files()):
        yield _where("keys", path)


def values(here: Invocation) -> Iterator[Value]:
    """What holds, key by key: the store first, then variables that are set, then what the project says and the defaults."""
    project = load_project(Path.cwd())
    yield _store_value(here, project)
    for name in VARIABLES:
        if name != STORE_VARIABLE and name in os.environ:
            yield Value(name, os.environ[name], "environment")
    for key, value, origin in project.origins() if project is not None else ():
        if key != "store":
            yield Value(key, value, origin)


def _store_value(here: Invocation, project: Project | None) -> Value:
    if here.store:
        return Value("store", without_password(here.store), "--store")
    if os.environ.get(STORE_VARIABLE):
        return Value("store", without_password(os.environ[STORE_VARIABLE]), f"environment {STORE_VARIABLE}")
    if project is None:
        return Value("store", DEFAULT_STORE, "default")
    origin = next(origin for key, _, origin in project.origins() if key == "store")
    return Value("store", without_password(project.store_url), origin)


def _store(here: Invocation) -> Where:
    """A path, or the URL of a store that has none on this machine; nobody is asked whether that one is there."""
    url = here.store_url()
    place = place_of(url)
    return _where("store", place) if place is not None else Where("store", without_password(url), False)


def _where(what: str, path: Path) -> Where:
    return Where(what, str(path), path.exists())
