"""Resources are entities: the World says who has what and who waits, with frames and since when, and never stores it."""

from __future__ import annotations

import asyncio

import pytest

from agentos.components import Access, Awaited, Held, Pattern, ResourceState, ToolboxSharing
from agentos.ids import Kind, agent_id, hashed_id
from agentos.kernel.lsof import OpenResource
from agentos.resources import Borrower, Factory, Level, Takes
from agentos.testing.live_invariants import live_is_empty, live_is_true
from agentos.toolboxes.python import tool
from tests.support import Lab, Life, Mind, call, calls, lab, settled, until


class Door:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def wait(self, who: str) -> str:
        """Wait at the door."""
        await self.open.wait()
        return who


def waits_always() -> Mind:
    """A mind that calls `wait` in each of its first turns."""
    return Mind(*[calls(call("wait", who="me"))] * 3)


async def begin(here: Lab, count: int, agent: str = "main") -> list[str]:
    """So many conversations with an open turn; gives their ids."""
    talks = [await here.start(agent) for _ in range(count)]
    for talk in talks:
        await talk.send("go")
        await settled(here.kernel)
    return [talk.id for talk in talks]


def users_of(one: OpenResource) -> tuple[list[str], list[str]]:
    """The conversations of those who have it, and of those who wait."""
    return [user.frames[0] for user in one.holders], [user.frames[0] for user in one.waiters]


