"""The call tree through all subagents, with status, time and tokens, and the frames above a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import agentos
from agentos import AgentSpec, CallContext, tool
from agentos.components import CallState
from agentos.errors import ConfigurationError, UnknownConversation
from agentos.events.model import Finish, ModelReply, ModelRequest, Usage
from agentos.history import Node, Tokens, Tree, frames_of, lineage_of, render_tree
from agentos.ids import Micros
from agentos.lineage import FrameType, Lineage, LineageFrame
from agentos.models import DirectModel
from agentos.persistence.base import Store
from agentos.testing.clock import START, ManualClock
from agentos.toolboxes.python import PythonToolbox
from tests.history.support import Desk, office, until


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def priced(request: ModelRequest) -> ModelReply:
    """What the message spells out, for ten tokens in and two out."""
    reply = DirectModel()._reply(request)
    return ModelReply(reply.text, reply.calls, reply.finish, Usage(10, 2))


async def test_the_tree_leads_through_all_subagents(store: Store, desk: Desk) -> None:
    async with office(store, desk, reply=priced) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("ask_helper task='ask_aide task=\"note text=deep\"'\nnote text=beside")
        tree = await lineage_of(store, clerk.id)

    kinds = [(node.kind, node.name, node.status) for node in nodes(tree.root)]
    assert kinds[:4] == [
        ("conversation", "clerk", "idle"),
        ("turn", "", "completed"),
        ("step", "", "tool_use"),
        ("call", "ask_helper", "done"),
    ]
    assert [name for kind, name, _ in kinds if kind == "conversation"] == ["clerk", "helper", "aide"]
    assert [name for kind, name, _ in kinds if kind == "call"] == ["ask_helper", "ask_aide", "note", "note"]
    assert tree.root.tokens == Tokens(20, 4)
    assert tree.root.total.input == sum(node.tokens.input for node in nodes(tree.root) if node.kind == "step")
    assert all(node.ms is not None and node.ms >= 0 for node in nodes(tree.root))
    assert not tree.above
    assert not tree.cut


async def test_tokens_and_outcomes_are_those_of_the_tables(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        for text in ("note text=a", "fail text=b", "ask_helper task='note text=c'"):
            await clerk.ask(text)
        tree = await lineage_of(store, clerk.id)
        sql = "select seq, outcome, input_tokens, output_tokens from turns where n = ? order by seq"
        n = (await kernel.query("select n from conversations where agent = 'clerk'")).rows[0][0]
        rows = (await kernel.query(sql, (n,))).rows

    assert [(t.seq, t.status, t.tokens.input, t.tokens.output) for t in tree.root.children] == rows
    assert [node.status for node in nodes(tree.root) if node.kind == "call"] == [
        "done",
        "failed(raised)",
        "done",
        "done",
    ]


async def test_a_child_that_is_used_again_shows_under_each_call_its_own_turn(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("ask_helper task='note text=a'")
        await clerk.ask("ask_helper task='note text=b'")
        tree = await lineage_of(store, clerk.id)

    helpers = [node for node in nodes(tree.root) if node.name == "helper"]
    assert len({node.id for node in helpers}) == 1
    assert [[turn.seq for turn in node.children] for node in helpers] == [[3], [13]]


async def test_retries_are_one_step(store: Store, desk: Desk) -> None:
    replies = [ModelReply(usage=Usage(1, 0)), ModelReply(usage=Usage(2, 0)), ModelReply("yes", usage=Usage(3, 1))]
    async with office(store, desk, reply=lambda request: replies.pop(0)) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("go")
        tree = await lineage_of(store, clerk.id)

    [step] = [node for node in nodes(tree.root) if node.kind == "step"]
    assert (step.status, step.tokens) == (Finish.STOP.value, Tokens(6, 1))


async def test_open_work_has_no_time_yet(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("ask_aide task='wait text=a'"))
        await desk.until_started(1)
        await kernel.ticker.wait_quiet()
        tree = await lineage_of(store, clerk.id)
        desk.gate.set()
        await asking

    open_ = {(node.kind, node.status) for node in nodes(tree.root) if node.ms is None and node.kind != "conversation"}
    assert open_ == {("turn", "parked"), ("turn", "running"), ("call", "started")}


async def test_frames_lead_from_the_root_to_the_call_as_its_tool_saw_them(store: Store) -> None:
    seen: list[Lineage] = []

    @tool
    async def look(context: CallContext) -> str:
        """Looks up."""
        seen.append(context.lineage)
        return str(context.call_id)

    async with agentos.open(store) as kernel:
        await kernel.add_toolbox(PythonToolbox("eyes", [look]))
        await kernel.install(AgentSpec(slug="aide", toolboxes=["eyes"]))
        await kernel.install(AgentSpec(slug="clerk", subagents=["aide"]))
        clerk = await kernel.start("clerk")
        await clerk.ask("ask_aide task='look'")
        call = seen[0].frames[-1].entity_id
        frames = await frames_of(store, call)
        tree = await lineage_of(store, call)

    assert [(frame.type, frame.entity_id) for frame in frames] == [(f.type, f.entity_id) for f in seen[0].frames]
    assert [frame.at for frame in frames] == sorted(frame.at for frame in frames)
    assert frames[0] == LineageFrame(FrameType.CONVERSATION, clerk.id, frames[0].at)
    assert tree.above == frames[:-1]
    assert tree.root.id == call


async def test_a_turn_has_a_tree_of_its_own(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        await clerk.ask("note text=b")
        tree = await lineage_of(store, f"turn_{clerk.id.partition('_')[2]}_13")

    assert (tree.root.kind, tree.root.seq) == ("turn", 13)
    assert [frame.type for frame in tree.above] == [FrameType.CONVERSATION]


async def test_a_tree_that_is_too_large_is_cut_and_says_so(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a\nnote text=b\nnote text=c")
        tree = await lineage_of(store, clerk.id, nodes_max=4)

    assert tree.cut
    assert len(list(nodes(tree.root))) == 5
    assert render_tree(tree).endswith("... and more below than is shown")


@pytest.mark.parametrize("id_", ["", "agent_x", "conversation_x", "call_x_3", "turn_0_1", "call\x1b[2J"])
async def test_what_is_no_id_is_refused(store: Store, desk: Desk, id_: str) -> None:
    async with office(store, desk):
        with pytest.raises(ConfigurationError):
            await lineage_of(store, id_)


async def test_an_unknown_conversation_turn_or_call_is_refused(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        with pytest.raises(UnknownConversation):
            await lineage_of(store, "conversation_00000000000000000000000000")
        with pytest.raises(ConfigurationError, match="no turn and no call"):
            await lineage_of(store, f"call_{clerk.id.partition('_')[2]}_9")


async def test_the_tree_is_drawn_with_times_and_tokens(store: Store, desk: Desk) -> None:
    clock = ManualClock()
    async with office(store, desk, reply=priced, clock=clock) as kernel:
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a\nnote text=b"))
        await desk.until_started(1)
        await until(lambda: len(kernel.world.find(CallState, status="done")) == 1)
        clock.advance(1.5)
        desk.gate.set()
        await asking
        drawn = render_tree(await lineage_of(store, clerk.id))

    assert drawn == "\n".join(
        [
            f"clerk {clerk.id}  idle, 1500 ms, 20+4 tokens",
            "└─ turn 3 clerk r1  completed, 1500 ms, 20+4 tokens",
            "   ├─ step 0  tool_use, 0.0 ms, 10+2 tokens",
            "   │  ├─ call 6 wait  done, 1500 ms",
            "   │  └─ call 7 note  done, 0.0 ms",
            "   └─ step 1  stop, 0.0 ms, 10+2 tokens",
        ]
    )


def test_control_characters_in_names_are_written_out() -> None:
    call = Node(kind="call", id="c", seq=3, name="no\x1b[31mte\u202e", status="done\n")
    above = (LineageFrame(FrameType.CONVERSATION, "x\r", Micros(START)),)
    drawn = render_tree(Tree(root=Node(kind="turn", id="t", seq=2, status="a", children=(call,)), above=above))

    assert drawn.split("\n") == ["above: x\\r", "turn 2  a", "└─ call 3 no\\x1b[31mte\\u202e  done\\n"]
