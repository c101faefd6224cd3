"""A delegation may leave its child less than the child has; and it may tell it what was said before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.components import AgentContext, ConversationState, Narrowing, TurnConfig, TurnLimits
from agentos.definitions import SessionPolicy, SubagentUse
from agentos.events.entry import Registry
from agentos.events.model import Role
from agentos.history import Identical, lineage_of, render_tree, replay_all
from agentos.kernel import Conversation
from agentos.systems.task import CUT
from tests.support import Lab, Life, Mind, call, calls, entries_of, lab, results, settled

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def read() -> str:
    """Reads."""
    ran.append("read")
    return "was read"


async def write() -> str:
    """Writes."""
    ran.append("write")
    return "was written"


TOOLS = [read, write]


def asking(*tasks: str, tool: str = "ask_child") -> Any:
    return calls(*(call(tool, task=task) for task in tasks))


def using(**more: Any) -> dict[str, Any]:
    """An agent main without tools of its own that may ask the child so."""
    return {"toolboxes": [], "subagents": [SubagentUse(slug="child", **more)]}


async def children(here: Lab, parent: Conversation) -> list[Conversation]:
    sql = "select id from conversations where parent = ? order by started_at, id"
    return [await here.kernel.get(row[0]) for row in (await here.kernel.query(sql, (parent.id,))).rows]


async def pinned(here: Lab, conversation: Conversation) -> list[AgentContext]:
    """What each turn of a conversation pinned."""
    found = []
    for entry in await entries_of(conversation, "turn.started"):
        found += [here.kernel.catalog.pinned(value.context) for _, value in entry.changes if type(value) is TurnConfig]
    return found


def names(tools: Any) -> list[str]:
    return [tool.name for tool in tools]


async def same_again(here: Lab) -> None:
    """Strict replay decides every log of the store as it stands."""
    async for replayed in replay_all(here.kernel.store, registry=Registry()):
        assert isinstance(replayed, Identical) or "no passes" in str(replayed), replayed


async def test_the_child_pins_what_the_delegation_leaves_it() -> None:
    child = Mind("done")
    async with lab(Mind(asking("look")), TOOLS, others={"child": (child, {})}, **using(grant=["read"])) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)
        (context,) = await pinned(here, conversation)

        assert (names(context.tools), names(context.hidden), context.granted) == (["read"], ["write"], ("read",))
        assert names(child.requests[0].context.tools) == ["read"]
        await same_again(here)


async def test_a_call_that_the_delegation_does_not_grant_is_refused() -> None:
    child = Mind(calls(call("write"), call("read")), "did what I could")
    async with lab(Mind(asking("both")), TOOLS, others={"child": (child, {})}, **using(grant=["re*"])) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)

        assert await results(conversation) == [
            ("denied(grant)", "not run: this agent may not call write"),
            ("done", "was read"),
        ]
        assert ran == ["read"]
        assert await results(parent) == [("done", "did what I could")]
        await same_again(here)


async def test_a_narrowing_never_adds() -> None:
    mine = {"toolboxes": [{"name": "box", "expose": ["read"]}]}
    async with lab(Mind(asking("x")), TOOLS, others={"child": (Mind(), mine)}, **using(grant=["*"])) as here:
        parent = await here.start()
        await parent.ask("go")
        (context,) = await pinned(here, (await children(here, parent))[0])

        assert (names(context.tools), context.granted) == (["read"], ("read",))


@pytest.mark.parametrize(
    ("narrowing", "seen", "granted"),
    [
        ({"expose": ["read"]}, ["read"], ("read",)),
        ({"grant": ["read"]}, ["read"], ("read",)),
        ({"expose": ["read"], "grant": ["*"]}, ["read"], ("read", "write")),
        ({"expose": ["*"], "grant": ["read"]}, ["read", "write"], ("read",)),
        ({"expose": [], "grant": []}, [], ()),
        ({}, ["read", "write"], ("read", "write")),
    ],
)
async def test_what_is_seen_and_what_is_granted(
    narrowing: dict[str, Any], seen: list[str], granted: tuple[str, ...]
) -> None:
    async with lab(Mind(asking("x")), TOOLS, others={"child": (Mind(), {})}, **using(**narrowing)) as here:
        parent = await here.start()
        await parent.ask("go")
        (context,) = await pinned(here, (await children(here, parent))[0])

        assert (names(context.tools), context.granted) == (seen, granted)


async def test_with_reuse_each_turn_is_narrowed_by_the_delegation_that_it_answers() -> None:
    """Both tools lead to the same child conversation, which has had the wider grant before, and has it after."""
    wide = SubagentUse(slug="child", session=SessionPolicy.REUSE)
    narrow = SubagentUse(slug="child", session=SessionPolicy.REUSE, tool="ask_softly", grant=["read"])
    mind = Mind(calls(call("ask_child", task="a"), call("ask_softly", task="b"), call("ask_child", task="c")))
    child = Mind("a", calls(call("write")), "b", "c")
    more: dict[str, Any] = {"toolboxes": [], "subagents": [wide, narrow]}
    async with lab(mind, TOOLS, others={"child": (child, {})}, **more) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)

        assert [context.granted for context in await pinned(here, conversation)] == [
            ("read", "write"),
            ("read",),
            ("read", "write"),
        ]
        assert [status for status, _ in await results(conversation)] == ["denied(grant)"]
        await same_again(here)


async def test_a_person_who_writes_to_the_child_is_not_narrowed() -> None:
    child = Mind("a", calls(call("write")), "b")
    use = using(session=SessionPolicy.REUSE, grant=["read"])
    async with lab(Mind(asking("a")), TOOLS, others={"child": (child, {})}, **use) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)
        await conversation.ask("write it, please")

        assert ran == ["write"]
        assert [context.granted for context in await pinned(here, conversation)] == [("read",), ("read", "write")]


async def test_whom_the_child_may_ask_is_told_by_name_and_a_grandchild_has_its_own() -> None:
    """The names that a delegation leaves are those of the child's tools; what `ask_deep` leads to keeps what it has."""
    child, deep = Mind(asking("further", tool="ask_deep")), Mind(calls(call("write")), "deep")
    others = {"child": (child, {"subagents": ["deep"]}), "deep": (deep, {})}
    async with lab(Mind(asking("go")), TOOLS, others=others, **using(grant=["ask_deep"])) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)
        (below,) = await children(here, conversation)

        assert [context.granted for context in await pinned(here, conversation)] == [("ask_deep",)]
        assert [context.granted for context in await pinned(here, below)] == [("read", "write")]
        assert ran == ["write"]


