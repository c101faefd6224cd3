"""Where the search index of a store lies, and whose turn it is to bring it up to date."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

SUFFIX = ".search"
IN_FOLDER = "search.index"
LOCK_SUFFIX = ".lock"
DIGEST_DIGITS = 32
"""How much of the digest of a database's address names its index."""
LOOK_S = 0.02
"""How often somebody who waits for the lock asks for it."""


def index_beside(url: str) -> Path | None:
    """The file of the index: beside the file of a store, whatever links lead to it, in its folder, or for PostgreSQL in this
    user's cache folder, by a digest of host, database and schema. None for a store in memory. The URL may have a password
    or not."""
    place = url.partition("?")[0]
    if url.startswith(("postgresql:", "postgres:")):
        import platformdirs

        return platformdirs.user_cache_path("agentos") / f"{database_digest(url)}{SUFFIX}"
    if place.startswith("sqlite:///"):
        path = unquote(place.removeprefix("sqlite:///"))
        return None if path in ("", ":memory:") else Path(f"{os.path.realpath(path)}{SUFFIX}")
    if place.startswith("file:"):
        path = unquote(place.removeprefix("file:"))
        return Path(f"/{path.lstrip('/')}" if path.startswith("/") else path) / IN_FOLDER
    return None


def database_digest(url: str) -> str:
    """Options that change neither what is stored nor where, and the account, are left out."""
    from agentos.persistence.postgresql.address import Address

    address = Address(url)
    parts = urlsplit(address.url)
    hosts = parts.netloc.rpartition("@")[2]
    options = parse_qs(parts.query)
    named = [hosts, *options.get("host", ()), *options.get("port", ()), address.database, address.schema]
    return hashlib.sha256("\n".join(named).encode()).hexdigest()[:DIGEST_DIGITS]


@contextmanager
def turn_at(path: Path | None, wait_s: float = 0.0) -> Iterator[bool]:
    """Whether this process alone may bring the index at a path up to date, for the length of the block.

    An index in memory (None) is one process's own. Raises OSError where no file can be made.
    """
    if path is None:
        yield True
        return
    descriptor = _locked(Path(f"{path}{LOCK_SUFFIX}"), time.monotonic() + wait_s)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            Path(f"{path}{LOCK_SUFFIX}").unlink(missing_ok=True)
            os.close(descriptor)


def _locked(lock: Path, until: float) -> int | None:
    """A descriptor that holds the lock; None when another process holds it for too long."""
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() >= until:
                return None
            time.sleep(LOOK_S)
            continue
        if _is_there(lock, descriptor):
            return descriptor
        os.close(descriptor)  # whoever held it took it away


def _is_there(lock: Path, descriptor: int) -> bool:
    """Whether the file that was locked is still the one of this name."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(descriptor))
    except FileNotFoundError:
        return False
