"""Logs of administration: what was installed and removed, one entry each, without a pass."""

from __future__ import annotations

from agentos import codec
from agentos.components import AgentConfig, AgentState, Component
from agentos.events.entry import Draft, Entry, Registry, seed_digest
from agentos.events.kinds import EntryData
from agentos.ids import CONVERSATION, Digest, Kind, LogId, SaltSource
from agentos.journal import Head, decode_units, seal_drafts
from agentos.kernel.catalog import Installed
from agentos.kernel.tick import Ticker
from agentos.persistence.base import LogRow, Store

Definition = tuple[str, str, str]
"""digest, kind and body: a row of `definitions`."""


class Administration:
    """Writes to the logs of agents."""

    def __init__(self, store: Store, ticker: Ticker, registry: Registry, salts: SaltSource) -> None:
        self._store, self._ticker, self._registry, self._salts = store, ticker, registry, salts

    async def record(
        self,
        log: LogId,
        kind: Kind,
        data: EntryData,
        components: tuple[Component, ...],
        definitions: tuple[Definition, ...] = (),
    ) -> None:
        """Adds the entry, unless the last one says the same or another living process keeps the log."""
        head = await self._head(log, kind)
        if head is None:
            return
        draft = Draft(data=data, changes=tuple((CONVERSATION, component) for component in components))
        last = await self._last(head)
        if last is not None and type(last.data) is type(data) and _definition(last) == _definition(draft):
            return
        row, ticker = head.row, self._ticker
        unit = seal_drafts([draft], head, row.seq + 1, ticker.now(), ticker.writer, self._salts)
        unit.components = [(log, value.component, codec.encode_struct(value).decode()) for value in components]
        unit.definitions = definitions
        await ticker.administer(unit)

    async def installed(self, log: LogId) -> Installed | None:
        """What the last entry of an agent's log says; None when there is none."""
        row = await self._store.log(log)
        last = await self._last(Head(row=row)) if row is not None else None
        if last is None:
            return None
        state = next((value for _, value in last.changes if isinstance(value, AgentState)), AgentState())
        return Installed(_definition(last), state.revision)

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


def _definition(draft: Draft) -> Digest | None:
    return next((value.definition for _, value in draft.changes if isinstance(value, AgentConfig)), None)