async def test_the_lineage_shows_the_narrowed_child_below_its_call() -> None:
    async with lab(Mind(asking("x")), TOOLS, others={"child": (Mind(), {})}, **using(grant=["read"])) as here:
        parent = await here.start()
        await parent.ask("go")
        (conversation,) = await children(here, parent)
        drawn = render_tree(await lineage_of(here.kernel.store, parent.id)).splitlines()

    below = next(n for n, line in enumerate(drawn) if "ask_child" in line)
    assert f"child {conversation.id}" in drawn[below + 1]
    assert "child r1  completed" in drawn[below + 2]


async def test_a_delegation_that_is_taken_up_after_a_crash_is_still_narrowed() -> None:
    """The child has its task, with what it may do, and dies before its model has answered."""
    life = Life()

    async def hang(_: object) -> Any:
        await asyncio.get_running_loop().create_future()

    more = using(grant=["read"])
    child = Mind(hang)
    await life.until_killed(Mind(asking("x")), TOOLS, lambda _: child.requests, others={"child": (child, {})}, **more)
    after = Mind(calls(call("write")), "as far as I may")
    async with life.open(Mind("done"), TOOLS, others={"child": (after, {})}, **more) as here:
        parent, outcome = await life.recovered(here)
        (conversation,) = await children(here, parent)

        assert outcome == "completed"
        assert [status for status, _ in await results(conversation)] == ["denied(grant)"]
        assert [context.granted for context in await pinned(here, conversation)] == [("read",)]
        await same_again(here)


