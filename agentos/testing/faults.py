"""Faults on purpose: a plan that says which visit of which point fails, and a store that fails by it.

    plan = FaultPlan([Fault("store.append", 3, "before")])       # the third append, once
    plan = FaultPlan(seed=1, rates={"model": {"network": 0.1}})  # a tenth of all model calls

Points: store.append, store.read, model, tool. `agentos.testing.faulty_work` has the models and toolboxes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from random import Random

import msgspec

from agentos.errors import StoreUnavailable
from agentos.persistence.base import (
    InboxRow,
    LogRow,
    Rows,
    Store,
    StoredEntry,
    TakenKey,
    Unit,
    Verdict,
    WakeupRow,
    WriterRow,
)


class Fault(msgspec.Struct, frozen=True):
    """The nth visit of a point, counted from 1, fails in this way."""

    point: str
    n: int
    kind: str


class FaultPlan:
    """Answers each visit of a point with the kind of its fault, or None.

    at are single faults; rates give, by point, each kind's share of the visits, drawn from the seed. fired is what
    happened so far; quiet stops everything.
    """

    def __init__(
        self, at: Sequence[Fault] = (), *, seed: int = 0, rates: Mapping[str, Mapping[str, float]] | None = None
    ) -> None:
        self._at = {(fault.point, fault.n): fault.kind for fault in at}
        self._rates = {point: dict(shares) for point, shares in (rates or {}).items()}
        self._random = {point: Random(f"{seed}:{point}") for point in self._rates}
        self.visits: dict[str, int] = {}
        self.fired: list[Fault] = []
        self.quiet = False

    def visit(self, point: str) -> str | None:
        """The kind of fault for this visit."""
        n = self.visits[point] = self.visits.get(point, 0) + 1
        kind = self._at.get((point, n)) or self._drawn(point)
        if kind is None or self.quiet:
            return None
        self.fired.append(Fault(point, n, kind))
        return kind

    def counts(self) -> dict[str, int]:
        """How often each kind of fault happened, by point and kind."""
        counted: dict[str, int] = {}
        for fault in self.fired:
            name = f"{fault.point} {fault.kind}"
            counted[name] = counted.get(name, 0) + 1
        return counted

    def _drawn(self, point: str) -> str | None:
        shares = self._rates.get(point)
        if not shares:
            return None
        left = self._random[point].random()
        for kind, share in shares.items():
            left -= share
            if left < 0:
                return kind
        return None


class FaultyStore:
    """Any store, with faults at `store.append` and `store.read`.

    Kinds of append: `before` (unavailable, nothing stored), `after` (unavailable, but all stored: the connection was
    lost at the commit), `conflict` (that verdict, nothing stored), and each of these `later`: not in place, but by a
    future. `crash_before` and `crash_after` are as `before` and `after`, and the store is never there again: is_gone
    tells the test to let the kernel go. A read knows `unavailable`.
    """

    def __init__(self, inner: Store, plan: FaultPlan) -> None:
        self.inner, self.plan = inner, plan
        self.url = inner.url
        self.is_gone = False

    async def open(self, incarnation: str) -> int:
        return await self.inner.open(incarnation)

    async def close(self) -> None:
        await self.inner.close()

    def append(self, units: Sequence[Unit]) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        kind = "before" if self.is_gone else self.plan.visit("store.append")
        if kind is None:
            return self.inner.append(units)
        if not kind.startswith("later"):
            return self._append(units, kind)
        future: asyncio.Future[list[Verdict]] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._append_later, units, kind.removeprefix("later_"), future)
        return future

    def _append(self, units: Sequence[Unit], kind: str) -> list[Verdict] | asyncio.Future[list[Verdict]]:
        self.is_gone = self.is_gone or kind.startswith("crash_")
        if kind in ("before", "crash_before"):
            raise StoreUnavailable(self.url, "out of order, for a test")
        if kind == "conflict":
            return [Verdict.CONFLICT for _ in units]
        verdicts = self.inner.append(units)
        if kind in ("after", "crash_after"):
            raise StoreUnavailable(self.url, "lost at the commit, for a test")
        return verdicts

    def _append_later(self, units: Sequence[Unit], kind: str, future: asyncio.Future[list[Verdict]]) -> None:
        try:
            verdicts = self._append(units, kind)
        except StoreUnavailable as error:
            future.set_exception(error)
            return
        if isinstance(verdicts, list):
            future.set_result(verdicts)
        else:
            verdicts.add_done_callback(lambda done: future.set_result(done.result()))

    def _read(self) -> None:
        if self.is_gone or self.plan.visit("store.read") is not None:
            raise StoreUnavailable(self.url, "unreadable, for a test")

    async def log(self, log: str) -> LogRow | None:
        self._read()
        return await self.inner.log(log)

    async def logs(self, kind: str | None = None) -> list[LogRow]:
        self._read()
        return await self.inner.logs(kind)

    async def claim(self, log: str) -> LogRow | None:
        self._read()
        return await self.inner.claim(log)

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        self._read()
        return await self.inner.entries(log, after, upto, limit, kinds)

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        self._read()
        return await self.inner.last_snapshot(log, upto)

    async def open_logs(self) -> list[str]:
        self._read()
        return await self.inner.open_logs()

    async def definition(self, digest: str) -> tuple[str, str] | None:
        self._read()
        return await self.inner.definition(digest)

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        self._read()
        return await self.inner.definitions(after, limit)

    async def post(self, row: InboxRow) -> bool:
        self._read()
        return await self.inner.post(row)

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        self._read()
        return await self.inner.inbox(log)

    async def inbox_seq(self, log: str, key: str) -> int | None:
        self._read()
        return await self.inner.inbox_seq(log, key)

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        self._read()
        return await self.inner.taken(after, limit)

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        self._read()
        return await self.inner.wakeups(log)

    async def writers(self) -> list[WriterRow]:
        self._read()
        return await self.inner.writers()

    async def damages(self) -> Sequence[object]:
        self._read()
        return await self.inner.damages()

    async def declare_dead(self, writer: int) -> bool:
        self._read()
        return await self.inner.declare_dead(writer)

    async def settle_erased(self) -> bool:
        self._read()
        return await self.inner.settle_erased()

    async def compact(self) -> bool:
        self._read()
        return await self.inner.compact()

    async def query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        self._read()
        return await self.inner.query(sql, parameters)

    def changed(self) -> bool:
        return self.inner.changed()
