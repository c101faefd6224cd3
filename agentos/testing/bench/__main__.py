"""The command: runs the benchmarks that are named, round by round, and prints each figure with its bound and verdict."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import agentos.testing.bench
from agentos.testing.bench import (
    as_of,
    borrow,
    entries,
    erasing,
    fork_bytes,
    history,
    listing,
    lua,
    opening,
    postgresql,
    rounds,
    search,
    turn_bytes,
    turn_cost,
)
from agentos.testing.bench.figures import Samples, results_of, table


class Bench(NamedTuple):
    """run measures once in an empty folder; rounds_max is how often that is worth its time."""

    run: Callable[[Path], Coroutine[Any, Any, Samples]]
    rounds_max: int


BENCHES = {
    "memory": Bench(turn_cost.memory, 100),
    "durable": Bench(turn_cost.durable, 100),
    "fan-out": Bench(turn_cost.fan_out, 100),
    "flat": Bench(turn_cost.flat, 2),
    "entries": Bench(entries.entries, 100),
    "postgresql": Bench(postgresql.postgresql, 1),
    "listing": Bench(listing.listing, 1),
    "search": Bench(search.search, 1),
    "opening": Bench(opening.opening, 1),
    "bytes": Bench(turn_bytes.turn_bytes, 1),
    "verify": Bench(history.verify, 1),
    "replay": Bench(history.replay, 1),
    "fork": Bench(fork_bytes.fork_bytes, 1),
    "as-of": Bench(as_of.as_of, 1),
    "erase": Bench(erasing.erasing, 1),
    "borrow": Bench(borrow.borrow, 3),
    "lua": Bench(lua.lua, 1),
    "rounds": Bench(rounds.rounds, 1),
}
FIGURES = {
    **turn_cost.FIGURES,
    **entries.FIGURES,
    **postgresql.FIGURES,
    **listing.FIGURES,
    **search.FIGURES,
    **opening.FIGURES,
    **turn_bytes.FIGURES,
    **history.FIGURES,
    **fork_bytes.FIGURES,
    **as_of.FIGURES,
    **erasing.FIGURES,
    **borrow.FIGURES,
    **lua.FIGURES,
    **rounds.FIGURES,
}


def main(argv: Sequence[str] | None = None) -> int:
    description = str(agentos.testing.bench.__doc__).splitlines()[0]
    parser = argparse.ArgumentParser(prog="agentos.testing.bench", description=description)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bound is missed")
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="all when none is named")
    options = parser.parse_args(argv)
    begun = time.perf_counter()
    results = results_of(FIGURES, run(options.rounds, options.names or list(BENCHES)))
    print(table(results))
    missed = sum(result.missed for result in results)
    print(
        f"\n{len(results)} figures, {missed} missed, {time.perf_counter() - begun:.0f} s; value: the ratio ours / other,"
    )
    print("or ours where there is no other; medians over rounds or repetitions, with the middle half of the values")
    return 1 if missed and options.strict else 0


def run(rounds_of_all: int, names: Sequence[str]) -> Samples:
    """Every benchmark in turn, round by round."""
    samples: Samples = {}
    for number in range(rounds_of_all):
        for name in names:
            if number < BENCHES[name].rounds_max:
                with tempfile.TemporaryDirectory(prefix="agentos-bench-") as folder:
                    for figure, taken in asyncio.run(BENCHES[name].run(Path(folder))).items():
                        samples.setdefault(figure, []).extend(taken)
    return samples


if __name__ == "__main__":
    sys.exit(main())
