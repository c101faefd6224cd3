"""Copy: a whole store moved to another place, of whatever kind, with equal heads.

The logs are copied entry by entry as they stand, those that forks begin in before the forks. Each is checked before the
first of its units is written. Tables are folded anew on the way. Definitions, remembered keys and wake-ups go with the
units, what waits in the inbox comes last.

A source may be at work meanwhile. The copy is of one moment, at which nobody wrote between two looks at the heads; until
there is such a moment, what was stored since is copied behind. A copy that was cut short goes on where it stopped.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from agentos.errors import CopyRefused, StoreDamaged
from agentos.events.entry import Registry
from agentos.history.copy.batches import Batches
from agentos.history.copy.rebuilding import NOBODY, Rebuilding, catch_up, remember, wait_for
from agentos.history.copy.source import CopySource, Moment, parents_first
from agentos.history.heads import digest_of_heads
from agentos.persistence.base import LogRow, Store, StoredEntry, Unit, WakeupRow, WriterRow
from agentos.world import World

PASSES_MAX = 10
"""How often what was stored meanwhile is copied behind before a source counts as too busy."""


class Progress(NamedTuple):
    """How far a copy has come: logs that are complete, of how many; entries and bytes that were written."""

    logs: int
    all_logs: int
    entries: int
    bytes: int


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in both stores, and what of it this run has written.

    heads is `digest_of_heads` of both; alive are the writers at work in the source, whose later entries are not here.
    """

    logs: int
    entries: int
    bytes: int
    heads: str
    alive: tuple[WriterRow, ...] = ()


Tell = Callable[[Progress], None]


async def copy_store(
    source: Store, destination: Store, *, registry: Registry | None = None, tell: Tell | None = None
) -> Copied:
    """Copies everything. The source is only read, and need not be open; the destination is opened, and closed again.

    Errors: CopyRefused when the two are one store, when the destination holds anything that is not a beginning of the
    source, and when the source never rests; StoreDamaged, which names log and seq, before that log is written, or the
    place in a file of the source, before anything is; StoreUnavailable.
    """
    if source is destination:
        raise CopyRefused(f"{source.url}: source and destination are one store")
    await source.logs()  # a source that cannot be read makes no destination
    for damage in await source.damages():
        raise StoreDamaged(source.url, f"{damage}; what stood there cannot be copied")
    copying = _Copying(source, destination, registry or Registry(), tell)
    try:
        await copying.begin()
        return await copying.run()
    finally:
        await destination.close()


