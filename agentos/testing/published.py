"""What is published while a kernel works is what is stored, each entry once and in order."""

from __future__ import annotations

from agentos.events.entry import Entry, Registry
from agentos.ids import LogId
from agentos.journal import decode_units
from agentos.kernel import Kernel
from agentos.kernel.watch import Watcher
from agentos.persistence.base import Store
from agentos.testing.checker import at_once


class Published:
    """Watches every conversation of one kernel from its first loading on."""

    def __init__(self, kernel: Kernel, store: Store, registry: Registry) -> None:
        self.entries = 0
        self._kernel, self._store, self._registry = kernel, store, registry
        self._watchers: dict[LogId, Watcher] = {}
        self._seen: dict[LogId, int] = {}

    def check(self) -> list[str]:
        """Compares what was published since the last time."""
        broken: list[str] = []
        for log, loaded in self._kernel.ticker.loaded.items():
            if log not in self._watchers:
                self._watchers[log] = self._kernel.watchers.add(log)
                self._seen[log] = loaded.head.row.seq
        for log, watcher in self._watchers.items():
            items = [item for item in watcher.drain() if isinstance(item, Entry)]
            if items:
                broken += self._compare(log, items)
        return broken

    def _compare(self, log: LogId, items: list[Entry]) -> list[str]:
        seen = self._seen[log]
        self._seen[log] = items[-1].seq
        self.entries += len(items)
        seqs = [item.seq for item in items]
        if seqs != list(range(seen + 1, items[-1].seq + 1)):
            return [f"{log}: after seq {seen}, published were {seqs}"]
        stored = at_once(self._store.entries(log, seen, items[-1].seq))
        entries = [entry for unit in decode_units(log, stored, self._registry) for entry in unit]
        return [
            f"{log} seq {item.seq}: published was {item}, stored is {entry}"
            for item, entry in zip(items, entries, strict=True)
            if item != entry
        ]
