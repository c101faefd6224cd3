"""Which forks begin with an entry: it is searched, and shown, as that of the conversation in which it was said."""

from __future__ import annotations

from agentos.persistence.base import Store

FORKS_MAX = 100
"""How many forks are named with a hit."""

_FORKS = "select id, upto from logs where forked_from = ? order by n limit ?"


class Forks:
    """Asks the store once for the forks of each log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forks: dict[str, list[tuple[str, int]]] = {}

    async def sharing(self, log: str, seq: int) -> tuple[str, ...]:
        """Forks of the log, and forks of these, that were taken behind the entry at seq. Raises StoreError."""
        found: list[str] = []
        waiting = [log]
        while waiting and len(found) < FORKS_MAX:
            shared = [fork for fork, upto in await self._of(waiting.pop(0)) if upto >= seq]
            found += shared
            waiting += shared
        return tuple(found[:FORKS_MAX])

    async def _of(self, log: str) -> list[tuple[str, int]]:
        if log not in self._forks:
            rows = (await self._store.query(_FORKS, (log, FORKS_MAX))).rows
            self._forks[log] = [(str(fork), int(upto)) for fork, upto in rows]
        return self._forks[log]
