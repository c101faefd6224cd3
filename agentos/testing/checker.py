"""Asks all invariants after each tick of a kernel.

It reads only what is new in the store, and keeps a second World beside the kernel's, folded from the store alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from agentos.events.entry import Registry
from agentos.events.kinds import ModelRequested
from agentos.ids import Kind, LogId
from agentos.journal import Times, decode_units, fold_unit, load_log
from agentos.kernel import Kernel
from agentos.kernel.loaded import Loaded
from agentos.persistence.base import LogRow, Store
from agentos.testing.invariants import (
    InvariantBroken,
    derived_is_recomputed,
    effects_are_intended,
    limits_hold,
    slots_are_held,
    world_is_fold,
)
from agentos.testing.live_invariants import live_is_empty, live_is_true
from agentos.testing.log_invariants import LogCheck
from agentos.testing.pairing import unpaired
from agentos.world import World

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never waits, as those of the memory store do not."""
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise RuntimeError("this store waits; the checks after each tick need one that does not, such as memory:")


def origin_of(row: LogRow, rows: Mapping[LogId, LogRow]) -> LogId:
    """The log that a fork, over all its parents, came from; its chain begins with that log's name."""
    while row.forked_from is not None:
        row = rows[LogId(row.forked_from)]
    return row.id


class Checker:
    """Checks one store through all the kernels that are opened on it.

    A tick is a callback of the loop, where nobody would catch an error: what is broken is kept in `broken`.
    """

    def __init__(self, store: Store, registry: Registry | None = None) -> None:
        """store is one that does not wait and never fails, however faulty the kernel's own is."""
        self.store, self.registry = store, registry or Registry()
        self.broken: list[str] = []
        self.checks = 0
        self.requests = 0
        self._logs: dict[LogId, LogCheck] = {}
        self._world = World()
        self._times: dict[LogId, Times] = {}
        self._rows: dict[LogId, LogRow] = {}
        self._erased: set[LogId] = set()

    def watch(self, kernel: Kernel) -> None:
        """Checks a kernel that was just opened, and then after each of its ticks."""
        self.broken += live_is_empty(kernel)
        kernel.ticker.after_tick = lambda: self.check(kernel)

    def check(self, kernel: Kernel) -> None:
        """Everything, now."""
        self.checks += 1
        try:
            self.broken += self._findings(kernel)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.broken.append(f"a check raised {type(error).__name__} in {place.name}, {place.lineno}: {error}")

    def end(self) -> None:
        """Raises InvariantBroken when anything was found."""
        if self.broken:
            raise InvariantBroken(self.broken)

    def _findings(self, kernel: Kernel) -> list[str]:
        broken = self._read_new()
        for log, loaded in sorted(kernel.ticker.loaded.items()):
            folded = self._world.slice(log)
            if loaded.flying or self._is_lost(loaded):
                continue
            if folded is not None:
                broken += world_is_fold(loaded.slice, folded)
            elif not loaded.head.new:
                broken.append(f"{log} is loaded, but the store does not have it")
        broken += derived_is_recomputed(kernel) + slots_are_held(kernel) + live_is_true(kernel) + limits_hold(kernel)
        if kernel.ticker.starting:
            broken += effects_are_intended(kernel)
        return broken

    def _is_lost(self, loaded: Loaded) -> bool:
        """Another kernel has taken it over, and this one has not found out yet."""
        row, mine = self._rows.get(loaded.log), loaded.head.row
        return row is not None and (row.owner, row.epoch) != (mine.owner, mine.epoch)

    def entries(self, log: LogId) -> int:
        """How many entries of a log were checked."""
        found = self._logs.get(log)
        return found.seq if found is not None else 0

    def _read_new(self) -> list[str]:
        broken = []
        rows = self._rows = {row.id: row for row in at_once(self.store.logs(Kind.CONVERSATION.value))}
        for row in rows.values():
            known = self._logs.get(row.id)
            if known is None:
                known = self._logs[row.id] = LogCheck(row.id, self.registry, origin_of(row, rows))
                self._world.load(row.id)
                self._times[row.id] = Times()
            if known.seq < row.seq:
                self._fold(known, row.seq)
                if row.erased_at is not None:
                    self._forget(row.id)
                self._load(known)
            if (known.seq, known.digest) != (row.seq, row.digest):
                known.say(row.seq, "the head of the log is not its last entry")
            broken += known.broken
            known.broken = []
        return broken

    def _fold(self, known: LogCheck, upto: int) -> None:
        slice_ = self._world.slice(known.log)
        assert slice_ is not None, "loaded when first seen"
        units: dict[int, list[Any]] = {}
        for stored in at_once(self.store.entries(known.log, known.seq, upto)):
            entry = known.add(stored)
            units.setdefault(entry.unit, []).append(entry)
        for unit in units.values():
            fold_unit(self._world, slice_, unit, self._times[known.log])
            if isinstance(unit[-1].data, ModelRequested):
                self.requests += 1
                for what in unpaired(slice_.transcript.messages):
                    known.say(unit[-1].seq, what)

    def _forget(self, erased: LogId) -> None:
        """Folds anew what has lost its texts, and forks that shared them: they are to be gone from every fold."""
        self._erased.add(erased)
        for log in self._erased:
            self._world.unload(log)
            slice_, times = self._world.load(log), Times()
            for unit in decode_units(log, at_once(self.store.entries(log)), self.registry):
                fold_unit(self._world, slice_, unit, times)
            self._times[log] = times

    def _load(self, known: LogCheck) -> None:
        """Loading from the last snapshot gives what folding every entry gives."""
        folded = self._world.slice(known.log)
        assert folded is not None, "loaded when first seen"
        loaded = at_once(load_log(self.store, known.log, self.registry, known.seq))
        for what in world_is_fold(loaded.slice, folded):
            known.say(known.seq, f"loaded from the snapshot at {loaded.snapshot}: {what}")
