"""TOML with places. The values come from the standard parser, which tells no places; a scanner finds the keys."""

from __future__ import annotations

import json
import re
import tomllib

from agentos.definitions.json_source import Read
from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Keys, Lines, Place, Refused, too_deep, too_many

# A string that nobody closes goes on to the end of its line, or of the text: no text is looked at twice.
_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<long>\"{3}(?:[^"\\]|\\.|"(?!""))*(?:"{3,5}|\\?\Z) | '{3}(?:[^']|'(?!''))*(?:'{3,5}|\Z))
    | (?P<text>"[^"\\\n]*(?:\\.[^"\\\n]*)*"? | '[^'\n]*'?)
    | (?P<line>\n)
    | (?P<mark>[\[\]{}=,.])
    | (?P<plain>[^\s\[\]{}=,.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)


def read_toml_text(text: str, limits: FileLimits) -> Read:
    """Raises Refused."""
    scanner = _Scanner(Lines(text), limits)
    for match in _TOKEN.finditer(text):
        scanner.take(match)
    try:
        return tomllib.loads(text), scanner.places, []
    except tomllib.TOMLDecodeError as error:
        raise _refused(str(error), text) from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise Refused(Place(1, 1), str(error)) from error


def _refused(said: str, text: str) -> Refused:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", said)
    if found is None:
        return Refused(Place(1, 1), said)
    place = Place(int(found[1]), int(found[2])) if found[1] else Lines(text).place(len(text))
    return Refused(place, said[: found.start()] + ("" if found[1] else " (at end of document)"))


class _Scanner:
    """Goes once through the tokens of any text, and minds depth and size before the parser recurses into it.

    An open list or inline table is its keys, and the position of the present item, None in a table.
    """

    def __init__(self, lines: Lines, limits: FileLimits) -> None:
        self.places: dict[Keys, Place] = {(): Place(1, 1)}
        self._lines, self._limits = lines, limits
        self._table: Keys = ()
        self._tables: dict[Keys, int] = {}  # of a list of tables, the position of the last
        self._open: list[tuple[Keys, int | None]] = []
        self._parts: list[tuple[str, int]] = []
        self._header = 0  # brackets before the name of a table
        self._value: Keys | None = None  # what stands before the present value's equals sign

    def take(self, match: re.Match[str]) -> None:
        kind, token, position = match.lastgroup, match[0], match.start()
        if kind == "line":
            if not self._open:
                self._parts, self._header, self._value = [], 0, None
        elif kind == "mark":
            self._mark(token, position)
        elif kind != "comment":
            self._word(token, position, quoted=kind == "text")

    def _mark(self, mark: str, position: int) -> None:
        if mark == "[" and self._value is None and not self._open:
            self._header += 1
        elif mark == "]" and self._header:
            self._end_header()
        elif mark == "=":
            if self._value is None:
                self._begin_value()
        elif mark in "[{":
            self._enter(mark, position)
        elif mark in "]}" and self._open:
            self._value = self._open.pop()[0]
        elif mark == "," and self._open:
            keys, item = self._open[-1]
            self._open[-1] = (keys, None if item is None else item + 1)
            self._value, self._parts = (None if item is None else keys), []

    def _word(self, token: str, position: int, *, quoted: bool) -> None:
        if self._value is None:
            self._parts.append((_bare(token) if quoted else token, position))
            if len(self._parts) > self._limits.file_depth_max:
                raise too_deep(self._lines.place(position), self._limits.file_depth_max)
        else:
            self._item(position)

    def _begin_value(self) -> None:
        inline = self._open[-1][0] if self._open else None
        if inline is not None and self._open[-1][1] is not None:
            return  # an equals sign in a list: the parser will tell
        self._value = self._name(self._table if inline is None else inline)

    def _end_header(self) -> None:
        keys: Keys = ()
        for name, position in self._parts:
            keys = (*keys, name)
            self._put(keys, position)
            if (name, position) != self._parts[-1] and keys in self._tables:
                keys = (*keys, self._tables[keys])
        if self._header > 1 and self._parts:
            self._tables[keys] = self._tables.get(keys, -1) + 1
            keys = (*keys, self._tables[keys])
            self._put(keys, self._parts[0][1])
        elif keys in self._tables:
            keys = (*keys, self._tables[keys])
        self._table, self._parts, self._header, self._value = keys, [], 0, ()

    def _name(self, base: Keys) -> Keys:
        keys = base
        for name, position in self._parts:
            keys = (*keys, name)
            self._put(keys, position)
        self._parts = []
        return keys

    def _enter(self, mark: str, position: int) -> None:
        keys = self._item(position)
        self._open.append((keys, 0 if mark == "[" else None))
        self._value, self._parts = (keys if mark == "[" else None), []
        if len(self._open) > self._limits.file_depth_max:
            raise too_deep(self._lines.place(position), self._limits.file_depth_max)

    def _item(self, position: int) -> Keys:
        """The keys of the value that stands here; an item of a list gets its place."""
        keys, item = self._open[-1] if self._open else (self._value or (), None)
        if item is None:
            return self._value or keys
        self._put((*keys, item), position)
        return (*keys, item)

    def _put(self, keys: Keys, position: int) -> None:
        self.places.setdefault(keys, self._lines.place(position))
        if len(self.places) > self._limits.file_values_max:
            raise too_many(self._lines.place(position), self._limits.file_values_max)


def _bare(token: str) -> str:
    """A quoted key as the parser will name it; one that the parser will refuse stays as it is."""
    if token.startswith('"'):
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            return token
    return token.strip("'")
