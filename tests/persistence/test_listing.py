"""Conversations a page at a time: the same from every kind of store, and by indexes from SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from agentos.errors import UnknownConversation
from agentos.kernel.listing import COUNTED_MAX, Listing, count_sql, list_conversations, page_sql, whole_sql
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.persistence.schema import metadata
from agentos.testing.many_conversations import RARE_AGENT, TENANT, add_conversations, name_of
from tests.support import Mind, lab

COUNT = 1_500
TENANT_EVERY = 11
EVERY = [
    Listing(),
    Listing(sort="started"),
    Listing(agent="clerk"),
    Listing(agent=RARE_AGENT, sort="started"),
    Listing(state="idle", agent="reader"),
    Listing(state="parked"),
    Listing(state="running", agent="scribe", sort="started"),
    Listing(state="paused"),
    Listing(state="closed", sort="started"),
    Listing(roots=True),
    Listing(parent=name_of(5)),
    Listing(parent=name_of(0), state="idle", sort="started"),
    Listing(agent="nobody"),
    Listing(state="nothing"),
    Listing(tenant=TENANT),
    Listing(tenant=TENANT, agent="clerk", sort="started"),
    Listing(tenant=TENANT, state="idle", roots=True),
    Listing(tenant="nobody"),
    Listing(after=name_of(77)),
    Listing(limit=COUNT),
    Listing(limit=1, after=name_of(77), sort="started"),
]


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    urls = {"memory": "memory:", "file": f"file:{tmp_path}/folder", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres").new_schema_url()
    made = open_store(url)
    await add_conversations(made, await made.open("many"), COUNT, tenant_every=TENANT_EVERY)
    yield made
    await made.close()


async def test_every_kind_of_store_gives_the_same_pages(store: Store) -> None:
    found = await store.query("select conversations.*, logs.tenant from conversations join logs using (n)")
    table = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    tenants = {row["id"]: row["tenant"] for row in table}
    assert len(table) == COUNT
    assert set(tenants.values()) == {TENANT, None}
    for listing in EVERY:
        page = await list_conversations(store, listing)
        expected = _expected(table, listing)

        assert [row.id for row in page.conversations] == expected[: listing.limit], listing
        assert [row.tenant for row in page.conversations] == [tenants[row.id] for row in page.conversations], listing
        assert page.more == len(expected) - len(page.conversations), listing


def _expected(table: list[dict[str, object]], listing: Listing) -> list[object]:
    """By the plainest way there is."""
    order = ("n",) if listing.sort == "started" else ("updated_at", "n")

    def key(row: dict[str, object]) -> tuple[object, ...]:
        return tuple(row[name] for name in order)

    found = sorted(table, key=key, reverse=True)
    if listing.after is not None:
        found = found[next(i for i, row in enumerate(found) if row["id"] == listing.after) + 1 :]
    return [
        row["id"]
        for row in found
        if listing.state in (None, row["state"])
        if listing.agent in (None, row["agent"])
        if listing.tenant in (None, row["tenant"])
        if listing.parent in (None, row["parent"])
        if not listing.roots or row["parent"] is None
    ]


async def test_more_than_a_bound_is_not_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentos.kernel.listing.COUNTED_MAX", 100)
    page = await list_conversations(store, Listing(limit=7))

    assert (len(page.conversations), page.more) == (7, 100)
    assert COUNTED_MAX == 10_000


async def test_pages_are_the_same_where_there_is_more_than_is_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [await list_conversations(store, listing) for listing in EVERY]
    monkeypatch.setattr("agentos.kernel.listing.COUNTED_MAX", 3)

    for listing, page in zip(EVERY, whole, strict=True):
        assert await list_conversations(store, listing) == (page.conversations, min(page.more, 3)), listing


async def test_a_page_behind_nobody_is_refused(store: Store) -> None:
    with pytest.raises(UnknownConversation):
        await list_conversations(store, Listing(after="conversation_nobody"))


async def test_a_kernel_lists_what_it_works_on() -> None:
    async with lab(Mind()) as here:
        ids = [(await here.ask(text)).conversation for text in ("one", "two", "three")]
        page = await here.kernel.page(Listing(limit=2, sort="started"))

        assert [row.id for row in page.conversations] == ids[:0:-1]
        assert page.more == 1
        assert all(early.started_at >= late.started_at for early, late in pairwise(page.conversations))
        assert (await here.kernel.page()).conversations[0].agent == "main"


SORTED = "USE TEMP B-TREE FOR ORDER BY"
TENANTS = ["CORRELATED SCALAR SUBQUERY 1", "SEARCH logs USING INTEGER PRIMARY KEY (rowid=?)"]
"""The look for the tenant of a row that is shown."""
PLANS = [
    (Listing(), ["SEARCH conversations USING INDEX conversations_updated (updated_at<?)"]),
    (Listing(sort="started"), ["SEARCH conversations USING INTEGER PRIMARY KEY (rowid<?)"]),
    (Listing(state="idle"), ["SEARCH conversations USING INDEX conversations_updated (updated_at<?)"]),
    (Listing(roots=True), ["SEARCH conversations USING INDEX conversations_updated (updated_at<?)"]),
    (
        Listing(agent="clerk"),
        ["SEARCH conversations USING INDEX conversations_agent (agent=? AND updated_at<?)"],
    ),
    (
        Listing(agent="clerk", state="idle"),
        ["SEARCH conversations USING INDEX conversations_agent (agent=? AND updated_at<?)"],
    ),
    (Listing(agent="clerk", sort="started"), ["SEARCH conversations USING INTEGER PRIMARY KEY (rowid<?)"]),
    (Listing(state="parked"), ["SEARCH conversations USING INDEX conversations_open (open_turn>?)", SORTED]),
    (
        Listing(state="running", agent="clerk", sort="started"),
        ["SEARCH conversations USING INDEX conversations_open (open_turn>?)", SORTED],
    ),
    (Listing(parent="p"), ["SEARCH conversations USING INDEX conversations_parent (parent=?)", SORTED]),
]
"""The rows of open turns, and those below one conversation, are few: they alone are sorted."""


@pytest.mark.parametrize(("listing", "plan"), PLANS)
async def test_pages_come_from_indexes(tmp_path: Path, listing: Listing, plan: list[str]) -> None:
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.open("somebody")
    await store.close()
    for after in (None, (5, 7)):
        sql, parameters = page_sql(listing) if after is None else page_sql(listing, after)
        with closing(sqlite3.connect(path)) as db:
            found = [row[3] for row in db.execute(f"explain query plan {sql}", (*parameters, 51))]

        assert [line for line in found if line not in TENANTS] == plan
        assert [line for line in found if line in TENANTS] == TENANTS


LOOKS = [
    (
        Listing(agent="auditor", sort="started"),
        "SEARCH conversations USING COVERING INDEX conversations_agent (agent=?)",
    ),
    (Listing(agent="auditor", state="closed"), "SCAN conversations"),
    (Listing(state="paused"), "SCAN conversations"),
    (Listing(state="running", agent="clerk"), "SEARCH conversations USING INDEX conversations_open (open_turn>?)"),
    (Listing(parent="p", sort="started"), "SEARCH conversations USING INDEX conversations_parent (parent=?)"),
    (Listing(tenant="acme"), "SCAN conversations USING COVERING INDEX conversations_updated"),
    (Listing(tenant="acme", state="running"), "SEARCH conversations USING INDEX conversations_open (open_turn>?)"),
]


@pytest.mark.parametrize(("listing", "look"), LOOKS)
async def test_what_no_index_has_in_order_is_looked_for_once(tmp_path: Path, listing: Listing, look: str) -> None:
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    await store.open("somebody")
    await store.close()
    sql, parameters = whole_sql(listing, (5, 7))
    with closing(sqlite3.connect(path)) as db:
        plan = [row[3] for row in db.execute(f"explain query plan {sql}", (*parameters, 100, 50))]

    looks = [line for line in plan if "conversations" in line]
    assert sorted(looks) == sorted([look, "SEARCH conversations USING INTEGER PRIMARY KEY (rowid=?)"])


@pytest.mark.parametrize("listing", EVERY)
def test_listing_reads_no_payload_and_of_a_log_its_tenant_alone(listing: Listing) -> None:
    texts = page_sql(listing)[0] + count_sql(listing, (1, 1))[0] + whole_sql(listing, (1, 1))[0]
    texts = texts.replace("(select tenant from logs where logs.n = conversations.n)", "tenant")

    assert not [
        table for table in metadata.tables if table != "conversations" and f"{table} " in texts.split("from", 1)[1]
    ]
