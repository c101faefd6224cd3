"""A parent that was cut off before it took its child's answer finds it in its inbox after an import."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Outcome
from agentos.history import Identical, verify_store
from agentos.history.bundle import BundleReader, export_bundle, import_bundle
from agentos.history.heads import digest_of_heads
from agentos.persistence.base import LogRow
from agentos.persistence.memory import MemoryStore
from tests.bundle.archive_support import edit_lines, forged, manifest_of
from tests.history.support import Desk, office, replayed, settled

Lines = list[dict[str, Any]]


def cut_before(source: Path, target: Path, log: str, kind: str) -> Path:
    """The bundle as it would have been had it been exported before the log took this entry."""
    (part,) = [part for part in manifest_of(source).logs if part.id == log]
    last: list[dict[str, Any]] = []

    def cut(lines: Lines) -> None:
        first = next(n for n, line in enumerate(lines) if line["kind"] == kind)
        del lines[next(n for n, line in enumerate(lines) if line["unit"] == lines[first]["unit"]) :]
        last.append(lines[-1])

    def say(manifest: dict[str, Any]) -> None:
        (one,) = [one for one in manifest["logs"] if one["id"] == log]
        one.update(seq=last[0]["seq"], digest=last[0]["digest"])
        manifest["heads"] = digest_of_heads(
            LogRow(id=row["id"], kind="", owner=0, epoch=0, seq=row["seq"], digest=bytes.fromhex(row["digest"]))
            for row in manifest["logs"]
        )

    return forged(source, target, edit_lines(part.file, cut), say)


@pytest.mark.parametrize("task", ["note text=deep", "fail text=deep"])
async def test_the_answer_is_there_and_the_child_does_not_run_again(
    task: str, tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source, store = fresh(), fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(f"ask_helper task='{task}'")
        await export_bundle(source, tmp_path / "whole.zip", conversation=clerk.id)
        expected = [entry for entry in await source.entries(clerk.id) if entry.kind == "call.finished"]
    path = cut_before(tmp_path / "whole.zip", tmp_path / "cut.zip", clerk.id, "call.finished")
    with BundleReader(path) as bundle:
        arrived = await import_bundle(store, bundle)
    notes = list(desk.notes)

    assert [log.paused for log in arrived.conversations] == [True, False]
    (waiting,) = await store.inbox()
    assert waiting.log == clerk.id
    async with office(store, desk) as kernel:
        assert await kernel.recover() == []
        await (await kernel.get(clerk.id)).unpause()
        await settled(kernel, [clerk.id])
        found = [entry for entry in await store.entries(clerk.id) if entry.kind == "call.finished"]
        outcome = await kernel.outcome(clerk.id)

    assert outcome is None or outcome.outcome is Outcome.COMPLETED
    assert [_said(entry.head) for entry in found] == [_said(entry.head) for entry in expected]
    assert [body for _, _, _, body in found[0].payloads] == [body for _, _, _, body in expected[0].payloads]
    assert desk.notes == notes
    report = await verify_store(store)
    assert report.ok, report.differences
    for result in await replayed(store):
        assert isinstance(result, Identical), result


async def test_a_child_that_still_works_has_not_answered(
    tmp_path: Path, desk: Desk, fresh: Callable[[], MemoryStore]
) -> None:
    source, store = fresh(), fresh()
    async with office(source, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.send("ask_helper task='wait text=a'")
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        await export_bundle(source, tmp_path / "open.zip", conversation=clerk.id)
        desk.gate.set()

    with BundleReader(tmp_path / "open.zip") as bundle:
        arrived = await import_bundle(store, bundle)

    assert [log.paused for log in arrived.conversations] == [True, True]
    assert await store.inbox() == []


def _said(head: str) -> object:
    return json.loads(head)["data"]
