"""`make torture`: real processes, real stores, real SIGKILL, until nothing is left to chance.

    python -m agentos.testing.torture --kills 100 --seed 1
    python -m agentos.testing.torture --store postgresql --server-kills 10

Each life is a process of its own over one store. It takes up what the last one left, sends new inputs, and is killed at a
point that the seed chooses: so many signs of life after it began (a model asked, a tool before or after its effect, an
input acknowledged). Tools append a line with their call's key to an effect file and sync it. The last life ends everything,
and asks every conversation once more; then the store and the effect file must tell the same story. With --server-kills it
is the PostgreSQL server that is killed, under one kernel that goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from agentos.errors import ConfigurationError
from agentos.testing.torture_checks import Findings
from agentos.testing.torture_places import STORES, Place, place_of
from agentos.testing.torture_run import SIGNS, Run, findings_of, kill_kernels, kill_servers

KILLS = 100
BROKEN_MAX = 50
Column = Mapping[str, object]


class Report:
    """What became of one store: a column of the table, and the promises that were broken."""

    def __init__(self, name: str, run: Run, findings: Findings, elapsed_s: float) -> None:
        self.name = name
        self.column = _column(run, findings, elapsed_s)
        self.broken = [*run.broken, *findings.broken]
        count = findings.counts.get("conversations", 0)
        if len(run.resumable) != count or not count:
            self.broken.append(f"of {count} conversations {len(run.resumable)} could go on in the end")


def torture(stores: Sequence[str], kills: int, server_kills: int, seed: int) -> Iterator[Report]:
    """One store after the other, each with the same seed. Raises ConfigurationError."""
    for store in stores:
        if kills:
            with place_of(store) as place:
                yield _report(place.name, place, time.monotonic(), kill_kernels(place, kills, seed))
        if server_kills and store == "postgresql":
            with place_of(store) as place:
                yield _report("server killed", place, time.monotonic(), kill_servers(place, server_kills, seed))


def _report(name: str, place: Place, began: float, run: Run) -> Report:
    return Report(name, run, findings_of(place, run), time.monotonic() - began)


def _column(run: Run, findings: Findings, elapsed_s: float) -> Column:
    column: dict[str, object] = {"lives": run.lives, "kills of the kernel": run.kills.total()}
    column |= {f"  at: {says}": run.kills[sign] for sign, says in SIGNS.items() if run.kills[sign]}
    column |= {"kills of the server": run.servers.total()}
    column |= {f"  {how}": count for how, count in sorted(run.servers.items())}
    column |= {"commands refused, store out of reach": run.refused, "a death noticed after, ms at most": run.noticed_ms}
    column |= {"inputs acknowledged": len(run.acknowledged), **findings.counts}
    everyone = len(run.resumable) == findings.counts.get("conversations", 0)
    return column | {"every conversation resumable": "yes" if everyone else "NO", "seconds": f"{elapsed_s:.0f}"}


def table(columns: Sequence[tuple[str, Column]]) -> str:
    """What a person reads: a column for each store, and a row for all that one of them has."""
    names = _in_order([list(column) for _, column in columns])
    lines = [f"{'':38}" + "".join(f"{store:>15}" for store, _ in columns)]
    lines += [f"{name:38}" + "".join(f"{column.get(name, '-')!s:>15}" for _, column in columns) for name in names]
    return "\n".join(lines)


def _in_order(columns: Sequence[Sequence[str]]) -> list[str]:
    """All names, each behind the one that it follows where it is first found."""
    names: list[str] = []
    for column in columns:
        place = 0
        for name in column:
            if name in names:
                place = names.index(name) + 1
            else:
                names.insert(place, name)
                place += 1
    return names


def tell_broken(broken: Sequence[str]) -> int:
    """Prints what was broken, or that nothing was; the exit code."""
    for problem in broken[:BROKEN_MAX]:
        print(f"broken: {problem}")
    print("ok" if not broken else f"{len(broken)} promises broken")
    return int(bool(broken))


def stores_of(name: str) -> Sequence[str]:
    return STORES if name == "all" else (name,)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="agentos.testing.torture",
        description="Kills kernels, or the server of their store, and looks what is left.",
    )
    parser.add_argument(
        "--store", default="all", help=f"{', '.join(STORES)}, all (the usual), or the URL of an empty one"
    )
    parser.add_argument("--kills", type=int, help=f"of the kernel, in each store; {KILLS} unless servers are killed")
    parser.add_argument("--server-kills", type=int, default=0, help="of the PostgreSQL server, under one kernel")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    stores = stores_of(options.store)
    if options.server_kills and "postgresql" not in stores:
        parser.error("--server-kills needs a server of its own: --store postgresql, or all")
    kills = options.kills if options.kills is not None else 0 if options.server_kills else KILLS
    reports = []
    try:
        for report in torture(stores, kills, options.server_kills, options.seed):
            reports.append(report)
            print(f"{report.name}: {len(report.broken)} promises broken", file=sys.stderr)
    except ConfigurationError as error:
        parser.error(str(error))
    print(table([(report.name, report.column) for report in reports]))
    return tell_broken(list(chain.from_iterable([f"{one.name}: {what}" for what in one.broken] for one in reports)))


if __name__ == "__main__":
    sys.exit(main())
