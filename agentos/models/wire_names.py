"""Names of tools as a provider accepts them, and the way back, for one request."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

NAME_CHARS_MAX = 64
_VALID = re.compile(rf"[a-zA-Z0-9_-]{{1,{NAME_CHARS_MAX}}}")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARS = 8


class WireNames:
    """A mapping in both directions. A name that is valid already stays as it is, whatever else there is."""

    def __init__(self, names: Iterable[str]) -> None:
        own = list(dict.fromkeys(names))
        self._to_wire = {name: name for name in own if _VALID.fullmatch(name)}
        others = [name for name in own if name not in self._to_wire]
        taken = Counter([*self._to_wire, *map(_cleaned, others)])
        for name in others:
            cleaned = _cleaned(name)
            self._to_wire[name] = cleaned if taken[cleaned] == 1 else self._marked(name, cleaned)
        self._to_own = {wire: name for name, wire in self._to_wire.items()}

    def to_wire(self, name: str) -> str:
        return self._to_wire[name]

    def to_own(self, name: str) -> str:
        """What the model asks for; a name that was not offered stays as the model wrote it."""
        return self._to_own.get(name, name)

    def __contains__(self, wire: str) -> bool:
        return wire in self._to_own

    def _marked(self, name: str, cleaned: str) -> str:
        """Two names that are cleaned to the same are told apart by a digest of each; which one, no order decides."""
        taken = set(self._to_wire.values())
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        for start in range(len(digest) - _MARK_CHARS):
            mark = digest[start : start + _MARK_CHARS]
            wire = f"{cleaned[: NAME_CHARS_MAX - _MARK_CHARS - 1]}_{mark}"
            if wire not in taken:
                return wire
        raise AssertionError("a digest holds a part that is not taken")


def _cleaned(name: str) -> str:
    return _OTHER.sub("_", name[:NAME_CHARS_MAX]) or "_"
