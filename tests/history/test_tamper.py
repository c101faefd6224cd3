"""make show-tamper tampers with copies of a store, and verify names all that was done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentos.history import anchor_store, read_anchors
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.tamper import copy_store, main, make_scene, verified
from agentos.testing.tampering import TAMPERINGS, Named, Scene, Tampering
from tests.history.support import Desk, office


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    return await make_scene(None, tmp_path)


def test_everything_is_found_and_named_in_a_store_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main([]) == 0
    said = capsys.readouterr().out
    assert "verify before: ok" in said
    assert said.endswith(f"{len(TAMPERINGS) + 2} of {len(TAMPERINGS) + 2} are found and named as they have to be\n")
    assert re.search(r"^truncate +.* +- +found +…\w{8} seq \d+: logs\.seq$", said, re.MULTILINE)
    assert re.search(r"^forge all +.* +- +- +found +anchors seq 1: anchor\.key_id$", said, re.MULTILINE)
    assert "NOT" not in said
    assert not list(tmp_path.iterdir())


def test_what_is_not_found_is_said_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = Tampering(
        "nothing", "a copy that nobody touched", lambda _, scene: Named(scene.new, 1, "entries", "head")
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("agentos.testing.tamper.TAMPERINGS", (nothing,))

    assert main([]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^nothing .* NOT …\w{8} seq 1: entries\.head; named: nothing$", said, re.MULTILINE)
    assert said.endswith("2 of 3 are found and named as they have to be\n")


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.name)
async def test_each_is_named_with_its_place(scene: Scene, tmp_path: Path, tampering: Tampering) -> None:
    copy = tmp_path / "copy.db"
    copy_store(scene.path, copy)
    named = tampering.done(scene._replace(path=copy))
    alone = await verified(copy)
    anchored = await verified(copy, read_anchors(tmp_path / "anchors.jsonl"))

    assert any(map(named.fits, anchored.differences)), [str(one) for one in anchored.differences]
    assert any(map(named.fits, alone.differences)) == tampering.alone, [str(one) for one in alone.differences]
    assert alone.ok != tampering.alone


async def test_a_store_that_nobody_tampered_with_has_no_difference(scene: Scene, tmp_path: Path) -> None:
    report = await verified(scene.path, read_anchors(tmp_path / "anchors.jsonl"))
    earlier = await verified(scene.earlier)

    assert report.ok, report.differences
    assert earlier.ok, earlier.differences


async def test_the_store_itself_stays_as_it_is(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "given.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        await (await kernel.start("clerk")).ask("note text=a")
    before = bytes_of(path)

    from anyio.to_thread import run_sync

    assert await run_sync(main, [str(path)]) == 0
    assert bytes_of(path) == before


async def test_an_anchor_changes_nothing_in_the_store(scene: Scene, tmp_path: Path) -> None:
    store = SQLiteStore(str(scene.path))
    before = bytes_of(scene.path)
    await anchor_store(store, tmp_path / "more.jsonl")
    await store.close()

    assert bytes_of(scene.path) == before


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()
