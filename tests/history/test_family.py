"""A conversation with all below it: each is decided again, and the heads that parents name are those of their children."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentos.errors import UnknownConversation
from agentos.history import Divergence, Identical, family_of, replay_family, replay_log
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore
from tests.history.support import Desk, office


async def grown(store: Store, desk: Desk) -> str:
    """A clerk that asks an aide, and twice a helper who asks an aide; and another clerk."""
    async with office(store, desk) as kernel:
        clerk, other = await kernel.start("clerk"), await kernel.start("clerk")
        await clerk.ask("ask_aide task='note text=a'\nask_helper task='ask_aide task=\"note text=b\"'")
        await clerk.ask("ask_helper task='note text=c'")
        await other.ask("ask_aide task='note text=d'")
    await store.open("a reader")
    return clerk.id


async def test_a_family_is_decided_again_parents_first(store: Store, desk: Desk) -> None:
    root = await grown(store, desk)
    results = await replay_family(store, root)
    rows = await family_of(store, root)

    assert all(isinstance(result, Identical) for result in results)
    assert [result.log for result in results] == [row.id for row in rows]
    assert (len(rows), rows[0].id) == (4, root)
    assert {row.root for row in rows} == {root}


async def test_a_part_of_a_family_begins_where_it_is_told(store: Store, desk: Desk) -> None:
    root = await grown(store, desk)
    sizes = [len(await replay_family(store, row.id)) for row in await family_of(store, root)]

    assert sorted(sizes) == [1, 1, 2, 4]


async def test_an_unknown_root_is_refused(store: Store, desk: Desk) -> None:
    await grown(store, desk)

    with pytest.raises(UnknownConversation):
        await replay_family(store, "conversation_01kb7hk587xcaaaaaaaaaaaaaa")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (
            "update entries set digest = x'00' where n = {n} and seq = (select max(seq) from entries where n = {n})",
            "unit",
        ),
        ("delete from logs where n = {n}", "is not there"),
    ],
)
async def test_a_child_that_is_not_what_it_was_is_named_in_its_parent(
    tmp_path: Path, desk: Desk, sql: str, why: str
) -> None:
    path = tmp_path / "family.db"
    made = SQLiteStore(str(path))
    root = await grown(made, desk)
    await made.close()
    with closing(sqlite3.connect(path)) as db:
        ((n,),) = db.execute("select n from conversations where agent = 'aide' and parent = ?", (root,)).fetchall()
        db.execute(sql.format(n=n))
        db.commit()
    store = SQLiteStore(str(path))
    results = await replay_family(store, root)
    alone = await replay_log(store, root)
    await store.close()

    assert isinstance(alone, Identical), "its own log is what it was"
    assert isinstance(results[0], Divergence)
    assert (results[0].kind, results[0].field) == ("call.finished", "data.child_head")
    assert why in results[0].produced["data.child_head"]
