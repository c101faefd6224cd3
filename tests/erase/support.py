"""What the tests of erasing share: conversations with children and forks, and looks at what is left of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentos.events.entry import ERASED, Registry
from agentos.history import Identical, Skipped, replay_all, verify_store
from agentos.history.fsck.store import check_store
from agentos.ids import LogId
from agentos.journal import decode_units
from agentos.kernel import Conversation, Erasure
from agentos.persistence.base import Store
from tests.support import Lab, Mind, call, calls, lab

SECRET = "the canary sings"
"""Stands in everything that the tests say, and nowhere after an erase."""


async def repeat(text: str) -> str:
    """Says it again."""
    return f"again: {text}"


def talker() -> Mind:
    return Mind(calls(call("repeat", text=SECRET), text=f"I think {SECRET}"), f"it said {SECRET}")


@asynccontextmanager
async def family(store: Store | None = None, **more: Any) -> AsyncIterator[tuple[Lab, Conversation]]:
    """A conversation that has asked a child, which has asked one of its own."""
    mind = Mind(calls(call("ask_child", task=SECRET)), f"the child says {SECRET}")
    child = Mind(calls(call("ask_leaf", task=SECRET)), f"the leaf says {SECRET}")
    others = {"child": (child, {"subagents": ["leaf"]}), "leaf": (Mind(SECRET), {})}
    async with lab(mind, subagents=["child"], others=others, store=store, **more) as here:
        parent = await here.start()
        await parent.ask(SECRET)
        yield here, parent


def logs_of(erasure: Erasure) -> list[str]:
    """The logs of its receipts, in order."""
    return [str(receipt.log) for receipt in erasure.receipts]


async def below(here: Lab, parent: Conversation) -> list[str]:
    """The conversations below one, the deepest first."""
    sql = "select id from conversations where root = ? and id <> ? order by depth desc"
    return [str(row[0]) for row in (await here.kernel.query(sql, (parent.id, parent.id))).rows]


async def texts_in(store: Store, log: str) -> list[Any]:
    """The private values of a log that stand, with those that it shares."""
    units = decode_units(LogId(log), await store.entries(log), Registry())
    return [value for unit in units for entry in unit for _, value in entry.private if value is not ERASED]


async def gone_from(store: Store, *logs: str) -> bool:
    """Whether no text of these logs stands, and the store says so of each."""
    rows = [await store.log(log) for log in logs]
    left = [text for log in logs for text in await texts_in(store, log)]
    return not left and all(row is not None and row.erased_at is not None for row in rows)


async def check_whole(store: Store) -> int:
    """Verify finds nothing, fsck neither, and strict replay is identical; the units that rest on erased bodies."""
    report = await verify_store(store)
    assert report.ok, str(report)
    found = await check_store(store)
    assert not found.findings, found.findings
    results = [result async for result in replay_all(store)]
    other = [result for result in results if not isinstance(result, (Identical, Skipped))]
    assert not other, other
    return sum(result.erased for result in results if isinstance(result, Identical))
