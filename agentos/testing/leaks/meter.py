"""The leak meter: what a piece of work leaves behind in this process, by name.

It looks before and after: tasks, open files, threads, child processes with all below them, temporary files; of kernels
that it was told of, also open scopes, slots, and live resources with those who hold them or wait for them. Things that
end by themselves are given SETTLE_S. Threads that the event loop keeps for its own executor are the loop's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from agentos.testing.leaks.kernel import Watched, held_by_kernel
from agentos.testing.leaks.process import Seen, held_by_process, own_temporary_folder

SETTLE_S = 10.0
"""How long things that end by themselves (a reaped child, a thread on its last line, a closing socket) are given."""
POLL_S = 0.01
POLLS = round(SETTLE_S / POLL_S)
SHOWN_MAX = 50
"""So many leaks are named in one error; the others are counted."""


class Leak(msgspec.Struct, frozen=True, order=True):
    """One thing that is left. kind: task, file, thread, child, temporary, scope, slot or resource; what names it."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Leaked(AssertionError):
    """Something was left behind. leaks is all of it."""

    def __init__(self, leaks: list[Leak]) -> None:
        self.leaks = leaks
        shown = "".join(f"\n  {leak}" for leak in leaks[:SHOWN_MAX])
        more = f"\n  and {len(leaks) - SHOWN_MAX} more" if len(leaks) > SHOWN_MAX else ""
        super().__init__(f"{len(leaks)} left behind that were not there before:{shown}{more}")


class LeakMeter:
    """Compares what this process holds with what it held when the meter was made.

    temporary is the folder whose content counts as temporary files; see `own_temporary_folder`.
    """

    def __init__(self, temporary: Path | None = None) -> None:
        self._temporary = temporary
        self._kernels: list[tuple[Watched, Seen]] = []
        self._before = held_by_process(temporary)

    def watch(self, kernel: Watched) -> None:
        """Counts what this kernel holds too, beyond what it holds now. One that has closed holds nothing."""
        self._kernels.append((kernel, held_by_kernel(kernel)))

    def start_anew(self, kinds: frozenset[str] | None = None) -> None:
        """Takes what is held now of these kinds, None for all, as what was there before."""
        self._before = _renewed(self._before, held_by_process(self._temporary), kinds)
        self._kernels = [(kernel, _renewed(before, held_by_kernel(kernel), kinds)) for kernel, before in self._kernels]

    def left(self, kinds: frozenset[str] | None = None) -> list[Leak]:
        """What is held at this moment and was not before, sorted; only of these kinds, None for all."""
        found = _new(held_by_process(self._temporary), self._before)
        for kernel, before in self._kernels:
            found += _new(held_by_kernel(kernel), before)
        return sorted(leak for leak in found if kinds is None or leak.kind in kinds)

    async def check(self, kinds: frozenset[str] | None = None) -> None:
        """Raises Leaked, naming each thing, when something is still left after SETTLE_S."""
        for _ in range(POLLS):
            if not self.left(kinds):
                return
            await asyncio.sleep(POLL_S)
        _raise_if(self.left(kinds))

    def check_blocking(self, kinds: frozenset[str] | None = None) -> None:
        """The same where no event loop runs."""
        for _ in range(POLLS):
            if not self.left(kinds):
                return
            time.sleep(POLL_S)
        _raise_if(self.left(kinds))


@asynccontextmanager
async def leak_meter(*kernels: Watched) -> AsyncIterator[LeakMeter]:
    """A block that has to leave nothing behind. Temporary files of the block are made in a folder of its own.

    Errors: Leaked at the end of the block; an error of the block itself goes first.
    """
    with own_temporary_folder() as temporary:
        meter = LeakMeter(temporary)
        for kernel in kernels:
            meter.watch(kernel)
        yield meter
        await meter.check()


def _new(now: Seen, before: Seen) -> list[Leak]:
    return [Leak(key[0], what) for key, what in now.items() if key not in before]


def _renewed(before: Seen, now: Seen, kinds: frozenset[str] | None) -> Seen:
    if kinds is None:
        return now
    kept = {key: what for key, what in before.items() if key[0] not in kinds}
    return kept | {key: what for key, what in now.items() if key[0] in kinds}


def _raise_if(leaks: list[Leak]) -> None:
    if leaks:
        raise Leaked(leaks)
