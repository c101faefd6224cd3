"""Where a torture run takes place: an empty store and a file of effects beside it, both gone when it is over."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from agentos.errors import ConfigurationError
from agentos.persistence import open_store
from agentos.testing.forked import Forked, Tell
from agentos.testing.postgres import PostgresServer

STORES = ("sqlite", "file", "postgresql")
"""Those that outlast a process."""
PATIENCE_S = 60.0


class Place(msgspec.Struct, frozen=True):
    """A store by its URL; server is the one that it lies on, when this process has started it."""

    name: str
    url: str
    effects: Path
    server: PostgresServer | None = None


@contextmanager
def place_of(store: str) -> Iterator[Place]:
    """One of STORES, made for the purpose, or a store by its URL, which stays and has to be empty.

    Errors: ConfigurationError for a URL that does not fit, or a store that is not empty; those of PostgresServer.
    """
    with tempfile.TemporaryDirectory(prefix="agentos-torture-") as name:
        folder = Path(name)
        effects = folder / "effects.log"
        if store == "postgresql":
            with PostgresServer() as server:
                yield Place(store, server.new_schema_url(), effects, server)
        elif store in STORES:
            url = f"sqlite:///{folder / 'torture.db'}" if store == "sqlite" else f"file:{folder / 'torture'}"
            yield Place(store, url, effects)
        else:
            _check_empty(store)
            yield Place(store.partition(":")[0], store, effects)


def _check_empty(url: str) -> None:
    """In a process of its own: one that has had a store open is not forked any more."""
    if url.partition(":")[0] not in {*STORES, "postgres"}:
        raise ConfigurationError(f"no store that outlasts a process: name {', '.join(STORES)}, all, or a URL of these")
    with Forked(lambda tell: asyncio.run(_count_logs(url, tell))) as child:
        said = list(child.lines(PATIENCE_S))
    if child.status or not said:
        raise ConfigurationError("the store could not be opened; the error stands above")
    if said != ["0"]:
        raise ConfigurationError(f"the store has {said[0]} logs; kernels are killed in an empty one alone")


async def _count_logs(url: str, tell: Tell) -> None:
    store = open_store(url)
    await store.open("torture")
    try:
        tell(str(len(await store.logs())))
    finally:
        await store.close()
