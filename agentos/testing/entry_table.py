"""`python -m agentos.testing.entry_table > docs/entries.md`: the entry kinds as a page, from the table that the code uses."""

from __future__ import annotations

import sys

from agentos.components import Phase
from agentos.events.kinds import KINDS, MESSAGE_ROLES, EntryData

HEAD = """# Entry kinds

Made from `agentos/events/kinds` by `python -m agentos.testing.entry_table`; a test keeps it true.

An entry has a head, which the log attests (at, kind, seq, unit, writer, turn, call, by, cause, the data below, component
changes, commitments), and payloads, which are private and stand beside it. *Fed* entries record one item of intake; replay
rebuilds the intake of a unit from them. A kind may be fed in one case and decided in another: a lost model request, a call
that is denied, invalid, lost or never started, and the settling of a turn whose system raised are decided.

| kind | fed | written by | what it says | data | payloads | moves its turn to |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_row(kind) for kind in KINDS.values())


def _row(kind: type[EntryData]) -> str:
    data = ", ".join(f"`{field}`" for field in kind.__struct_fields__)
    payloads = ", ".join(kind.private)
    if kind.kind in MESSAGE_ROLES:
        payloads += f" (the first is a message of role {MESSAGE_ROLES[kind.kind]})"
    after = ", ".join(phase.name for phase in Phase if phase in kind.after) or "-"
    says = " ".join((kind.__doc__ or "").split())
    fed = "yes" if kind.fed else ""
    return f"| {kind.kind} | {fed} | {kind.writer} | {says} | {data} | {payloads} | {after} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
