"""make show-tamper: tampers with copies of a store in every way there is, and lets verify name what was done.

The store is that of the demo, or the one that is given, with two conversations more; without any, it has these alone. It
is anchored twice, with a key. Then each row of the table that is printed is one tampering with one copy.

    alone    what verify finds in the store by itself
    anchor   what it finds with the file of anchors
    key      what it finds with the key, where whoever tampered made the anchors anew, too
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import agentos
from agentos import AgentSpec, Kernel, tool
from agentos.history import Anchors, Report, anchor_store, read_anchors, verify_store
from agentos.history.anchors.keys import AnchorKey
from agentos.models import ScriptedModel
from agentos.persistence import open_store
from agentos.secrets import Secret
from agentos.settings import Settings
from agentos.testing.tamper_file import tamper_with_file_store
from agentos.testing.tampering import TAMPERINGS, Named, Scene, Tampering, forge
from agentos.toolboxes.python import PythonToolbox

DEMO = Path(".agentos/demo.db")
KEY = AnchorKey(Secret("a key of this show alone, and of no store"))
FEW_ENTRIES = 10
"""After how many a snapshot is taken, so that this store has one."""
COLUMNS = ("tampering", "what was done", "alone", "anchor", "key", "named")
LEGEND = (
    "alone: in the store by itself; anchor: with the file of anchors beside it; key: with the key of the anchors, too\n"
)
FOUND, BLIND = "found", "-"


class Row(NamedTuple):
    """One tampering: where it was found, whether that is where it has to be, and what was named."""

    name: str
    what: str
    alone: str
    anchor: str
    key: str
    named: str
    right: bool


def main(argv: Sequence[str] | None = None) -> int:
    """0 when verify finds nothing before, and names every tampering after it."""
    parser = argparse.ArgumentParser(prog="agentos.testing.tamper", description=main.__doc__)
    parser.add_argument("store", nargs="?", type=Path, help=f"the file of a store ({DEMO} when there is one)")
    given: Path | None = parser.parse_args(argv).store
    with tempfile.TemporaryDirectory(prefix="agentos-tamper-") as folder:
        return asyncio.run(show(given or (DEMO if DEMO.exists() else None), Path(folder)))


async def show(source: Path | None, folder: Path) -> int:
    """Makes the store, tampers with its copies, and prints the table."""
    print(f"copied {source}" if source is not None else "made a small store")
    scene = await make_scene(source, folder)
    anchors = read_anchors(folder / "anchors.jsonl")
    before = await verified(scene.path, anchors, KEY)
    print(f"verify before: {before}\n{before.proof}\n")
    rows = [
        await tampered(tampering, scene, folder / f"copy-{n}.db", anchors) for n, tampering in enumerate(TAMPERINGS)
    ]
    rows.append(await forged_with_anchors(scene, folder))
    rows.append(Row(*await tamper_with_file_store(f"sqlite:///{scene.path}", folder / "files", scene.grown)))
    print(LEGEND)
    print_table(rows)
    right = sum(row.right for row in rows)
    print(f"\n{right} of {len(rows)} are found and named as they have to be")
    return 0 if before.ok and right == len(rows) else 1


async def make_scene(source: Path | None, folder: Path) -> Scene:
    """The store, and the same before the last turn of one of its conversations; both are anchored."""
    path, earlier = folder / "store.db", folder / "earlier.db"
    if source is not None:
        copy_store(source, path)
    async with agentos.open(f"sqlite:///{path}") as kernel:
        await _install_keeper(kernel)
        grown = await kernel.start("keeper")
        await grown.ask("the key is under the mat")
    await _anchor(path, folder)
    copy_store(path, earlier)
    async with agentos.open(f"sqlite:///{path}", settings=Settings(snapshot_entries=FEW_ENTRIES)) as kernel:
        await _install_keeper(kernel)
        await (await kernel.get(grown.id)).ask("the key is in the pot")
        new = await kernel.start("keeper")
        await new.ask("the cat is on the roof")
        await (await kernel.start("master")).ask("the dog is in the yard")
    await _anchor(path, folder)
    return Scene(path, earlier, grown.id, new.id)


async def tampered(tampering: Tampering, scene: Scene, copy: Path, anchors: Anchors) -> Row:
    """One tampering with a copy, and what verify says of it."""
    copy_store(scene.path, copy)
    named = tampering.done(scene._replace(path=copy))
    alone, anchored = await verified(copy), await verified(copy, anchors)
    by_alone, by_anchor = _found(alone, named), _found(anchored, named)
    right = by_anchor and by_alone == tampering.alone and alone.ok != tampering.alone
    return Row(tampering.name, tampering.what, _word(by_alone), _word(by_anchor), "", _place(anchored, named), right)


async def forged_with_anchors(scene: Scene, folder: Path) -> Row:
    """The forger has the file of anchors, too, and makes another one; the key he has not."""
    forged = folder / "forged.db"
    copy_store(scene.path, forged)
    with closing(sqlite3.connect(forged)) as db, db:
        forge(db, scene._replace(path=forged))
    made = folder / "forged.jsonl"
    store = open_store(f"sqlite:///{forged}")
    try:
        await anchor_store(store, made)
    finally:
        await store.close()
    anchors, named = read_anchors(made), Named("anchors", 1, "anchor", "key_id")
    alone, anchored, keyed = (
        await verified(forged),
        await verified(forged, anchors),
        await verified(forged, anchors, KEY),
    )
    right = alone.ok and anchored.ok and _found(keyed, named)
    words = (_word(not alone.ok), _word(not anchored.ok), _word(_found(keyed, named)))
    return Row("forge all", "the same, and the anchors are made anew, too", *words, _place(keyed, named), right)


def copy_store(source: Path, copy: Path) -> None:
    """A whole copy, also of a store at work. Raises sqlite3.Error."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(copy)) as writing,
    ):
        reading.backup(writing)


