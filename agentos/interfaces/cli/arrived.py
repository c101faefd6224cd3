"""What an import of a bundle has stored, for people."""

from __future__ import annotations

from agentos.history.bundle.arrival import Arrived, ArrivedLog
from agentos.history.bundle.declared import Declared
from agentos.interfaces.cli.output import counted, put, say

SHOWN_MAX = 20
"""How many conversations are told one by one; --json has all."""


def put_arrived(file: str, arrived: Arrived, *, dry_run: bool) -> None:
    """A line for the bundle and each conversation on stdout; what was left out, and would have run, on stderr."""
    verb = "would take" if dry_run else "took"
    taken = [log for log in arrived.conversations if log.place != "there"]
    there = len(arrived.conversations) - len(taken)
    put(
        f"{file}: {verb} {counted(len(taken), 'conversation')} with {arrived.entries:,} entries and"
        f" {counted(arrived.definitions, 'definition')}; {there:,} {'was' if there == 1 else 'were'} there already"
    )
    for log in taken[:SHOWN_MAX]:
        put(f"  {log.conversation} of agent {log.agent}: {log.place}, {log.entries:,} entries{_paused(log)}")
    if len(taken) > SHOWN_MAX:
        put(f"  and {len(taken) - SHOWN_MAX:,} more")
    if arrived.left_out:
        counts = ", ".join(_logs(kind, count) for kind, count in arrived.left_out.items())
        say(f"{file}: left out, since nothing is installed by an import: {counts}")
    _say_declared(file, arrived.declared)


def _logs(kind: str, count: int) -> str:
    one = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
    many = f"{kind}es" if kind.endswith("x") else f"{kind}s"
    return f"{counted(count, 'log')} of {one if count == 1 else many}"


def _paused(log: ArrivedLog) -> str:
    return f"; paused, 'agentos unpause {log.conversation}' lets it go on" if log.paused else ""


def _say_declared(file: str, declared: Declared) -> None:
    """One line for each kind of thing that is named."""
    for what in Declared.__struct_fields__:
        names = getattr(declared, what)
        if names:
            say(f"{file}: {what} that its definitions name, and that nothing here runs by itself: {', '.join(names)}")
