"""import: takes what comes from elsewhere into the store. What a file is, its first bytes tell."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter

from agentos.errors import AgentosError, ConfigurationError
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.arrival import import_bundle
from agentos.history.sessions import Imported, import_session, read_session
from agentos.interfaces.cli.arrived import put_arrived
from agentos.interfaces.cli.errors import Exit, UsageError, code_of, sentence
from agentos.interfaces.cli.invocation import Flag, Here, Invocation
from agentos.interfaces.cli.output import counted, put_done, put_json, say, say_error
from agentos.kernel.reading import reading

BEGIN_BYTES = 512
"""How much of a file is looked at to tell what it is."""


async def import_(
    *files: Path,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    dry_run: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Take bundles of 'agentos export', and sessions of agents-exe, into the store: as conversations like any other.

    All of a file is taken, or nothing, and a file that is refused keeps no other back; the exit code is then that of the
    first one refused. What is there already is not taken twice. Nothing runs by it: a conversation goes on with
    'agentos run ID -p ...' where there is an agent of its name.

    A bundle is verified first. Its agents and toolboxes are not installed. A conversation of it with work left to do is
    paused until 'agentos unpause ID'; nobody goes on with it before.

    Parameters
    ----------
    files
        bundles and session files
    agent
        of a session, the slug of the agent whose conversation it becomes; by default a name made from the session, which no
        agent has
    dry_run
        of a bundle, tell what would be stored in a store that exists, and store nothing
    json
        print one JSON object
    """
    if not files:
        raise UsageError("name the files to import")
    told: list[dict[str, Any]] = []
    worst: int = Exit.OK
    for file in files:
        try:
            told.append(await _import_one(file, _Asked(agent, dry_run, json), here))
        except (AgentosError, OSError) as error:
            worst = worst or code_of(error)
            told.append({"file": str(file), "error": sentence(error)})
            if not json:
                say_error(_with_name(file, sentence(error)))
    if json:
        put_json({"files": told})
    return worst


class _Asked(NamedTuple):
    """What the flags say."""

    agent: str | None
    dry_run: bool
    json: bool


async def _import_one(file: Path, asked: _Asked, here: Invocation) -> dict[str, Any]:
    _check_regular(file)
    with file.open("rb") as opened:
        begin = opened.read(BEGIN_BYTES)
    for fits, take in KINDS:
        if fits(begin):
            return await take(file, asked, here)
    raise ConfigurationError(
        f"{file}: neither a bundle nor a session of agents-exe, nor anything else that can be imported"
    )


def _check_regular(file: Path) -> None:
    """It is read twice, and a pipe gives what it has once. Raises ConfigurationError."""
    if file.exists() and not file.is_file():
        raise ConfigurationError(f"{file}: it is no regular file; save what is to be imported as one")


def _is_bundle(begin: bytes) -> bool:
    """A ZIP; whether it is a bundle tells who reads it."""
    return begin.startswith(b"PK")


async def _bundle(file: Path, asked: _Asked, here: Invocation) -> dict[str, Any]:
    if asked.agent is not None:
        raise ConfigurationError(f"{file}: a bundle says whose its conversations are; leave --agent out")
    with BundleReader(file) as bundle:
        async with reading(here.store_url()) as store:
            arrived = await import_bundle(store.store, bundle, dry_run=asked.dry_run)
    if not asked.json:
        put_arrived(str(file), arrived, dry_run=asked.dry_run)
    return {"file": str(file), "kind": "bundle", "dry_run": asked.dry_run, **msgspec.to_builtins(arrived)}


def _is_json(begin: bytes) -> bool:
    """Also an empty file, and one of blanks: a session that was cut off is told as one."""
    return begin.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"", b"{", b"[")


async def _session(file: Path, asked: _Asked, here: Invocation) -> dict[str, Any]:
    if asked.dry_run:
        raise UsageError(f"{file}: --dry-run is for bundles; 'agentos session print' shows a session")
    session = read_session(file)
    async with reading(here.store_url()) as store:
        writer = await store.store.open(uuid.uuid4().hex)
        imported = await import_session(store.store, writer, session, asked.agent)
    if not asked.json:
        _put(file, imported)
    return {"file": str(file), "kind": "session", "session": session.id, **msgspec.to_builtins(imported)}


def _put(file: Path, imported: Imported) -> None:
    into = f"{imported.conversation} of agent {imported.agent}"
    if not imported.new:
        put_done(f"{file}: is there already, as {into}; nothing was written")
        return
    counts = f"{counted(imported.turns, 'turn')}, {counted(imported.messages, 'message')}"
    put_done(f"{file}: {into}: {counts}, {imported.entries} entries")
    for note in imported.notes:
        say(f"{file}: note: {note}")


def _with_name(file: Path, text: str) -> str:
    return text if text.startswith(str(file)) else f"{file}: {text}"


Take = Callable[..., Awaitable[dict[str, Any]]]

KINDS: tuple[tuple[Callable[[bytes], bool], Take], ...] = ((_is_bundle, _bundle), (_is_json, _session))
"""What can be imported: whether a file begins like one, and how it is taken. The first that fits counts."""
