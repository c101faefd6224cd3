"""The tree with sums, sifted; the chain of one call; and frames as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from agentos.errors import ConfigurationError, UnknownConversation
from agentos.history import Node, Tree, lineage_of, render_tree
from agentos.history.lineage.ancestry import chain_of, render_chain
from agentos.history.lineage.following import Frame, frames_as_stored
from agentos.history.lineage.sifting import Sift, sifted
from agentos.history.lineage.sums import with_sums
from agentos.lineage import FrameType
from agentos.persistence.base import Store
from tests.history.support import Desk, office
from tests.history.test_lineage import nodes, priced

DEEP = "note text=1\nfail text=2\nask_helper task='ask_aide task=\"note text=deep\"'"


def of_kind(tree: Tree, kind: str) -> Iterator[Node]:
    return (node for node in nodes(tree.root) if node.kind == kind)


async def deep_tree(store: Store, desk: Desk) -> Tree:
    async with office(store, desk, reply=priced) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(DEEP)
        return await lineage_of(store, clerk.id)


# sums


async def test_calls_and_subagents_add_up_along_the_tree(store: Store, desk: Desk) -> None:
    tree = await deep_tree(store, desk)
    calls, conversations = list(of_kind(tree, "call")), list(of_kind(tree, "conversation"))

    assert [(node.name, node.calls, node.total_calls) for node in conversations] == [
        ("clerk", 3, 5),
        ("helper", 1, 2),
        ("aide", 1, 1),
    ]
    assert [(node.subagents, node.total_subagents) for node in conversations] == [(1, 2), (1, 1), (0, 0)]
    assert tree.root.total_calls == len(calls)
    assert tree.root.total_subagents == len(conversations) - 1
    for node in nodes(tree.root):
        assert node.total_calls == (node.kind == "call") + sum(child.total_calls for child in node.children)


async def test_own_time_is_without_the_time_of_conversations_below(store: Store, desk: Desk) -> None:
    tree = await deep_tree(store, desk)

    for node in nodes(tree.root):
        assert node.ms is not None
        assert node.own_ms is not None
        assert 0 <= node.own_ms <= node.ms + 1e-6
        if not node.total_subagents:
            assert node.own_ms == node.ms
    (helper,) = [node for node in of_kind(tree, "conversation") if node.name == "helper"]
    turn = tree.root.children[0]
    assert turn.ms is not None
    assert helper.ms is not None
    assert turn.own_ms == pytest.approx(turn.ms - helper.ms)


def test_time_of_subagents_at_once_counts_once() -> None:
    def child(at: int, ms: float) -> Node:
        turn = Node(kind="turn", id="t", status="completed", at=at, ms=ms)
        below = Node(kind="conversation", id="c", status="idle", at=at, ms=ms, children=(turn,))
        return Node(kind="call", id="x", status="done", at=at, ms=ms, children=(below,))

    together = (child(1_000, 4), child(2_000, 4), child(9_000, 100))
    turn = with_sums(Node(kind="turn", id="t", status="completed", at=0, ms=10.0, children=together))

    assert turn.own_ms == 4.0
    assert [call.own_ms for call in turn.children] == [0.0, 0.0, 0.0]
    assert (turn.subagents, turn.calls) == (3, 3)


async def test_sums_are_drawn_with_what_is_of_the_conversation_alone(store: Store, desk: Desk) -> None:
    tree = await deep_tree(store, desk)

    root, turn, step, note, *_ = render_tree(tree, sums=True).splitlines()

    assert root.endswith("tokens (20+4 own), 5 calls (3 own), 2 subagents (1 own)")
    assert " ms (" in turn
    assert "tokens (10+2 own), 5 calls (3 own)" in step
    assert "calls" not in note
    assert "subagents" not in render_tree(tree, sums=True).splitlines()[-1]


# filters


@pytest.mark.parametrize(
    ("sift", "found"),
    [
        (Sift(agent="aide"), ["aide", "", "", "note", ""]),
        (Sift(tool="note"), ["note", "note"]),
        (Sift(tool="note", agent="aide"), ["note"]),
        (Sift(status="failed"), ["fail"]),
        (Sift(status="failed(raised)"), ["fail"]),
        (Sift(status="fail"), []),
        (Sift(tool="nothing"), []),
        (Sift(slow_ms=1e9), []),
        (Sift(min_tokens=10**9), []),
    ],
)
async def test_a_filter_leaves_what_fits_and_what_stands_above(
    store: Store, desk: Desk, sift: Sift, found: list[str]
) -> None:
    tree = await deep_tree(store, desk)
    whole = list(nodes(tree.root))

    left = sifted(tree, sift)

    fit = [node for node in nodes(left.tree.root) if sift.takes(node)]
    assert [node.name for node in fit] == found
    assert (left.matches, left.nodes) == (len(found), len(whole))
    assert left.tree.root.id == tree.root.id
    for node in nodes(left.tree.root):
        assert sift.takes(node) or any(sift.takes(below) for below in nodes(node)) or not found


async def test_slow_and_costly_nodes_are_those_of_the_whole_tree(store: Store, desk: Desk) -> None:
    tree = await deep_tree(store, desk)
    half = (tree.root.ms or 0.0) / 2
    tokens = tree.root.total.input + tree.root.total.output

    slow = sifted(tree, Sift(slow_ms=half))
    costly = sifted(tree, Sift(min_tokens=tokens))

    assert slow.matches == sum((node.ms or 0.0) >= half for node in nodes(tree.root)) > 0
    assert [node.kind for node in nodes(costly.tree.root)] == ["conversation", "turn"]
    assert costly.tree.root.total == tree.root.total


# the chain of a call


async def test_the_chain_of_a_call_begins_with_the_root(store: Store, desk: Desk) -> None:
    async with office(store, desk, reply=priced) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask(DEEP)
        tree = await lineage_of(store, clerk.id)
        (deep,) = [node for node in of_kind(tree, "call") if node.agent == "aide"]
        links = await chain_of(store, deep.id)

    assert [link.type for link in links] == [FrameType.CONVERSATION, FrameType.TURN, FrameType.CALL] * 3
    assert [link.name for link in links] == [
        *("clerk", "clerk r1", "ask_helper"),
        *("helper", "helper r1", "ask_aide"),
        *("aide", "aide r1", "note"),
    ]
    assert (links[0].id, links[-1].id, links[-1].ms) == (clerk.id, deep.id, deep.ms)
    lines = render_chain(links)
    assert [len(line) - len(line.lstrip()) for line in lines] == [2 * n for n in range(9)]
    assert lines[-1].strip().startswith(f"note {deep.id}  done, ")


# frames as they are stored


async def test_frames_come_as_they_are_stored_until_the_turn_ends(store: Store, desk: Desk) -> None:
    async with office(store, desk, reply=priced) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=before")
        asking = asyncio.ensure_future(clerk.ask("note text=a\nask_helper task='ask_aide task=\"wait text=deep\"'"))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        seen: list[Frame] = []
        async for frame in frames_as_stored(store, clerk.id, poll_s=0):
            seen.append(frame)
            if frame.name == "wait" and frame.status == "started":
                assert not asking.done()
                desk.gate.set()
        await asking

    ends = [(frame.agents, frame.name, frame.status) for frame in seen if frame.kind == "call" and frame.ms is not None]
    assert ends == [
        (("clerk",), "note", "done"),
        (("clerk", "helper", "aide"), "wait", "done"),
        (("clerk", "helper"), "ask_aide", "done"),
        (("clerk",), "ask_helper", "done"),
    ]
    assert (seen[0].kind, seen[0].status, seen[-1].kind, seen[-1].status) == ("turn", "started", "turn", "completed")
    assert seen[-1].tokens.input == 20
    assert len({(frame.conversation, frame.seq) for frame in seen}) == len(seen)
    begun = [(frame.conversation, frame.kind, frame.id) for frame in seen if frame.status == "started"]
    over = [(frame.conversation, frame.kind, frame.id) for frame in seen if frame.ms is not None]
    assert sorted(over) == sorted(one for one in begun if one[1] != "conversation")


async def test_frames_of_a_settled_conversation_are_those_of_its_last_turn(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        for text in ("a", "b"):
            await clerk.ask(f"ask_helper task='note text={text}'")
        tree = await lineage_of(store, clerk.id)
        last = tree.root.children[-1]
        (call,) = [node for node in nodes(last) if node.name == "ask_helper"]
        whole = [frame async for frame in frames_as_stored(store, clerk.id)]
        turn = [frame async for frame in frames_as_stored(store, last.id)]
        below = [frame async for frame in frames_as_stored(store, call.id)]

    calls = [node.id for node in nodes(last) if node.kind == "call"]
    assert [frame.id for frame in whole if frame.kind == "call" and frame.status == "started"] == calls
    assert turn == whole
    assert [frame.id for frame in below if frame.kind == "call" and frame.status == "started"] == calls
    assert (below[0].id, below[-1].id, below[-1].status) == (call.id, call.id, "done")
    helper = next(frame.agents for frame in whole if frame.name == "note")
    assert helper[0] == "clerk"


async def test_what_has_no_frames_is_refused(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        for id_, error in (
            (clerk.id, "has no turn yet"),
            ("clerk", "is not the id of"),
            (f"call_{clerk.id.partition('_')[2]}_9", "no turn and no call at seq 9"),
        ):
            with pytest.raises(ConfigurationError, match=error):
                _ = [frame async for frame in frames_as_stored(store, id_)]
        with pytest.raises(UnknownConversation):
            _ = [frame async for frame in frames_as_stored(store, "conversation_00000000000000000000000000")]