async def test_a_slot_and_its_line_are_components_with_frames_and_since_when() -> None:
    door = Door()
    async with lab(waits_always(), [door.wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        first, second = await begin(here, 2)
        then = here.clock.now()
        await here.advance(5)
        ((id_, held),) = here.kernel.world.find(Held)
        ((_, line),) = here.kernel.world.find(Awaited)
        state = here.kernel.world.get(id_, ResourceState)
        (lending,), (waiting,) = held.holders, line.waiters
        door.open.set()
        await settled(here.kernel)
        after = here.kernel.world.components(id_)

    assert state == ResourceState(kind="slots", name="box", scope=("program", "box"), pattern=Pattern.EXCLUSIVE, size=1)
    assert [frame.partition("_")[0] for frame in lending.frames] == ["conversation", "turn", "call"]
    assert (lending.frames[0], waiting.frames[0]) == (first, second)
    assert (lending.since, waiting.since) == (then, then)
    assert set(after) == {"resource_state"}


async def test_a_slot_is_held_since_it_was_given_and_waited_for_since_it_was_asked_for() -> None:
    doors = {who: Door() for who in ("first", "second")}

    async def wait(who: str) -> str:
        """Wait at a door."""
        return await doors[who].wait(who)

    mind = Mind(calls(call("wait", who="first")), calls(call("wait", who="second")))
    async with lab(mind, [wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        talks = [await here.start() for _ in doors]
        for talk in talks:
            await talk.send("go")
            await here.advance(5)
        await talks[1].send("more")  # a pass that asks for the slot again
        await here.advance(1)
        (both,) = await here.kernel.lsof()
        doors["first"].open.set()
        await settled(here.kernel)
        await here.advance(2)
        (one,) = await here.kernel.lsof()
        doors["second"].open.set()
        await settled(here.kernel)
        (none,) = await here.kernel.lsof()
        kept = here.kernel._open_resources._slot_times

    assert [user.for_ms for user in (*both.holders, *both.waiters)] == [11_000, 6_000]
    assert [(user.frames[0], user.for_ms) for user in one.holders] == [(talks[1].id, 2_000)]
    assert none.holders == none.waiters == one.waiters == ()
    assert kept == {}


async def test_readers_and_writers_of_a_toolbox_are_told_apart() -> None:
    door = Door()

    @tool(access="read")
    async def look() -> str:
        """Look."""
        return await door.wait("me")

    mind = Mind(calls(call("look")), calls(call("wait", who="me")))
    async with lab(mind, [look, door.wait], sharing=ToolboxSharing.READ_WRITE) as here:
        await begin(here, 2)
        (one,) = await here.kernel.lsof("box")
        door.open.set()

    assert (one.pattern, one.size) == (Pattern.READ_WRITE, 0)
    assert [user.access for user in (*one.holders, *one.waiters)] == [Access.READ, Access.WRITE]


async def test_what_lives_in_the_scope_of_an_entity_is_its_own_though_nobody_has_it() -> None:
    async with lab() as here:

        async def make() -> object:
            return object()

        talk = await here.start()
        scope = here.kernel.scope.child(Level.AGENT, "main").child(Level.CONVERSATION, talk.id)
        await here.kernel.resources.create(scope, "thing", "one", Factory(make))
        found = [await here.kernel.lsof(of) for of in (talk.id, "main", "one", "nobody")]
        await scope.close()
        gone = await here.kernel.lsof(talk.id)

    assert [len(one) for one in found] == [1, 1, 1, 0]
    assert gone == []


async def test_frames_go_through_subagents_to_the_root() -> None:
    door = Door()
    lead = Mind(calls(call("ask_helper", task="wait")))
    others = {"helper": (waits_always(), {"toolboxes": ["box"]})}
    async with lab(lead, [door.wait], sharing=ToolboxSharing.EXCLUSIVE, others=others, subagents=["helper"]) as here:
        (root,) = await begin(here, 1)
        ((_, held),) = here.kernel.world.find(Held)
        frames = held.holders[0].frames
        (of_root,) = await here.kernel.lsof(root)
        (of_helper,), (of_main,) = await here.kernel.lsof("helper"), await here.kernel.lsof(agent_id("main"))
        door.open.set()

    assert [frame.partition("_")[0] for frame in frames] == ["conversation", "turn", "call"] * 2
    assert frames[0] == root
    assert of_root.holders == of_helper.holders == of_main.holders
    assert of_root.holders[0].agents == ("main", "helper")


async def test_a_resource_comes_and_goes_with_its_scope_and_tells_who_borrows() -> None:
    async with lab() as here:
        resources, world = here.kernel.resources, here.kernel.world

        async def make() -> object:
            return object()

        shared = await resources.create(here.kernel.scope, "thing", "one", Factory(make), pattern=Pattern.READ_WRITE)
        ((id_, state),) = world.find(ResourceState)
        async with shared.borrow(access=Access.READ), shared.borrow(Borrower(), access=Access.READ):
            held = world.get(id_, Held)
            asked = await here.kernel.lsof(id_)
        free = world.components(id_)
        await resources.close(asked[0].id)
        gone = world.entities(Kind.RESOURCE)

    assert (state.kind, state.name, state.scope, state.size) == ("thing", "one", ("program",), 0)
    assert held is not None
    assert [(one.frames, one.access) for one in held.holders] == [((), Access.READ)] * 2
    assert [user.agents for user in asked[0].holders] == [(), ()]
    assert set(free) == {"resource_state"}
    assert gone == []


async def test_a_change_costs_the_world_nothing_until_somebody_looks() -> None:
    async with lab() as here:

        async def make() -> object:
            return object()

        shared = await here.kernel.resources.create(here.kernel.scope, "thing", "one", Factory(make))
        here.kernel.world.find(ResourceState)
        known = here.kernel.world.stale
        async with shared.borrow():
            changed = here.kernel.world.stale
            here.kernel.world.find(Held)
            looked = here.kernel.world.stale

    assert known is None
    assert changed is not None
    assert looked is None


async def test_rooms_of_conversations_are_resources_while_they_are_used() -> None:
    door = Door()
    async with lab(waits_always(), [door.wait], sharing=ToolboxSharing.PER_CONVERSATION) as here:
        none = await here.kernel.lsof("box")
        first, second = await begin(here, 2)
        used = await here.kernel.lsof("box")
        door.open.set()
        await settled(here.kernel)
        after = await here.kernel.lsof("box")

    assert none == after == []
    assert sorted(users_of(one)[0] for one in used) == sorted([[first], [second]])
    assert {one.scope for one in used} == {("program", "box", first), ("program", "box", second)}
    assert len({one.id for one in used}) == 2


async def test_what_is_below_an_entity_is_its_own_and_nothing_else_is() -> None:
    door = Door()
    async with lab(waits_always(), [door.wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        first, second = await begin(here, 2)
        whole = await here.kernel.lsof()
        by_toolbox = await here.kernel.lsof(hashed_id(Kind.TOOLBOX, "box"))
        by_name, by_id = await here.kernel.lsof("box"), await here.kernel.lsof(whole[0].id)
        (of_first,), (of_second,) = await here.kernel.lsof(first), await here.kernel.lsof(second)
        turn, made = of_second.waiters[0].frames[1:]
        (of_turn,), (of_call,) = await here.kernel.lsof(turn), await here.kernel.lsof(made)
        of_nobody = await here.kernel.lsof("conversation_00000000000000000000000000")
        door.open.set()

    assert whole == by_toolbox == by_name == by_id
    assert users_of(of_first) == ([first], [])
    assert users_of(of_second) == users_of(of_turn) == users_of(of_call) == ([], [second])
    assert of_nobody == []


async def test_a_toolbox_that_was_removed_leaves_the_world() -> None:
    door = Door()
    async with lab(waits_always(), [door.wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        before = here.kernel.world.entities(Kind.RESOURCE)
        await here.kernel.remove("box")
        after = here.kernel.world.entities(Kind.RESOURCE)

    assert len(before) == 1
    assert after == []


async def test_a_kernel_that_is_opened_again_holds_nothing() -> None:
    life, door = Life(), Door()
    held: list[int] = []
    mind = waits_always()

    def has_it(here: Lab) -> bool:
        held.append(len(here.kernel.world.find(Held)))
        return held[-1] == 1

    await life.until_killed(mind, [door.wait], has_it, sharing=ToolboxSharing.EXCLUSIVE)
    async with life.open(Mind(), [Door().wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        found = here.kernel.world.find(Held), here.kernel.world.find(Awaited)

    assert held[-1] == 1
    assert found == ([], [])


@pytest.mark.parametrize("component", [Held, Awaited])
async def test_the_invariants_find_a_world_that_tells_something_else(component: type[Held | Awaited]) -> None:
    door = Door()
    async with lab(waits_always(), [door.wait], sharing=ToolboxSharing.EXCLUSIVE) as here:
        await begin(here, 2)
        sound = live_is_true(here.kernel)
        ((id_, value),) = here.kernel.world.find(component)
        here.kernel.world.unset(id_, component)
        broken, empty = live_is_true(here.kernel), live_is_empty(here.kernel)
        here.kernel.world.set(id_, value)
        door.open.set()
        await until(lambda: not here.kernel.world.find(Held))

    assert sound == []
    assert len(broken) == 1
    assert "a fresh kernel has 1 resources in the World" in empty


async def test_a_resource_that_cannot_tell_what_it_takes_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def make() -> str:
        return "handle"

    def takes(handle: str) -> Takes:
        raise ProcessLookupError("it is gone")

    async with lab(Mind("well")) as here:
        for name, factory in (
            ("odd", Factory(make, takes=takes)),
            ("even", Factory(make, takes=lambda _: Takes(pid=7))),
        ):
            await here.kernel.resources.create(here.kernel.scope, "device", name, factory)
        conversation = await here.start()
        outcome = await conversation.ask("go")
        found = [await here.kernel.lsof() for _ in range(3)][-1]

        assert outcome.completed
        assert [(one.name, one.takes) for one in found] == [("odd", (Takes(),)), ("even", (Takes(pid=7),))]
        assert caplog.text.count("what resource odd takes is not known: ProcessLookupError: it is gone") == 1
