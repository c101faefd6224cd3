"""A log as it is stored, read for this kernel: apart from the World, and with the context of its open turn at hand."""

from __future__ import annotations

from agentos.components import ConversationState, TurnConfig
from agentos.errors import StoreDamaged
from agentos.events.entry import Registry
from agentos.ids import CONVERSATION, Digest, LogId
from agentos.journal import Folded, load_log
from agentos.kernel.catalog import Catalog
from agentos.persistence.base import LogRow, Store


class StoredLogs:
    """Reads logs, and has the catalog learn what they pin."""

    def __init__(self, store: Store, catalog: Catalog, registry: Registry) -> None:
        self._store, self._catalog, self._registry = store, catalog, registry

    async def read(self, log: LogId) -> Folded:
        """The log apart from the World, with the context of an open turn at hand. Raises StoreDamaged, CodecError."""
        folded = await load_log(self._store, log, self._registry)
        state = folded.slice.get(CONVERSATION, ConversationState)
        if state is not None and state.open_turn:
            config = folded.slice.get(state.open_turn, TurnConfig)
            assert config is not None, "an open turn has a configuration"
            await self.know(config.context)
        return folded

    async def know(self, digest: Digest) -> None:
        """Has the catalog learn a stored context. Raises StoreDamaged when it is missing."""
        if self._catalog.knows(digest):
            return
        found = await self._store.definition(digest)
        if found is None:
            raise StoreDamaged(self._store.url, f"definition {digest} is missing")
        self._catalog.learn(digest, found[1])

    def check_head(self, row: LogRow, folded: Folded) -> None:
        """What was read ends where the row of the log says. Raises StoreDamaged."""
        if folded.digest != row.digest or folded.seq != row.seq:
            raise StoreDamaged(
                self._store.url, f"the head of {row.id} is at seq {row.seq} and not its last entry, at {folded.seq}"
            )
