"""How a copy writes: units in batches of a bounded size, and all definitions with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentos.errors import CopyRefused
from agentos.history.copy.rebuilding import size_of
from agentos.persistence.base import Store, Unit, Verdict

BATCH_BYTES = 4 * 1024 * 1024
BATCH_UNITS = 1_000
PAGE_DEFINITIONS = 100

Definition = tuple[str, str, str]


class Batches:
    """Appends units to a store, many at once, in the order in which they come.

    The definitions of the source, all of them, go with the first units, a page with each; what is left of them goes with
    the last unit. So a copy whose last unit is there has every definition.
    """

    def __init__(self, source: Store, destination: Store) -> None:
        self.entries = self.bytes = 0
        self._source, self._destination = source, destination
        self._units: list[Unit] = []
        self._size = 0
        self._after: str | None = ""

    async def add(self, unit: Unit) -> None:
        """Takes one more; one that is complete is written before. Raises CopyRefused, StoreUnavailable."""
        if self._size >= BATCH_BYTES or len(self._units) >= BATCH_UNITS:
            await self._append()
        self._units.append(unit)
        await self._attach_definitions(unit)
        self._size += size_of(unit)

    async def end(self) -> None:
        """Writes what is left."""
        if not self._units:
            return
        while self._after is not None:
            await self._attach_definitions(self._units[-1])
        await self._append()

    async def _attach_definitions(self, unit: Unit) -> None:
        if self._after is None:
            return
        page: Sequence[Definition] = await self._source.definitions(self._after, PAGE_DEFINITIONS)
        unit.definitions = [*unit.definitions, *page]
        self._size += sum(len(body) for _, _, body in page)
        self._after = page[-1][0] if len(page) == PAGE_DEFINITIONS else None

    async def _append(self) -> None:
        units, self._units, size, self._size = self._units, [], sum(map(size_of, self._units)), 0
        answer = self._destination.append(units)
        verdicts = answer if isinstance(answer, list) else await answer
        for unit, verdict in zip(units, verdicts, strict=True):
            if verdict is not Verdict.STORED:
                url = self._destination.url
                raise CopyRefused(f"{url}: {unit.log} is {verdict.value} at seq {unit.seq}: somebody else writes there")
        self.entries += sum(len(unit.entries) for unit in units)
        self.bytes += size
        await asyncio.sleep(0)
