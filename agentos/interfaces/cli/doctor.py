"""doctor: is everything here that agentos needs, and does the project hold together?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from agentos.definitions import AgentSpec, Project, load_all, load_project
from agentos.definitions.location import place_of
from agentos.errors import AgentosError, ConfigurationError
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag, Here, Invocation
from agentos.interfaces.cli.output import bold, counted, put, put_json
from agentos.interfaces.cli.workplace import Selection
from agentos.kernel.reading import reading
from agentos.kernel.store_facts import StoreFacts, store_facts
from agentos.secrets import KeyFiles, KeyUnknown, is_reference

SQLITE_MIN = (3, 35, 0)
"""RETURNING and the functions that the store's statements use."""
FREE_BYTES_MIN = 256 * 1024 * 1024
FILES_MIN = 256
"""Open files that a process should be allowed; scripts take three each."""

State = Literal["ok", "warning", "error"]


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    state: State
    text: str


async def doctor(*, json: Flag = False, here: Here) -> int:
    """Look at the machine, the store, the project, its keys and its agents; exit code 1 when something does not work.

    Nothing is written, no model is asked, and no script is run; 'agentos check' tries the tools.

    Parameters
    ----------
    json
        print one JSON object
    """
    findings = [finding async for finding in looked_at(here)]
    bad = any(finding.state == "error" for finding in findings)
    if json:
        put_json({"ok": not bad, "findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            put(f"{bold(finding.state, sys.stdout, _COLOURS[finding.state]):8} {finding.what}: {finding.text}")
    return Exit.FAILURE if bad else Exit.OK


_COLOURS = {"ok": "32", "warning": "33", "error": "31"}


async def looked_at(here: Invocation) -> AsyncIterator[Finding]:
    for finding in _machine():
        yield finding
    project: Project | None = None
    try:
        project = load_project(Path.cwd())
    except ConfigurationError as error:
        yield Finding("project", "error", str(error))
    else:
        yield _project(project)
    async for finding in _store(here):
        yield finding
    for finding in _agents(project):
        yield finding


def _machine() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.system()}")
    yield _package()
    text = f"{sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        yield Finding("sqlite", "error", f"{text}; {'.'.join(map(str, SQLITE_MIN))} or newer is needed")
    else:
        yield Finding("sqlite", "ok", text)
    encoding = sys.stdout.encoding or "none"
    plain = encoding.lower().replace("-", "") == "utf8"
    yield Finding("output", "ok" if plain else "warning", f"written as {encoding}")
    yield _open_files()


def _package() -> Finding:
    """Whether what this package needs is installed."""
    try:
        needed = [line for line in requires("agentos-kernel") or () if "extra ==" not in line]
    except PackageNotFoundError:
        return Finding("agentos", "warning", "this copy was not installed, so its version is not known")
    names = [found[0] for line in needed if (found := _NAME.match(line))]
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        return Finding("agentos", "error", f"missing packages: {', '.join(missing)}; install agentos-kernel again")
    return Finding("agentos", "ok", f"{version('agentos-kernel')} with {counted(len(names), 'package')}")


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _open_files() -> Finding:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_MIN:
        return Finding("open files", "warning", f"{soft} at most, under {FILES_MIN}; raise it with ulimit -n")
    return Finding("open files", "ok", f"{soft} at most")


def _project(project: Project | None) -> Finding:
    if project is None:
        return Finding("project", "warning", "none from here upward; 'agentos init' makes one")
    names = ", ".join(project.file.toolboxes) or "none"
    return Finding("project", "ok", f"{project.path}; toolboxes: {names}")


async def _store(here: Invocation) -> AsyncIterator[Finding]:
    try:
        url = here.store_url()
    except ConfigurationError:
        return  # told of the project already
    place = place_of(url)
    if place is not None:
        yield _space(place)
        if not place.exists():
            yield Finding("store", "ok", f"{url}, not made yet")
            return
    try:
        async with reading(url) as store:
            yield _content(await store_facts(store.store, place))
    except AgentosError as error:
        yield Finding("store", "error", str(error))


def _content(facts: StoreFacts) -> Finding:
    """Where it is, what it is, what is in it, and who is at work there."""
    what = "format" if facts.kind == "file" else "schema"
    said = [
        facts.url,
        facts.kind,
        f"{what} version {facts.version}",
        f"durability {facts.durability}",
        f"{facts.bytes / 2**20:.1f} MiB" if facts.bytes is not None else "",
        counted(facts.conversations, "conversation"),
        f"{facts.open_turns} with an open turn" if facts.open_turns else "",
        f"at work: {_writers(facts)}" if facts.alive else "nobody at work",
    ]
    return Finding("store", "ok", ", ".join(part for part in said if part))


def _writers(facts: StoreFacts) -> str:
    return ", ".join(f"writer {row.n} (pid {row.pid} on {row.host})" for row in facts.alive)


def _space(path: Path) -> Finding:
    folder = next(folder for folder in (path.absolute().parent, *path.absolute().parents) if folder.is_dir())
    if not os.access(folder, os.W_OK):
        return Finding("disk", "error", f"{folder} cannot be written to")
    free = shutil.disk_usage(folder).free
    state: State = "ok" if free >= FREE_BYTES_MIN else "warning"
    return Finding("disk", state, f"{free / 2**30:.1f} GiB free at {folder}")


def _agents(project: Project | None) -> Iterator[Finding]:
    loaded = load_all(project, ())
    for problem in loaded.errors:
        yield Finding("agents", "error", str(problem))
    if project is not None and not loaded.errors:
        warnings = f", {counted(len(loaded.warnings), 'warning')}" if loaded.warnings else ""
        yield Finding("agents", "ok", f"{counted(len(loaded.agents), 'agent')}{warnings}; 'agentos check' tells more")
    keys = KeyFiles(Selection().keys(project)).with_defaults()
    for slug, spec in sorted(loaded.agents.items()):
        yield from _keys(slug, spec, keys)


def _keys(slug: str, spec: AgentSpec, keys: KeyFiles) -> Iterator[Finding]:
    """Whether the keys that a model names are there; programs that print one are not run."""
    reference = spec.model_ref.options.get("api_key")
    if spec.model_ref.kind == "openai" and reference is None:
        reference = "env:OPENAI_API_KEY"
    if not isinstance(reference, str) or not is_reference(reference):
        return
    kind, _, name = reference.partition(":")
    what = f"key of {slug}"
    if kind == "key":
        try:
            keys.find(name)
        except KeyUnknown as error:
            yield Finding(what, "warning", str(error))
            return
        except ConfigurationError as error:
            yield Finding(what, "error", str(error))
            return
    elif kind == "env" and name not in os.environ:
        yield Finding(what, "warning", f"{reference}: the environment has no variable {name}")
        return
    yield Finding(what, "ok", f"{reference}{' (not run)' if kind == 'command' else ''}")