async def test_a_task_that_waits_keeps_its_narrowing_over_a_crash() -> None:
    """The second task stands in the child's log and waits for the first turn; it is taken by another process."""
    life = Life()
    wide = SubagentUse(slug="child", session=SessionPolicy.REUSE)
    narrow = SubagentUse(slug="child", session=SessionPolicy.REUSE, tool="ask_softly", grant=["read"])
    more: dict[str, Any] = {"toolboxes": [], "subagents": [wide, narrow]}

    async def hang(_: object) -> Any:
        await asyncio.get_running_loop().create_future()

    def both_are_there(here: Lab) -> bool:
        found = here.kernel.world.find(ConversationState)
        return any(state.waiting for id_, state in found if id_ != life.id)

    mind = Mind(calls(call("ask_child", task="a"), call("ask_softly", task="b")))
    await life.until_killed(mind, TOOLS, both_are_there, others={"child": (Mind(hang), {})}, **more)
    async with life.open(Mind("done"), TOOLS, others={"child": (Mind("a", "b"), {})}, **more) as here:
        parent, _ = await life.recovered(here)
        (conversation,) = await children(here, parent)

        assert [context.granted for context in await pinned(here, conversation)] == [("read", "write"), ("read",)]
        await same_again(here)


async def test_the_tool_has_the_name_that_the_file_gives_it() -> None:
    mind = Mind(asking("look", tool="io_prompt_agent_child"))
    async with lab(mind, others={"child": (Mind("seen"), {})}, **using(tool="io_prompt_agent_child")) as here:
        await here.ask()

        assert names(mind.requests[0].context.tools) == ["io_prompt_agent_child"]
        assert mind.results == ["seen"]


async def test_history_goes_before_the_task_without_results_of_tools() -> None:
    mind = Mind(calls(call("read"), text="Let me see."), asking("how many?"), "fine", asking("and now?"))
    child = Mind("3", "4")
    more: dict[str, Any] = {"subagents": [SubagentUse(slug="child", input="history", history_messages=3)]}
    async with lab(mind, TOOLS, others={"child": (child, {})}, **more) as here:
        parent = await here.start()
        await parent.ask("count the birds")
        await parent.ask("again")

    first, second = (shown[0].text for shown in child.shown)
    assert first == (
        "The conversation with main so far, oldest first:\n\nuser: count the birds\n\nmain: Let me see.\n\n"
        "The task:\n\nhow many?"
    )
    assert second == (
        "The conversation with main so far, oldest first:\n\nmain: Let me see.\n\nmain: fine\n\nuser: again\n\n"
        "The task:\n\nand now?"
    )


async def test_what_leaves_with_its_turn_is_not_told_to_a_child() -> None:
    child = Mind("3")
    more = using(input="history")
    async with lab(Mind("hello", asking("how many?")), others={"child": (child, {})}, **more) as here:
        parent = await here.start()
        await parent.ask("count the birds")
        await parent.ask("my pin is 1234", ephemeral=True)

    assert "count the birds" in child.shown[0][0].text
    assert "1234" not in child.shown[0][0].text


async def test_history_has_a_bound_in_characters() -> None:
    limit = TurnLimits().history_chars
    mind, child = Mind("b" * (limit - 10), asking("go on")), Mind("3")
    async with lab(mind, others={"child": (child, {})}, **using(input="history")) as here:
        parent = await here.start()
        await parent.ask("x" * 500 + "end of it")
        await parent.ask("go")

    told = child.shown[0][0].text
    assert told.count("b") >= limit - 10
    assert f"user: {CUT}nd of it\n" in told
    assert "user: go\n" in told
    assert len(told) < limit + 300


async def test_in_a_first_turn_the_history_is_the_input_that_began_it() -> None:
    child = Mind("3")
    async with lab(Mind(asking("count")), others={"child": (child, {})}, **using(input="history")) as here:
        await here.ask("go")

    assert [message.role for message in child.shown[0]] == [Role.USER]
    assert child.shown[0][0].text.endswith("user: go\n\nThe task:\n\ncount")


async def test_a_narrowing_is_data_of_the_childs_log() -> None:
    use = using(expose=["re*"], grant=["read"])
    async with lab(Mind(asking("x")), TOOLS, others={"child": (Mind(), {})}, **use) as here:
        parent = await here.start()
        await parent.ask("go")
        await settled(here.kernel)
        (conversation,) = await children(here, parent)
        (received,) = await entries_of(conversation, "input.received")

    ((_, state),) = received.changes
    assert [waiting.narrowing for waiting in getattr(state, "waiting")] == [  # noqa: B009
        Narrowing(expose=("re*",), grant=("read",))  # type: ignore[arg-type]
    ]
