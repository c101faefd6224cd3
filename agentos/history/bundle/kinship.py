"""Whether the logs of a bundle hang together, and with the store, as kernels begin them: by a call that names its child.

A parent says which conversation a call began, and the child by which call; what came from elsewhere could say either by
itself. A child that no call began would answer for one, and go with its root when that is erased; a parent that names
somebody's conversation as its child could cancel it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentos.components import CallState
from agentos.errors import ImportRefused
from agentos.events.entry import decode_head
from agentos.events.kinds import CallStarted
from agentos.history.bundle.manifest import LogPart
from agentos.ids import Kind, log_and_seq
from agentos.persistence.base import Store, StoredEntry

Begun = Mapping[int, frozenset[str]]
"""The conversations that each call of a log began, by the seq of the call."""
FORKS_MAX = 64
"""Over how many forks a shared child is followed to the log whose call began it."""


class Kinship:
    """Asked of each log that is to be stored. entries gives those of a log of the bundle, shared ones included."""

    def __init__(self, store: Store, path: str, parts: Mapping[str, LogPart]) -> None:
        self._store, self._path, self._parts = store, path, parts
        self._begun: dict[str, Begun] = {}

    async def check(self, part: LogPart, entries: Sequence[StoredEntry]) -> None:
        """Raises ImportRefused, which names the log and the one that does not know it; StoreError."""
        self._begun[part.id] = begun_in(entries)
        if part.forked_from is not None or part.parent_call is None:
            self._check_own_root(part)
        else:
            await self._check_parent(part, part.parent_call)
        for child in sorted(frozenset[str]().union(*self._begun[part.id].values())):
            await self._check_child(part, child)

    def _check_own_root(self, part: LogPart) -> None:
        if part.root != part.id:
            raise ImportRefused(
                self._path, f"{part.id}: no call began it, and yet it says that its root is {part.root}"
            )

    async def _check_parent(self, part: LogPart, parent_call: str) -> None:
        parent, seq = log_and_seq(parent_call)
        root = await self._root_of(parent)
        if root is None:
            if part.root is not None and (part.root == part.id or await self._root_of(part.root) is not None):
                raise ImportRefused(
                    self._path,
                    f"{part.id} hangs below {part.root} by {parent}, which is neither in it nor in the store",
                )
            return
        if root != part.root:
            raise ImportRefused(self._path, f"{part.id} says that its root is {part.root}; that of {parent} is {root}")
        if not await self._began(parent, seq, part.id):
            raise ImportRefused(
                self._path, f"{part.id} says that {parent_call} began it, of which {parent} knows nothing"
            )

    async def _began(self, parent: str, call: int, child: str) -> bool:
        """Of a parent that the bundle has only a part of, the entry may stand behind it; unless the store has the parent."""
        if child in self._begun.get(parent, {}).get(call, ()):
            return True
        if await self._store.log(parent) is None:
            return parent in self._parts and self._parts[parent].prefix
        entries = await self._store.entries(parent, kinds=(CallStarted.kind,))
        return child in begun_in(entries).get(call, ())

    async def _check_child(self, part: LogPart, child: str) -> None:
        """A child that is known answers to this log, or to the one that had the call before this was forked from it."""
        call = await self._parent_call_of(child)
        if call is None:
            return
        parent, above = log_and_seq(call)[0] if call else "", part.id
        for _ in range(FORKS_MAX):
            if parent == above:
                return
            found = self._parts.get(above)
            if found is None or found.forked_from is None:
                break
            above = found.forked_from
        raise ImportRefused(self._path, f"{part.id} says that it began {child}, which answers to {parent or 'no call'}")

    async def _parent_call_of(self, log: str) -> str | None:
        """None for a log that is nowhere, empty for one that no call began."""
        if log in self._parts:
            return self._parts[log].parent_call or ""
        row = await self._store.log(log)
        return (row.parent_call or "") if row is not None else None

    async def _root_of(self, log: str) -> str | None:
        """None for a log that is nowhere."""
        if log in self._parts:
            return self._parts[log].root
        row = await self._store.log(log)
        return row.root or log if row is not None and row.kind == Kind.CONVERSATION.value else None


def begun_in(entries: Iterable[StoredEntry]) -> Begun:
    """Raises CodecError for a head that is none."""
    found: dict[int, set[str]] = {}
    for entry in entries:
        if entry.kind != CallStarted.kind:
            continue
        head = decode_head(entry.head)
        for call, name, state in head.changes:
            if name == CallState.component and isinstance(state, dict) and isinstance(state.get("child"), str):
                found.setdefault(call, set()).add(state["child"])
    return {call: frozenset(children) for call, children in found.items()}
