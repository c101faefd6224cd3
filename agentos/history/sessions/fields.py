"""Reading fields of decoded JSON by their way, so that what does not fit is refused with its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from agentos.errors import SessionRefused


class Node:
    """A value of a session's file and the way to it; place names the file."""

    __slots__ = ("_place", "_way", "value")

    def __init__(self, value: Any, place: str, way: str = "") -> None:
        self.value, self._place, self._way = value, place, way

    def refuse(self, reason: str) -> NoReturn:
        raise SessionRefused(self._place, f"{self._way or 'the whole'}: {reason}")

    def object(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self.refuse(f"an object is needed here, not {_named(self.value)}")
        return self.value

    def has(self, key: str) -> bool:
        """Whether the object has the key, with a value that is not null."""
        return self.object().get(key) is not None

    def get(self, key: str) -> Node:
        """The value of a key, null where it is missing."""
        return Node(self.object().get(key), self._place, f"{self._way}.{key}" if self._way else key)

    def items(self) -> Iterator[Node]:
        """Of a list; none for null."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            self.refuse(f"a list is needed here, not {_named(self.value)}")
        for n, item in enumerate(self.value):
            yield Node(item, self._place, f"{self._way}[{n}]")

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.refuse(f"a text is needed here, not {_named(self.value)}")
        return self.value

    def text_or_none(self) -> str | None:
        return None if self.value is None else self.text()


def word(value: Any) -> str:
    """A text that may be there or not; whatever else stands in its place says nothing."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number that may be there or not."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def inside(value: Any, *keys: str | int) -> Any:
    """What stands at the end of the way, None where it breaks off."""
    for key in keys:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _named(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")
