"""Every step of a store fails once: the first, the second, and so on to the last; and each kills its process.

    python -m agentos.testing.nth_fault --store sqlite

Each run tells the story of `agentos.testing.nth_fault_life` in an empty store, where the nth visit of one point, in one
part of it, goes wrong in one way. Whatever that does to the kernel, the processes after it come to the end, and then one
that had no part in it looks whether anything acknowledged is lost, happened twice, or is not as it was decided.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from agentos.testing.faults import Fault
from agentos.testing.forked import Forked, Tell
from agentos.testing.nth_fault_points import faults_of
from agentos.testing.nth_fault_story import PARTS, Story, tell_story
from agentos.testing.postgres import PostgresServer
from agentos.testing.torture import stores_of, tell_broken
from agentos.testing.torture_life import warm
from agentos.testing.torture_places import STORES, Place

RUN_S = 600.0
"""How long one run may take."""


class Planned(NamedTuple):
    """One run: a row of the table, and the part of the story and the visit in which its fault is."""

    row: int
    part: int
    n: int


class Row(msgspec.Struct):
    """What came of all runs with one kind of fault at one point. visits are those of a story without a fault."""

    store: str
    point: str
    fault: str
    visits: int = 0
    runs: int = 0
    fired: int = 0
    lost: int = 0
    twice: int = 0
    stuck: int = 0
    broken: list[str] = []

    def add(self, story: Story) -> None:
        self.runs += 1
        self.fired += story.fired
        self.lost += story.lost
        self.twice += story.twice
        self.stuck += not story.ended
        self.broken += story.broken


class Loop:
    """All runs with the stores of some kinds; only every stride-th is made. jobs processes share the work."""

    def __init__(self, stores: Sequence[str], stride: int, jobs: int) -> None:
        self.rows = [Row(store, point, fault) for store in stores for point, fault in faults_of(store)]
        self.broken: list[str] = []
        self._stores, self._stride, self._jobs = stores, stride, jobs
        self._server = PostgresServer(settings={"fsync": "off"})  # only its clients die here

    def run(self) -> None:
        with ExitStack() as open_:
            if "postgresql" in self._stores:
                open_.enter_context(self._server)
            runs = self._all_runs()[:: self._stride]
            print(f"{len(runs)} runs, {self._jobs} at a time", file=sys.stderr)
            works = [partial(self._work, runs[i :: self._jobs], i) for i in range(self._jobs)]
            for worker in [open_.enter_context(Forked(work)) for work in works]:
                self._read(worker)

    def all_broken(self) -> list[str]:
        """Also what was never tried: a point that is not visited any more would go unnoticed."""
        never = [row for row in self.rows if not row.visits or (self._stride == 1 and not row.fired)]
        return [
            *self.broken,
            *(f"{row.store}: {what}" for row in self.rows for what in row.broken),
            *(f"{row.store}: {row.fault} never happened at {row.point}" for row in never),
        ]

    def _all_runs(self) -> list[Planned]:
        runs: list[Planned] = []
        for store in self._stores:
            with self._place(store, "plain") as place:
                plain = tell_story(place, None, 0)
            self.broken += [f"{store}, without a fault: {what}" for what in plain.broken]
            for i, row in enumerate(self.rows):
                for part in PARTS if row.store == store else ():
                    visits = plain.visits.get(f"{part} {row.point}", 0)
                    row.visits += visits
                    runs += [Planned(i, part, n + 1) for n in range(visits)]
        return runs

    def _work(self, runs: Sequence[Planned], worker: int, tell: Tell) -> None:
        """In a process of its own: tells the row and the story of each run."""
        for i, run in enumerate(runs):
            row = self.rows[run.row]
            with self._place(row.store, f"worker{worker}_{i}") as place:
                story = tell_story(place, Fault(row.point, run.n, row.fault), run.part)
            tell(msgspec.json.encode((run.row, story)).decode())

    def _read(self, worker: Forked) -> None:
        for line in worker.lines(RUN_S):
            row, story = msgspec.json.decode(line, type=tuple[int, Story])
            self.rows[row].add(story)
        if worker.wait():
            self.broken.append(f"a worker ended with status {worker.status}")

    @contextmanager
    def _place(self, store: str, name: str) -> Iterator[Place]:
        """An empty store; name is one that no other has."""
        with TemporaryDirectory(prefix="agentos-nth-fault-") as folder:
            urls = {"sqlite": f"sqlite:///{folder}/store.db", "file": f"file:{folder}/store"}
            yield Place(store, urls.get(store) or self._server.url(schema=name), Path(folder, "effects.log"))


def table(rows: Sequence[Row]) -> str:
    heads = ("store", "point", "fault", "visits", "runs", "fired", "lost", "twice", "stuck")
    lines = ["{:12}{:12}{:16}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}".format(*heads)]
    for row in rows:
        counts = (row.visits, row.runs, row.fired, row.lost, row.twice, row.stuck)
        lines.append(f"{row.store:12}{row.point:12}{row.fault:16}" + "".join(f"{count:8}" for count in counts))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="agentos.testing.nth_fault", description="Lets every step of a store fail once, and looks what is left."
    )
    parser.add_argument("--store", default="all", choices=(*STORES, "all"))
    parser.add_argument("--stride", type=int, default=1, help="only every so many runs one is made")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes share the work")
    options = parser.parse_args(argv)
    began = time.monotonic()
    warm()
    loop = Loop(stores_of(options.store), options.stride, options.jobs)
    loop.run()
    print(table(loop.rows))
    print(f"{sum(row.fired for row in loop.rows)} faults in {time.monotonic() - began:.0f} s")
    return tell_broken(loop.all_broken())


if __name__ == "__main__":
    sys.exit(main())
