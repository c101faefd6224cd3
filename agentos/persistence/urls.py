"""From the URL of a store to its adapter, which is imported only then."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from agentos.errors import ConfigurationError
from agentos.persistence.base import Durability, Store
from agentos.secrets import without_password
from agentos.settings import Settings

FORMS = (
    "memory:",
    "sqlite:///FILE (a path below the current folder)",
    "sqlite:////FILE (a path from the root)",
    "sqlite:///FILE?durability=full|normal|relaxed",
    "file:FOLDER (below the current folder; file:/FOLDER from the root), with ?durability=full|normal|relaxed",
    "postgresql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?schema=NAME&durability=full|normal|relaxed]",
)


def open_store(url: str, settings: Settings | None = None) -> Store:
    """The store at this URL, not opened yet. Raises ConfigurationError."""
    if url == "memory:":
        from agentos.persistence.memory import MemoryStore

        return MemoryStore(settings=settings)
    if url.startswith("sqlite:"):
        return _sqlite(url, settings)
    if url.startswith("file:"):
        return _file(url, settings)
    if url.startswith(("postgresql:", "postgres:")):
        from agentos.persistence.postgresql import PostgreSQLStore

        return PostgreSQLStore(url, settings=settings)
    raise _unknown(url, "no such kind of store")


def _sqlite(url: str, settings: Settings | None) -> Store:
    from agentos.persistence.sqlite import IN_MEMORY, SQLiteStore

    place, _, options = url.partition("?")
    if place in ("sqlite:", "sqlite://", "sqlite:///"):
        raise _unknown(url, "the file is missing")
    if not place.startswith("sqlite:///"):
        raise _unknown(url, "three slashes come before the file")
    path = unquote(place.removeprefix("sqlite:///"))
    return SQLiteStore(path or IN_MEMORY, durability=_durability(url, options), settings=settings)


def _file(url: str, settings: Settings | None) -> Store:
    from agentos.persistence.file import FileStore

    place, _, options = url.partition("?")
    path = unquote(place.removeprefix("file:"))
    if path.startswith("//"):
        host, _, rest = path[2:].partition("/")
        if host:
            raise _unknown(url, f"a folder of another host ({host}); one of this host has one slash or three")
        path = f"/{rest}"
    if path in ("", "/"):
        raise _unknown(url, "the folder is missing")
    return FileStore(path, durability=_durability(url, options, Durability.FULL), settings=settings)


def _durability(url: str, options: str, usual: Durability = Durability.NORMAL) -> Durability:
    given = dict(parse_qsl(options, keep_blank_values=True))
    name = given.pop("durability", usual.value)
    if given:
        raise _unknown(url, f"no option {', '.join(map(repr, given))}; there is durability")
    try:
        return Durability(name)
    except ValueError as error:
        known = ", ".join(durability.value for durability in Durability)
        raise _unknown(url, f"no durability {name!r}; there are {known}") from error


def _unknown(url: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"store {without_password(url)!r}: {reason}. Known forms: {'; '.join(FORMS)}")
