"""What there is to know of a store before anything of its content: kind, version, durability, size, who is at work in it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agentos.persistence.base import Durability, Store, WriterRow

_VERSION = "select version from store_version"
_SIZE = """
select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class
where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = cast('logs' as regclass))
"""
_CONVERSATIONS = "select count(*), count(case when open_turn > 0 then 1 end) from conversations"


class StoreFacts(msgspec.Struct, frozen=True, kw_only=True):
    """version is that of the schema, of a folder that of its format. bytes is what the store takes on its disk, None where
    nobody can tell; a server tells what it has counted last. open_turns counts conversations."""

    url: str
    kind: str
    version: int | None
    durability: str | None
    bytes: int | None
    alive: tuple[WriterRow, ...]
    conversations: int
    open_turns: int


async def store_facts(store: Store, place: Path | None) -> StoreFacts:
    """Reads a store that is there; place is its file or folder, where it has one. Raises StoreError, which for another
    version has both numbers."""
    kind = store.url.partition(":")[0]
    ((conversations, open_turns),) = (await store.query(_CONVERSATIONS)).rows
    durability = getattr(store, "durability", None)
    return StoreFacts(
        url=store.url,
        kind=kind,
        version=await _version(kind, store),
        durability=durability.value if isinstance(durability, Durability) else None,
        bytes=await _bytes(kind, store, place),
        alive=tuple(row for row in await store.writers() if row.alive),
        conversations=conversations,
        open_turns=open_turns,
    )


async def _version(kind: str, store: Store) -> int | None:
    """A file that can be read has the version of this program."""
    if kind == "postgresql":
        ((version,),) = (await store.query(_VERSION)).rows
        return int(version)
    if kind == "file":
        from agentos.persistence.file.folder import FORMAT_VERSION

        return FORMAT_VERSION
    if kind == "sqlite":
        from agentos.persistence.sqlite.file import SCHEMA_VERSION

        return SCHEMA_VERSION
    return None


async def _bytes(kind: str, store: Store, place: Path | None) -> int | None:
    if kind == "postgresql":
        ((size,),) = (await store.query(_SIZE)).rows
        return int(size)
    return _taken(place) if place is not None else None


def _taken(place: Path) -> int:
    """A folder with all in it, or a file with those that SQLite keeps beside it."""
    if place.is_dir():
        return sum(_size(Path(folder, name)) for folder, _, names in os.walk(place) for name in names)
    return sum(_size(Path(f"{place}{end}")) for end in ("", "-wal", "-shm"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # another process has removed it since
        return 0
