"""Logs of administration: what was installed, opened and removed, one entry each, without a pass."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from agentos import codec
from agentos.components import AgentConfig, AgentState, Component, ToolboxConfig
from agentos.errors import StoreUnavailable
from agentos.events.entry import Draft, Entry, Registry, seed_digest
from agentos.events.kinds import EntryData, SharesChanged
from agentos.ids import CONVERSATION, Digest, Kind, LogId, SaltSource
from agentos.journal import Head, decode_units, seal_drafts
from agentos.kernel.tick import Ticker
from agentos.persistence.base import LogRow, Store, Verdict

Definition = tuple[str, str, str]
"""digest, kind and body: a row of `definitions`."""


class Installed(msgspec.Struct, frozen=True):
    """The version that a log has in force, None when it was removed or closed, and the count of versions so far."""

    definition: Digest | None
    revision: int


class _Record(msgspec.Struct, frozen=True):
    """An entry to be, as it was when it was told."""

    log: LogId
    kind: Kind
    data: EntryData
    components: tuple[Component, ...]
    definitions: tuple[Definition, ...]


class Administration:
    """Writes to the logs of agents and toolboxes, one entry after the other, in the order in which it is told."""

    def __init__(self, store: Store, ticker: Ticker, registry: Registry, salts: SaltSource) -> None:
        self._store, self._ticker, self._registry, self._salts = store, ticker, registry, salts
        self._writing = asyncio.Lock()
        self._waiting: deque[_Record] = deque()

    def later(
        self,
        log: LogId,
        kind: Kind,
        data: EntryData,
        components: tuple[Component, ...],
        definitions: tuple[Definition, ...] = (),
    ) -> None:
        """An entry for the next `write`, which leaves it out when the last one says the same, or another living process
        keeps the log."""
        self._waiting.append(_Record(log, kind, data, components, definitions))

    async def write(self) -> None:
        """Writes what waits. Raises StoreUnavailable; what is not written waits on."""
        async with self._writing:
            while self._waiting:
                record = self._waiting[0]
                try:
                    await self._write(record)
                except StoreUnavailable:
                    raise
                except Exception:
                    self._drop(record)  # it would fail for ever, and hold up those behind it
                    raise
                self._drop(record)

    async def tell(self, log: LogId, kind: Kind, data: EntryData, component: Component) -> bool:
        """An entry of a log, now. False when another living process keeps the log. Raises StoreUnavailable."""
        async with self._writing:
            return await self._write(_Record(log, kind, data, (component,), ()))

    async def told(self, log: LogId) -> tuple[Component, ...]:
        """The components of the last entry of a log; none without one."""
        row = await self._store.log(log)
        last = await self._last(Head(row=row)) if row is not None else None
        return tuple(component for _, component in last.changes) if last is not None else ()

    def forget(self, log: LogId) -> None:
        """What waits for a log is not told any more."""
        self._waiting = deque(record for record in self._waiting if record.log != log)

    def _drop(self, record: _Record) -> None:
        if self._waiting and self._waiting[0] is record:
            self._waiting.popleft()

    async def _write(self, record: _Record) -> bool:
        """Whether the log says it now."""
        components = record.components
        draft = Draft(data=record.data, changes=tuple((CONVERSATION, component) for component in components))
        head = await self._head(record.log, record.kind)
        if head is None:
            return False
        if _says_the_same(await self._last(head), draft):
            return True
        row, ticker = head.row, self._ticker
        unit = seal_drafts([draft], head, row.seq + 1, ticker.now(), ticker.writer, self._salts)
        unit.components = [(record.log, value.component, codec.encode_struct(value).decode()) for value in components]
        unit.definitions = record.definitions
        return await ticker.administer(unit) is Verdict.STORED

    async def installed(self, log: LogId) -> Installed:
        """What the last entry of an agent's or a toolbox's log says."""
        row = await self._store.log(log)
        last = await self._last(Head(row=row)) if row is not None else None
        return Installed(None, 0) if last is None else Installed(_definition(last), _revision(last))

    async def _head(self, log: LogId, kind: Kind) -> Head | None:
        writer = self._ticker.writer
        row = await self._store.log(log)
        if row is None:
            new = LogRow(id=log, kind=kind.value, owner=writer, epoch=1, seq=0, digest=seed_digest(log))
            return Head(row=new, new=True)
        if row.owner != writer:
            row = await self._store.claim(log)
        return Head(row=row) if row is not None else None

    async def _last(self, head: Head) -> Entry | None:
        if head.new:
            return None
        stored = await self._store.entries(head.row.id, head.row.seq - 1)
        units = decode_units(head.row.id, stored, self._registry)
        return units[-1][-1] if units else None


def _says_the_same(last: Entry | None, draft: Draft) -> bool:
    """A version that is in force is not told again; nor is that something is gone."""
    if last is None:
        return False
    if isinstance(draft.data, SharesChanged):
        return last.changes == draft.changes
    definition = _definition(last)
    return definition == _definition(draft) and (definition is not None or type(last.data) is type(draft.data))


def _definition(draft: Draft) -> Digest | None:
    for _, value in draft.changes:
        if isinstance(value, AgentConfig):
            return value.definition
        if isinstance(value, ToolboxConfig):
            return None if value.closed else value.toolset
    return None


def _revision(draft: Draft) -> int:
    """An agent's entry that removes it holds its state alone."""
    return next((value.revision for _, value in draft.changes if isinstance(value, (AgentState, ToolboxConfig))), 1)
