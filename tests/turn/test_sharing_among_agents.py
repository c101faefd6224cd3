"""What agents and their subagents share of one toolbox: its sharing is kept in one place, whoever calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentos.components import ToolboxSharing
from agentos.events.model import ModelRequest, Role
from agentos.toolboxes.sqlite import SqliteToolbox
from tests.support import Lab, Mind, call, calls, lab, settled, until
from tests.toolboxes.sqlite_support import made, rows
from tests.turn.test_sharing import Room, going, obedient

AGENTS = 50


async def with_a_child(
    here: Lab, room: Room, parent: str, child: str
) -> tuple[list[str], list[str], list[asyncio.Task[object]]]:
    """A call of a parent and one of its subagent at once: who is inside, then when the first is out, and what goes on."""
    conversation = await here.start()
    asked: asyncio.Task[object] = asyncio.create_task(conversation.ask(f"{parent} top ask_child {child}_below"))
    await settled(here.kernel)
    first = sorted(room.inside)
    room.let_out("top" if "top" in first else "below")
    await settled(here.kernel)
    return first, sorted(room.inside), [asked]


def leading(request: ModelRequest) -> object:
    """`read top ask_child write_below`: a call of its own, and a task for the subagent."""
    if request.messages[-1].role is Role.TOOL:
        return "done"
    own, who, asks, task = request.messages[-1].text.split()
    return calls(call(own, who=who), call(asks, task=task.replace("_", " ")))


@pytest.mark.parametrize(
    ("sharing", "parent", "child", "together"),
    [
        (ToolboxSharing.EXCLUSIVE, "write", "write", False),
        (ToolboxSharing.READ_WRITE, "read", "read", True),
        (ToolboxSharing.READ_WRITE, "read", "write", False),
        (ToolboxSharing.READ_WRITE, "write", "read", False),
        (ToolboxSharing.POOL, "write", "write", True),
        (ToolboxSharing.PER_AGENT, "write", "write", True),
        (ToolboxSharing.PER_CONVERSATION, "write", "write", True),
        (ToolboxSharing.STATELESS, "write", "write", True),
    ],
)
async def test_a_subagent_shares_with_its_parent_as_any_two_do(
    sharing: ToolboxSharing, parent: str, child: str, together: bool
) -> None:
    room = Room()
    others = {"child": (obedient(), {"toolboxes": ["box"]})}
    mind = Mind(*[leading] * 4)
    async with lab(mind, room.tools(), sharing=sharing, size=2, others=others, subagents=["child"]) as here:
        first, then, asked = await with_a_child(here, room, parent, child)
        room.let_out("below")
        room.let_out("top")
        await asyncio.gather(*asked)

        assert first == (["below", "top"] if together else ["top"])
        assert then == ["below"]
        assert here.kernel.slots.statistics() == []


async def test_children_of_one_agent_take_turns_where_a_toolbox_is_shared_per_agent() -> None:
    room = Room()
    others = {"child": (obedient(), {"toolboxes": ["box"]})}
    mind = Mind(calls(call("ask_child", task="write one"), call("ask_child", task="write two")))
    async with lab(mind, room.tools(), sharing=ToolboxSharing.PER_AGENT, others=others, subagents=["child"]) as here:
        asked = asyncio.create_task(here.ask())
        await until(lambda: room.inside)
        await settled(here.kernel)
        first = list(room.inside)
        room.let_out("one")
        room.let_out("two")
        await asked

        assert first == ["one"]
        assert (room.most, sorted(room.came)) == (1, ["one", "two"])


async def test_a_writer_of_one_agent_holds_up_the_readers_of_all_others_that_come_after_it() -> None:
    room = Room()
    others = {f"a{n}": (obedient(), {"toolboxes": ["box"]}) for n in range(5)}
    async with lab(obedient(), room.tools(), sharing=ToolboxSharing.READ_WRITE, others=others) as here:
        asked = await going(here, "read r0", agent="a0") + await going(here, "write w", agent="a1")
        for n in range(2, 5):
            asked += await going(here, f"read r{n}", agent=f"a{n}")
        came = [list(room.inside)]
        for who in ("r0", "w"):
            room.let_out(who)
            await settled(here.kernel)
            came.append(list(room.inside))
        for n in range(2, 5):
            room.let_out(f"r{n}")
        await asyncio.gather(*asked)

        assert came == [["r0"], ["w"], ["r2", "r3", "r4"]]


async def test_one_sqlite_toolbox_serves_fifty_agents_with_reads_side_by_side_and_no_update_lost(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "count.db", "CREATE TABLE count (n INTEGER); INSERT INTO count VALUES (0);")
    box = SqliteToolbox("db", path=path, access="read-write", read_tool="db_read")
    most: list[int] = []

    def turn(request: ModelRequest) -> object:
        """Reads three times and adds one, each in a step of its own."""
        done = sum(message.role is Role.TOOL for message in request.messages)
        if done == 4:
            return request.messages[-1].text
        reads = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000) SELECT count(*) FROM c"
        most.append(sum(len(shared.statistics().holders) for shared in box.resources))
        return calls(call("db_query", sql="UPDATE count SET n = n + 1") if done == 1 else call("db_read", sql=reads))

    others = {f"agent{n}": (Mind(*[turn] * 5), {"toolboxes": ["db"]}) for n in range(AGENTS)}
    async with lab(toolboxes=[box], others=others) as here:
        here.kernel.ticker.after_tick = None  # checking fifty conversations after each tick takes long
        (reading, writing) = [row for row in here.kernel.resources.rows() if row.kind == "sqlite_connection"]
        outcomes = await asyncio.gather(*(here.ask(agent=f"agent{n}") for n in range(AGENTS)))
        after = [row for row in here.kernel.resources.rows() if row.kind == "sqlite_connection"]

    assert all(outcome.completed for outcome in outcomes)
    assert rows(path, "SELECT n FROM count") == [AGENTS]
    assert (reading.name, writing.name) == ("db", "db.writer")
    assert [row.borrowed for row in after] == [3 * AGENTS, AGENTS]
    assert 1 < after[0].handles <= 4, "more than one connection was read on at once"
    assert max(most) > 1
    assert [row.holders for row in after] == [(), ()]
