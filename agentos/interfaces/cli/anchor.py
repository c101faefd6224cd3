"""anchor: where every log ends now, appended to a file that is kept apart from the store."""

from __future__ import annotations

from pathlib import Path

from agentos.definitions import load_project
from agentos.definitions.location import place_of
from agentos.history import Anchored, AnchorKey, anchor_store
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.interfaces.cli.workplace import Selection
from agentos.kernel.reading import reading
from agentos.secrets import KeyFiles, check_reference, resolve_secret


async def anchor(file: Path, /, *, key: str | None = None, json: Flag = False, here: Here) -> int:
    """Append where every log of the store ends now to a file: 'agentos verify --anchor' then knows when one is cut off,
    deleted, put back or made anew.

    Keep the file apart from the store, where whoever writes to the store cannot write. Each anchor names what moved since the
    one before, and is chained to it. With a key, each proves all lines up to its own; whoever has not the key cannot make
    another file. A store that does not go on from the anchors that are there is refused with exit code 1.

    Parameters
    ----------
    file
        the file; it is made when it is not there, for its owner alone
    key
        a secret of 32 characters or more, as env:NAME, file:PATH, command:PROGRAM or key:ID; another one may follow later
    json
        print one JSON object
    """
    proven_by = anchor_key(key) if key is not None else None
    url = here.store_url()
    async with reading(url) as store:
        anchored = await anchor_store(store.store, file, key=proven_by)
    if json:
        put_json(_object(anchored, file))
    else:
        _put(anchored, file)
    if _beside(file, url):
        say(
            f"{file} lies beside the store: whoever can write there can change both; keep it, or copies of it, elsewhere"
        )
    return Exit.OK


def anchor_key(reference: str) -> AnchorKey:
    """The key behind a reference. Raises ConfigurationError, which never shows the key."""
    keys = KeyFiles(Selection().keys(load_project(Path.cwd()))).with_defaults()
    return AnchorKey(resolve_secret(check_reference(reference, "--key"), base=Path.cwd(), keys=keys))


def _put(anchored: Anchored, file: Path) -> None:
    found = anchored.anchor
    what = f"{found.entries:,} entries in {counted(found.logs, 'log')}, {counted(anchored.moved, 'head')} moved"
    put(f"{found} in {file}: {what}")
    put(f"digest: {anchored.digest}")
    put(
        f"proven by key {found.key_id}"
        if found.key_id is not None
        else "no key: whoever can write the file can make another one"
    )
    if anchored.cut:
        say(f"the file ended in {anchored.cut} bytes of an anchor that was never complete; they were taken away")


def _object(anchored: Anchored, file: Path) -> dict[str, object]:
    found = anchored.anchor
    return {
        "file": str(file),
        "n": found.n,
        "at_us": found.at,
        "schema": found.schema,
        "logs": found.logs,
        "entries": found.entries,
        "heads": found.heads,
        "writer": found.writer,
        "moved": anchored.moved,
        "digest": anchored.digest,
        "key_id": found.key_id,
        "cut": anchored.cut,
    }


def _beside(file: Path, url: str) -> bool:
    """Whether the file lies in the folder of the store, or below it."""
    place = place_of(url)
    if place is None:
        return False
    folder = place if place.is_dir() else place.parent
    return file.resolve().is_relative_to(folder.resolve())
