"""A store of any kind against its anchors: what goes on is no difference; what was cut off, deleted, put back or made anew
is named, which the store by itself does not tell."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import AnchorRefused, UnknownConversation
from agentos.history import anchor_store, copy_store, read_anchors, verify_store
from agentos.persistence.base import Store
from tests.history.anchor_support import KINDS, Make, maker, named, work
from tests.history.erasing import erase_by_hand
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, office

HELD = "note text=held"


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return maker(request.param, request, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors.jsonl"


async def anchored(store: Store, file: Path) -> None:
    await anchor_store(store, file)
    await store.close()


async def test_a_store_that_goes_on_agrees_with_its_anchors(make: Make, file: Path, desk: Desk) -> None:
    clerk = await work(make("store"), desk, "note text=a")
    await anchored(make("store"), file)
    await work(make("store"), desk, "ask_aide task='note text=b'", clerk)
    await work(make("store"), desk, "note text=new")
    await anchored(make("store"), file)
    await work(make("store"), desk, "note text=last", clerk)
    store = make("store")
    report = await verify_store(store, anchors=read_anchors(file))
    await store.close()

    assert report.ok, report.differences
    assert report.proof is not None
    assert report.proof.anchor == 2
    assert 0 < report.proof.entries < report.entries
    assert "unkeyed check only" in str(report.proof)


async def test_a_store_that_was_put_back_is_named(make: Make, file: Path, desk: Desk) -> None:
    clerk = await work(make("store"), desk, "note text=a")
    await copy_store(store := make("store"), make("earlier"))
    await store.close()
    await anchored(make("store"), file)
    await work(make("store"), desk, "note text=b", clerk)
    new = await work(make("store"), desk, "note text=new")
    await anchored(make("store"), file)
    earlier = make("earlier")
    row = await earlier.log(clerk)
    alone = await verify_store(earlier)
    report = await verify_store(earlier, anchors=read_anchors(file))
    with pytest.raises(AnchorRefused, match=r"does not go on from anchor 2 .*begin another file"):
        await anchor_store(earlier, file)
    await earlier.close()

    assert row is not None
    assert alone.ok, alone.differences
    assert {(clerk, "logs", "seq"), (new, "logs", "row"), ("store", "logs", "heads")} <= named(report)
    (cut,) = [one for one in report.differences if one.log == clerk]
    assert (cut.seq, cut.stored) == (row.seq + 1, row.seq)
    assert len(read_anchors(file).records) == 2


async def test_a_log_that_was_made_anew_is_named_at_the_first_anchor_that_it_differs_from(
    make: Make, file: Path, desk: Desk
) -> None:
    clerk = await work(make("store"), desk, "note text=a")
    await copy_store(store := make("store"), make("remade"))
    await store.close()
    await anchored(make("store"), file)
    for text in ("true", "also true"):
        await work(make("store"), desk, f"note text='{text}'", clerk)
        await anchored(make("store"), file)
    for text in ("false", "also false"):
        await work(make("remade"), desk, f"note text='{text}'", clerk)
    remade = make("remade")
    alone = await verify_store(remade)
    report = await verify_store(remade, log=clerk, anchors=read_anchors(file))
    await remade.close()

    assert alone.ok, alone.differences
    (found,) = report.differences
    assert (found.log, found.table, found.field) == (clerk, "entries", "digest")
    assert found.seq == read_anchors(file).points[clerk][1].seq
    assert "by anchor 2 of " in str(found.expected)


async def test_forks_and_erased_bodies_are_no_difference(tmp_path: Path, file: Path, desk: Desk) -> None:
    make = maker("sqlite", None, tmp_path)  # type: ignore[arg-type]  # only PostgreSQL asks for it
    async with office(make("store"), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        await anchor_store(kernel.store, file)
        upto = ends_of_units(await kernel.store.entries(clerk.id))[1]
        assert await fork(kernel, clerk.id, upto)
        await anchor_store(kernel.store, file)
    erase_by_hand(tmp_path / "store.db", "clerk")
    store = make("store")
    report = await verify_store(store, anchors=read_anchors(file))
    await anchored(store, file)

    assert report.ok, report.differences


async def test_a_log_that_is_gone_is_named_when_only_it_is_asked_for(tmp_path: Path, file: Path, desk: Desk) -> None:
    make = maker("sqlite", None, tmp_path)  # type: ignore[arg-type]
    await work(make("store"), desk, "note text=a")
    await copy_store(store := make("store"), make("earlier"))
    gone = await work(store, desk, "note text=new")
    await anchored(make("store"), file)
    earlier = make("earlier")
    report = await verify_store(earlier, log=gone, anchors=read_anchors(file))
    with pytest.raises(UnknownConversation):
        await verify_store(earlier, log=gone)
    await earlier.close()

    assert [(one.log, one.table, one.field) for one in report.differences] == [(gone, "logs", "row")]


async def test_numbers_of_writers_that_go_back_are_named(tmp_path: Path, file: Path, desk: Desk) -> None:
    make = maker("sqlite", None, tmp_path)  # type: ignore[arg-type]
    await work(make("store"), desk, "note text=a")
    await anchored(make("store"), file)
    with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        db.execute("delete from writers")
        db.execute("update logs set owner = 0, epoch = 0")
    store = make("store")
    report = await verify_store(store, anchors=read_anchors(file))
    await store.close()

    assert {("store", "writers", "n")} < named(report)
    assert {(table, field) for log, table, field in named(report) if log != "store"} == {("logs", "epoch")}
