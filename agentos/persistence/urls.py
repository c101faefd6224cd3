"""From the URL of a store to its adapter, which is imported only then."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from agentos.errors import ConfigurationError
from agentos.persistence.base import Store
from agentos.settings import Settings

if TYPE_CHECKING:
    from agentos.persistence.sqlite.file import Durability

FORMS = (
    "memory:",
    "sqlite:///FILE (a path below the current folder)",
    "sqlite:////FILE (a path from the root)",
    "sqlite:///FILE?durability=full|normal|relaxed",
)


def open_store(url: str, settings: Settings | None = None) -> Store:
    """The store at this URL, not opened yet. Raises ConfigurationError."""
    if url == "memory:":
        from agentos.persistence.memory import MemoryStore

        return MemoryStore(settings=settings)
    if url.startswith("sqlite:"):
        return _sqlite(url, settings)
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


def _durability(url: str, options: str) -> Durability:
    from agentos.persistence.sqlite.file import Durability

    given = dict(parse_qsl(options, keep_blank_values=True))
    name = given.pop("durability", Durability.NORMAL.value)
    if given:
        raise _unknown(url, f"no option {', '.join(map(repr, given))}; there is durability")
    try:
        return Durability(name)
    except ValueError as error:
        known = ", ".join(durability.value for durability in Durability)
        raise _unknown(url, f"no durability {name!r}; there are {known}") from error


def _unknown(url: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"store {url!r}: {reason}. Known forms: {'; '.join(FORMS)}")