class _Copying:
    """One run of a copy. _there are the heads of the destination."""

    def __init__(self, source: Store, destination: Store, registry: Registry, tell: Tell | None) -> None:
        self._source, self._destination = CopySource(source), destination
        self._registry, self._tell = registry, tell
        self._world = World()
        self._there: dict[str, LogRow] = {}
        self._entries = self._bytes = 0

    async def begin(self) -> None:
        """Opens the destination, and finds that it may be written to."""
        mine = uuid.uuid4().hex
        number = await self._destination.open(mine)
        writers = await self._source.store.writers()
        if any(row.incarnation == mine for row in writers):
            raise CopyRefused(f"{self._source.url} and {self._destination.url} are one store")
        alive = [row for row in await self._destination.writers() if row.alive and row.n != number]
        if alive:
            raise self._refused(f"writer {alive[0].n} ({alive[0].incarnation}) is at work in it")
        await self._check_destination()
        await self._open_beyond(max((row.n for row in writers), default=0), number)

    async def run(self) -> Copied:
        for _ in range(PASSES_MAX):
            moment = await self._source.look()
            await self._copy(moment)
            if moment.still:
                return await self._end(moment)
        alive = ", ".join(f"{row.n} ({row.incarnation})" for row in await self._source.alive()) or "unknown"
        raise CopyRefused(
            f"{self._source.url} was written to at each of {PASSES_MAX} looks (PASSES_MAX); writers at work: {alive}."
            " Stop them and copy again: what was copied stays"
        )

    async def _copy(self, moment: Moment) -> None:
        batches = Batches(self._source.store, self._destination)
        entries, bytes_ = self._entries, self._bytes
        for done, row in enumerate(parents_first(moment.rows, self._source.url), 1):
            await self._copy_log(row, moment.wakeups.get(row.id, ()), batches)
            self._entries, self._bytes = entries + batches.entries, bytes_ + batches.bytes
            if self._tell is not None:
                self._tell(Progress(done, len(moment.rows), self._entries, self._bytes))
        await batches.end()
        self._entries, self._bytes = entries + batches.entries, bytes_ + batches.bytes

    async def _end(self, moment: Moment) -> Copied:
        for row in moment.inbox:
            await self._destination.post(row)
        heads, found = digest_of_heads(moment.rows.values()), digest_of_heads(await self._destination.logs())
        if heads != found:
            raise self._refused(f"its heads are {found}, those of {self._source.url} are {heads}; somebody else wrote")
        return Copied(
            logs=len(moment.rows),
            entries=self._entries,
            bytes=self._bytes,
            heads=heads,
            alive=tuple(await self._source.alive()),
        )

    async def _copy_log(self, row: LogRow, wakeups: Sequence[WakeupRow], batches: Batches) -> None:
        there = self._there.get(row.id)
        before = there or await self._source.beginning(row)
        if before.seq == row.seq:
            return
        keys = await self._source.keys(row.id)
        rebuilding = Rebuilding(row, before.seq, before.digest, self._world, self._registry)
        try:
            await catch_up(rebuilding, self._source.store, row.id, before.seq)
            async for stored in self._source.checked(row, before):
                unit = self._rebuilt(rebuilding, row, stored, before.epoch, create=self._there.get(row.id) is None)
                remember(unit, keys.pop(unit.seq, ()))
                if unit.seq == row.seq:
                    wait_for(unit, wakeups, await self._destination.wakeups(row.id) if there is not None else ())
                self._there[row.id] = msgspec.structs.replace(before, seq=unit.seq, digest=unit.digest)
                await batches.add(unit)
        finally:
            self._world.unload(row.id)
        for seq in keys:
            if before.seq < seq <= row.seq:
                raise self._source.damaged(
                    row.id, seq, "keys of the inbox are remembered for it, but no unit ends with it"
                )

    def _rebuilt(
        self, rebuilding: Rebuilding, row: LogRow, stored: Sequence[StoredEntry], epoch: int, *, create: bool
    ) -> Unit:
        try:
            return rebuilding.next(stored, epoch, create=create)
        except Exception as error:  # what was edited, and chained anew, may follow no rule at all
            raise self._source.damaged(
                row.id, stored[0].seq, f"it cannot be folded ({type(error).__name__})"
            ) from error

    async def _check_destination(self) -> None:
        """It is empty, or an earlier copy of the same store that was cut short."""
        rows = {row.id: row for row in await self._source.store.logs()}
        for there in await self._destination.logs():
            row = rows.get(there.id)
            if row is None:
                raise self._refused(f"it has {there.id}, which {self._source.url} has not")
            if there.owner != NOBODY:
                raise self._refused(f"{there.id} was worked with in it")
            last = await self._source.entry(there.id, there.seq)
            if last is None or last.digest != there.digest:
                raise self._refused(f"{there.id} up to seq {there.seq} is no beginning of that in {self._source.url}")
            self._there[there.id] = there
        for waiting in await self._destination.inbox():
            if await self._source.store.inbox_seq(waiting.log, waiting.key) is None:
                raise self._refused(f"something waits in its inbox for {waiting.log}")

    async def _open_beyond(self, highest: int, number: int) -> None:
        """Gives later writers of the destination numbers that no entry of the source names: who wrote it stays clear."""
        while number <= highest:
            number = await self._destination.open(uuid.uuid4().hex)

    def _refused(self, reason: str) -> CopyRefused:
        return CopyRefused(f"{self._destination.url}: {reason}; copy to an empty place")
