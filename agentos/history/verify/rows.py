"""The rows that the log says should stand in the narrow tables, folded anew, and how those that stand there differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from agentos.events.entry import Draft, Entry, Head, Registry
from agentos.history.report import Finder, fingerprint
from agentos.history.verify.folding import Folding
from agentos.history.verify.tables import COLUMNS, Row
from agentos.history.verify.touching import Changed, changed_by
from agentos.ids import LogId
from agentos.journal import Projection, resolutions_of
from agentos.persistence.rows import SET_ONCE

Key = int | str | tuple[str, str]

_KEPT = {table: itemgetter(*map(COLUMNS[table].index, names)) for table, names in SET_ONCE.items()}
"""The columns that keep the value of the first row."""


class FoldedRows:
    """Folds the entries of one log into rows, unit by unit. Bodies are not looked at."""

    def __init__(self, log: LogId) -> None:
        self.log, self.folding = log, Folding(log)
        self.tables: dict[str, dict[Key, Row]] = {table: {} for table in COLUMNS}
        self._resolutions: dict[int, str] = {}

    def add(self, entries: Sequence[Entry], *, own: bool = True) -> None:
        """Takes the next unit. One that a fork shares with its parent is folded, but its rows are the parent's."""
        projection = self.folding.fold(entries)
        if own:
            self._take(projection, entries)

    def add_heads(self, heads: Sequence[Head], registry: Registry) -> Changed:
        """The same from the heads of a unit, and quicker. Gives what they changed. Raises CodecError."""
        changed = changed_by(self.log, heads, registry)
        self._take(self.folding.take(changed.touched, heads[0].at, changed.drafts), changed.drafts)
        return changed

    def _take(self, projection: Projection, drafts: Sequence[Draft]) -> None:
        if projection.conversation is not None:
            self._set("conversations", self.log, projection.conversation)
        for turn in projection.turns:
            self._set("turns", turn[0], turn)
        for call in projection.calls:
            self._set("calls", call[0], (*call, self._resolutions.get(call[0])))
        for seq, resolution in resolutions_of(drafts) if drafts else ():
            self._resolve(seq, resolution)
        for component in projection.components:
            self._set("components", component[:2], component)

    def _resolve(self, call: int, resolution: str) -> None:
        """The one column of a call's row that a unit sets by itself, also when the row is an older one."""
        self._resolutions[call] = resolution
        calls = self.tables["calls"]
        if call in calls:
            calls[call] = (*calls[call][:-1], resolution)

    def _set(self, table: str, key: Key, row: Row) -> None:
        rows = self.tables[table]
        before = rows.get(key)
        if before is not None and table in _KEPT and _KEPT[table](row) != _KEPT[table](before):
            kept = list(row)
            for name in SET_ONCE[table]:
                column = COLUMNS[table].index(name)
                kept[column] = before[column]
            row = tuple(kept)
        rows[key] = row


def compare_table(table: str, expected: Mapping[Key, Row], stored: Sequence[Row], finder: Finder) -> None:
    """Names every column that differs, and rows that are missing or too many."""
    names = COLUMNS[table]
    left = dict(expected)
    for row in stored:
        wanted = left.pop(_key(table, row), None)
        if wanted is None:
            finder.differ(_seq(table, row), table, "row", _name(table, row), None)
        elif row != wanted:
            for name, value, should_be in zip(names, row, wanted, strict=True):
                if value != should_be or type(value) is not type(should_be):
                    finder.differ(_seq(table, row), table, name, _shown(name, value), _shown(name, should_be))
    for row in left.values():
        finder.differ(_seq(table, row), table, "row", None, _name(table, row))


def compare_messages(expected: Mapping[int, tuple[str, int, int]], stored: Sequence[Row], finder: Finder) -> None:
    """Role, turn and call of each message; its text is checked with its commitment, and so is a missing row."""
    for seq, *found in stored:
        wanted = expected.get(seq)
        if wanted is None:
            finder.differ(seq, "messages", "row", found[0], None)
            continue
        if wanted == tuple(found):
            continue
        for name, value, should_be in zip(("role", "turn", "call"), found, wanted, strict=True):
            if value != should_be:
                finder.differ(seq, "messages", name, value, should_be)


def _key(table: str, row: Row) -> Any:
    return tuple(row[:2]) if table == "components" else row[0]


def _seq(table: str, row: Row) -> int:
    return row[0] if table in ("turns", "calls") else 0


def _name(table: str, row: Row) -> str:
    return f"{row[0]} {row[1]}" if table == "components" else f"that of {row[0]}"


def _shown(name: str, value: Any) -> Any:
    """Bodies stand as digests, whatever they hold."""
    return fingerprint(value) if name == "body" and isinstance(value, str) else value
