"""Call trees for the tests of spans and of the page: of real runs, and made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentos.history import lineage_of
from agentos.history.lineage.tree import Node, Tokens, Tree
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from tests.history.support import Desk, crash, office, until

START = 1_700_000_000_000_000
"""Microseconds, UTC."""


async def busy_tree() -> Tree:
    """Two turns with delegations two deep, a call that failed and one that was denied, and a model call between."""
    store, desk = MemoryStore(), Desk()
    desk.gate.set()
    clerk = {"policy": [{"tool": "wait", "verdict": "deny"}]}
    async with office(store, desk, clerk=clerk) as kernel:
        conversation = await kernel.start("clerk")
        await conversation.ask("ask_helper task='ask_aide task=\"note text=deep\"'\nnote text=secret\nfail text=secret")
        await conversation.ask("wait text=secret\nask_aide task='fail text=secret'")
        tree = await lineage_of(store, conversation.id)
    await store.close()
    return tree


async def open_tree() -> Tree:
    """A turn that a crash cut off while its call was running in a child."""
    store, desk = MemoryStore(), Desk()
    async with office(store, desk, clock=ManualClock()) as kernel:
        conversation = await kernel.start("clerk")
        await conversation.send("ask_aide task='wait text=a'")
        await until(lambda: desk.started == 1)
        await kernel.ticker.wait_quiet()
        found = await crash(kernel)
    tree = await lineage_of(found, conversation.id)
    await found.close()
    return tree


def node(kind: str, seq: int, *children: Node, **more: Any) -> Node:
    given = {"id": f"{kind}_{seq}", "status": "done", "at": START + seq, "ms": 1.0, **more}
    return Node(kind=kind, seq=seq, children=children, **given)


def wide_tree(calls: int) -> Tree:
    """One conversation with a turn of one step with so many calls."""
    below = tuple(node("call", n, name="note", calls=1, total_calls=1) for n in range(calls))
    step = node("step", 3, *below, id="step 0", status="tool_use", total_calls=calls, tokens=Tokens(5, 2))
    turn = node("turn", 2, step, status="completed", total_calls=calls, agent="main")
    return Tree(root=node("conversation", 1, turn, name="main", status="idle", total_calls=calls, agent="main"))


def deep_tree(levels: int) -> Tree:
    """Conversations below conversations."""
    found = node("conversation", 0, name="last", status="idle")
    for n in range(levels):
        call = node("call", n, found, name="ask")
        turn = node("turn", n, node("step", n, call, id="step 0", status="tool_use"), status="completed")
        found = node("conversation", n, turn, id=f"conversation_{n}", name="main", status="idle")
    return Tree(root=found)


def nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        yield (one := waiting.pop())
        waiting += one.children
