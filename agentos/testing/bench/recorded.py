"""The units of real turns, prepared once, so that stores alone can be measured: each gets the very same ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from agentos.kernel import Kernel
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.memory import MemoryStore
from agentos.testing.bench.turns import at_once, install, started


class Recorded(msgspec.Struct, frozen=True):
    """before are the units of agents and toolboxes, in order; lines, those of each conversation, in order."""

    before: list[Unit]
    lines: list[list[Unit]]

    @property
    def entries(self) -> int:
        return sum(len(unit.entries) for line in self.lines for unit in line)

    @property
    def units(self) -> int:
        return sum(len(line) for line in self.lines)


async def record(conversations: int, turns: int) -> Recorded:
    """They fit any store whose first writer appends them, since that one has the number 1 as here."""
    store = _Recorder()
    async with Kernel(store) as kernel:
        await install(kernel)
        begun = len(store.units)
        all_of_them = await started(kernel, conversations)
        await at_once(all_of_them, turns)
        end = len(store.units)
    lines: dict[str, list[Unit]] = {conversation.id: [] for conversation in all_of_them}
    before = store.units[:begun]
    for unit in store.units[begun:end]:
        lines.get(unit.log, before).append(unit)
    return Recorded(before, list(lines.values()))


async def begin(store: Store, recorded: Recorded) -> None:
    """Opens a new store and appends what stands before the conversations."""
    number = await store.open("bench")
    assert number == 1, "the store is new"
    for unit in recorded.before:
        await append(store, [unit])


async def append(store: Store, units: Sequence[Unit]) -> None:
    answer = store.append(units)
    verdicts = answer if isinstance(answer, list) else await answer
    check(verdicts)


async def append_by(store: Store, lines: Sequence[Sequence[Unit]], size: int) -> None:
    """Batches of one unit each of so many conversations, one batch after the other."""
    for first in range(0, len(lines), size):
        for units in zip(*lines[first : first + size], strict=True):
            await append(store, units)


async def append_by_clients(store: Store, lines: Sequence[Sequence[Unit]]) -> None:
    """A task for each conversation, which waits for each of its units; all that wait at once share a commit."""
    commits = GroupCommit(store)

    async def client(line: Sequence[Unit]) -> None:
        for unit in line:
            await commits.commit(unit)

    await asyncio.gather(*(client(line) for line in lines))


class GroupCommit:
    """One append at a time, as the ticks of a kernel do: what comes meanwhile joins the next."""

    def __init__(self, store: Store) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()
        self._waiting: list[tuple[Unit, asyncio.Future[None]]] = []
        self._busy = False

    def commit(self, unit: Unit) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((unit, future))
        if len(self._waiting) == 1 and not self._busy:
            self._loop.call_soon(self._append)
        return future

    def _append(self) -> None:
        batch, self._waiting = self._waiting, []
        answer = self._store.append([unit for unit, _ in batch])
        waiting = [future for _, future in batch]
        if isinstance(answer, list):
            self._stored(waiting, answer)
        else:
            self._busy = True
            answer.add_done_callback(lambda done: self._stored(waiting, done.result()))

    def _stored(self, waiting: Sequence[asyncio.Future[None]], verdicts: Sequence[Verdict]) -> None:
        check(verdicts)
        self._busy = False
        for future in waiting:
            future.set_result(None)
        if self._waiting:
            self._loop.call_soon(self._append)


def check(verdicts: Sequence[Verdict]) -> None:
    """Raises AssertionError: a unit that is left out costs less, and must not count."""
    assert all(verdict is Verdict.STORED for verdict in verdicts), verdicts


class _Recorder(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.units: list[Unit] = []

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        self.units += units
        return super().append(units)
