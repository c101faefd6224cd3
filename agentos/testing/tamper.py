"""make show-tamper: edits a copy of a store by hand, and lets verify name what was edited.

One entry, one payload and one row of `messages` are changed with plain sqlite3, as anybody with the file could. The
store is that of the demo, or the one that is given; without any, a small one is made by a kernel of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

import agentos
from agentos import AgentSpec, tool
from agentos.history import Difference, Report, verify_store
from agentos.models import ScriptedModel
from agentos.persistence import open_store
from agentos.toolboxes.python import PythonToolbox

DEMO = Path(".agentos/demo.db")

_ENTRY = (
    "select logs.id, entries.n, entries.seq from entries join logs using (n)"
    " where entries.kind = 'call.finished' and head like '%\"status\":\"done\"%'"
    " order by entries.n, entries.seq limit 1"
)
_PAYLOAD = (
    "select logs.id, payloads.n, payloads.seq from payloads join logs using (n)"
    " where name = 'arguments' and body is not null order by payloads.n desc, payloads.seq limit 1"
)
_MESSAGE = (
    "select logs.id, messages.n, messages.seq from messages join logs using (n)"
    " where role = 'assistant' and length(text) > 0 order by messages.n, messages.seq desc limit 1"
)
EDITS = (
    (
        "entries",
        "head",
        "a call that was done becomes one that failed",
        _ENTRY,
        'update entries set head = replace(head, \'"status":"done"\', \'"status":"failed"\') where n = ? and seq = ?',
    ),
    (
        "payloads",
        "body",
        "a call gets other arguments",
        _PAYLOAD,
        "update payloads set body = '{\"text\":\"something else\"}' where n = ? and seq = ? and name = 'arguments'",
    ),
    (
        "messages",
        "text",
        "an agent said something else",
        _MESSAGE,
        "update messages set text = 'I never said that.' where n = ? and seq = ?",
    ),
)
"""Table, column, what it does, how its place is found, and the statement."""


class Edited(msgspec.Struct, frozen=True):
    """What was edited, and where."""

    log: str
    seq: int
    table: str
    column: str
    what: str

    def is_named_by(self, difference: Difference) -> bool:
        place = (difference.log, difference.seq, difference.table, difference.field)
        return place == (self.log, self.seq, self.table, self.column)

    def __str__(self) -> str:
        return f"{self.log} seq {self.seq}, {self.table}.{self.column}: {self.what}"


def main(argv: Sequence[str] | None = None) -> int:
    """0 when verify finds nothing before, and names all three edits after."""
    parser = argparse.ArgumentParser(prog="agentos.testing.tamper", description=main.__doc__)
    parser.add_argument("store", nargs="?", type=Path, help=f"the file of a store ({DEMO} when there is one)")
    given: Path | None = parser.parse_args(argv).store
    with tempfile.TemporaryDirectory(prefix="agentos-tamper-") as folder:
        return asyncio.run(show(given or (DEMO if DEMO.exists() else None), Path(folder) / "copy.db"))


async def show(source: Path | None, copy: Path) -> int:
    """Copies a store, or makes one, edits it, and prints what verify says before and after."""
    if source is None:
        print("made a small store")
        await make_store(copy)
    else:
        print(f"copied {source}")
        copy_store(source, copy)
    before = await verified(copy)
    print(f"verify before: {before}\n")
    edits = edit(copy)
    for edited in edits:
        print(f"edited {edited}")
    after = await verified(copy)
    print(f"\nverify after: {after}")
    named = [any(edited.is_named_by(difference) for difference in after.differences) for edited in edits]
    for difference in after.differences:
        print(f"  {difference}")
    print(f"\n{sum(named)} of {len(EDITS)} edits are named")
    return 0 if before.ok and named == [True] * len(EDITS) else 1


def copy_store(source: Path, copy: Path) -> None:
    """A whole copy, also of a store at work. Raises sqlite3.Error."""
    reading, writing = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
    try:
        reading.backup(writing)
    finally:
        reading.close()
        writing.close()


def edit(path: Path) -> list[Edited]:
    """Makes every edit that finds its place."""
    made: list[Edited] = []
    db = sqlite3.connect(path)
    try:
        for table, column, what, find, change in EDITS:
            for log, n, seq in db.execute(find).fetchall():
                db.execute(change, (n, seq))
                made.append(Edited(log, seq, table, column, what))
        db.commit()
    finally:
        db.close()
    return made


async def verified(path: Path) -> Report:
    store = open_store(f"sqlite:///{path}")
    try:
        return await verify_store(store)
    finally:
        await store.close()


async def make_store(path: Path) -> None:
    """Two conversations of an agent that keeps notes."""

    @tool
    async def keep(text: str) -> str:
        """Keeps a text."""
        return f"kept: {text}"

    call = {"tool": "keep", "arguments": {"text": "{input}"}}
    model = ScriptedModel([{"calls": [call]}, {"text": "I kept it ({results})."}])
    async with agentos.open(f"sqlite:///{path}") as kernel:
        await kernel.add_toolbox(PythonToolbox("notes", [keep]))
        await kernel.install(AgentSpec(slug="keeper", toolboxes=["notes"]), model=model)
        for text in ("the key is under the mat", "the cat is on the roof"):
            await (await kernel.start("keeper")).ask(text)


if __name__ == "__main__":
    sys.exit(main())