async def verified(path: Path, anchors: Anchors | None = None, key: AnchorKey | None = None) -> Report:
    store = open_store(f"sqlite:///{path}")
    try:
        return await verify_store(store, anchors=anchors, keys=[key] if key is not None else ())
    finally:
        await store.close()


def print_table(rows: Sequence[Row]) -> None:
    """As wide as it needs to be."""
    cells = [COLUMNS, *((row.name, row.what, row.alone, row.anchor, row.key, row.named) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    for row in cells:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


async def _anchor(path: Path, folder: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    try:
        await anchor_store(store, folder / "anchors.jsonl", key=KEY)
    finally:
        await store.close()


async def _install_keeper(kernel: Kernel) -> None:
    """An agent that keeps notes."""

    @tool
    async def keep(text: str) -> str:
        """Keeps a text."""
        return f"kept: {text}"

    call = {"tool": "keep", "arguments": {"text": "{input}"}}
    model = ScriptedModel([{"calls": [call]}, {"text": "I kept it ({results})."}])
    await kernel.add_toolbox(PythonToolbox("kept_notes", [keep]))
    await kernel.install(AgentSpec(slug="keeper", toolboxes=["kept_notes"]), model=model)
    asks = {"tool": "ask_keeper", "arguments": {"task": "{input}"}}
    master = ScriptedModel([{"calls": [asks]}, {"text": "It is kept."}])
    await kernel.install(AgentSpec(slug="master", subagents=["keeper"]), model=master)


def _found(report: Report, named: Named) -> bool:
    return any(named.fits(difference) for difference in report.differences)


def _word(found: bool) -> str:
    return FOUND if found else BLIND


def _place(report: Report, named: Named) -> str:
    """What was named, or, where that is not what has to be, what was."""
    found = next((one for one in report.differences if named.fits(one)), None)
    if found is not None:
        return str(named._replace(seq=found.seq))
    return f"NOT {named}; named: {'; '.join(map(str, report.differences[:3])) or 'nothing'}"


if __name__ == "__main__":
    sys.exit(main())
