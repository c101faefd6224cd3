"""The native form that an agents-exe file becomes: values, each with the place that it comes from."""

from __future__ import annotations

import re
from typing import Any

from agentos.definitions.source import Keys, Place, Source

BOX_NAME_CHARS_MAX = 60
_NO_NAME = re.compile(r"[^A-Za-z0-9_.:/@+-]+")


class Draft:
    """The native form in the making."""

    def __init__(self, source: Source) -> None:
        self.value: dict[str, Any] = {}
        self.places: dict[Keys, Place] = {}
        self._source = source

    def put(self, keys: Keys, value: Any, origin: Keys) -> None:
        """Sets a value; None sets nothing. origin is where it, and what is within it, stands in the file."""
        if value is not None:
            self._owner(keys, origin)[keys[-1]] = value
            self._place(keys, value, origin)

    def add(self, keys: Keys, value: Any, origin: Keys) -> Keys:
        """Puts a value at the end of a list. Tells the way to it."""
        items = self._owner(keys, origin).setdefault(keys[-1], [])
        items.append(value)
        self.places.setdefault(keys, self._source.place(origin))
        way = (*keys, len(items) - 1)
        self._place(way, value, origin)
        return way

    def _owner(self, keys: Keys, origin: Keys) -> Any:
        """What a value is put into; mappings on the way to it are made."""
        owner: Any = self.value
        for end, key in enumerate(keys[:-1], 1):
            self.places.setdefault(keys[:end], self._source.place(origin))
            owner = owner.setdefault(key, {}) if isinstance(owner, dict) else owner[key]
        return owner

    def _place(self, keys: Keys, value: Any, origin: Keys) -> None:
        self.places[keys] = self._source.place(origin)
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in inner:
            self._place((*keys, key), item, (*origin, key))


class BoxNames:
    """Names for the toolboxes of one agent, each given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, wanted: str) -> str:
        """The name itself where it is one that a toolbox may have and that is free, else one near to it."""
        plain = _NO_NAME.sub("-", wanted).strip("-/") or "toolbox"
        name = plain[-BOX_NAME_CHARS_MAX:]
        number = 1
        while name in self._taken:
            number += 1
            name = f"{plain[-BOX_NAME_CHARS_MAX:]}-{number}"
        self._taken.add(name)
        return name
