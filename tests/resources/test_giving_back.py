"""Giving back goes to its end: whoever is cancelled, whatever a closer does, and whoever asks for the same meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from agentos.components import Pattern
from agentos.errors import ReleaseFailed, ResourceClosed
from agentos.ids import RandomIds
from agentos.ports import CallContext
from agentos.resources import Bounds, Factory, Level, ResourceKind, Resources, Scope, Shared
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from agentos.testing.leaks import leak_meter
from tests.resources.lending import printer
from tests.support import Mind, call, calls, lab, results, settled, until

STEPS = 12


async def spin(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def listed() -> list[int]:
    return []


@pytest.mark.parametrize("pattern", Pattern)
async def test_a_handle_that_is_made_when_its_resource_has_closed_is_closed_too_and_lent_to_nobody(
    pattern: Pattern,
) -> None:
    door = asyncio.Event()
    alive: list[list[int]] = []

    async def make() -> list[int]:
        if made_first:
            await door.wait()
        made_first.append(True)
        alive.append([len(made_first)])
        return alive[-1]

    made_first: list[bool] = []
    factory = Factory(make, close=alive.remove)
    shared = Shared("thing", "test", pattern, factory, size=2, bounds=Bounds(drain_s=0), clock=(clock := ManualClock()))
    await shared.open()
    async with shared.borrow() as handle:
        shared.discard(handle)

    async def use() -> None:
        async with shared.borrow():
            raise AssertionError("it is closed")

    late = asyncio.create_task(use())
    await spin()
    closing = asyncio.create_task(shared.close())
    await spin()
    clock.advance(0)
    await closing
    door.set()
    with pytest.raises(ResourceClosed, match="'thing' is closed"):
        await late

    assert len(made_first) == 2
    assert alive == []
    assert shared.statistics().handles == 0


@pytest.mark.parametrize("how", ["raises", "cancels itself", "does not end", "does not even end when it is cancelled"])
async def test_a_closer_that_fails_is_told_and_stops_no_other(how: str) -> None:
    closed: list[int] = []
    door = asyncio.Event()

    async def make() -> int:
        return len(numbers)

    async def close(handle: int) -> None:
        if handle == 1:
            if how == "raises":
                raise ValueError("stuck")
            if how == "cancels itself":
                raise asyncio.CancelledError
            while not door.is_set():
                try:
                    await door.wait()
                except asyncio.CancelledError:
                    if how == "does not end":
                        raise
        closed.append(handle)

    numbers: list[int] = []
    bounds = Bounds(close_s=0.01)
    shared = Shared("thing", "test", Pattern.POOL, Factory(make, close=close), size=3, bounds=bounds)
    leases = []
    for _ in range(3):
        leases.append(shared.borrow())
        numbers.append(await leases[-1].__aenter__())
    for lease in leases:
        await lease.__aexit__(None, None, None)
    words = {"raises": "ValueError: stuck", "cancels itself": "it cancelled itself"}.get(how, r"0.01 s \(close_s\)")
    with pytest.raises(ExceptionGroup, match=f"1 handles of resource thing did not close: .*{words}"):
        await shared.close()
    door.set()
    await spin()

    assert sorted(closed)[:2] == [0, 2] or sorted(closed) == [0, 1, 2]


@pytest.mark.parametrize("step", range(STEPS))
async def test_who_is_cancelled_while_it_gives_back_has_given_back_all_the_same(step: int) -> None:
    table = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    scope = Scope(Level.PROGRAM, "program")
    closed: list[str] = []

    async def close(handle: list[int]) -> None:
        await spin(5)
        closed.append("closed")

    await table.create(scope, "thing", "one", Factory(listed, close=close))
    releasing = asyncio.create_task(table.release(scope))
    await spin(step)
    releasing.cancel()
    await asyncio.gather(releasing, return_exceptions=True)

    assert (len(closed), len(table)) in ((1, 0), (0, 1)), "what has left the table is closed"
    await scope.close()
    assert (len(closed), len(table)) == (1, 0)


async def test_who_closes_a_scope_that_is_about_to_end_waits_until_it_has() -> None:
    door = asyncio.Event()
    program = Scope(Level.PROGRAM, "program")
    agent = program.child(Level.AGENT, "ann")
    agent.push("slow", lambda: until(door.is_set))
    first = asyncio.create_task(agent.close())
    await spin()
    second, whole = asyncio.create_task(agent.close()), asyncio.create_task(program.close())
    await spin()
    before = [task.done() for task in (first, second, whole)]
    door.set()
    await asyncio.gather(first, second, whole)

    assert before == [False, False, False]


async def test_who_asks_for_a_scope_that_is_about_to_end_gets_a_new_one_and_both_end_with_what_is_around() -> None:
    door = asyncio.Event()
    program = Scope(Level.PROGRAM, "program")
    old = program.child(Level.AGENT, "ann")
    old.push("slow", lambda: until(door.is_set))
    closing = asyncio.create_task(old.close())
    await spin()
    new = program.child(Level.AGENT, "ann")
    given: list[str] = []
    new.push("quick", lambda: given.append("back"))

    assert new is not old
    before = program.children
    door.set()
    await closing
    assert (before, program.children) == ((old, new), (new,))
    assert program.child(Level.AGENT, "ann") is new
    await program.close()
    assert given == ["back"]


async def test_scopes_of_one_name_that_somebody_has_made_side_by_side_end_each_for_itself() -> None:
    program = Scope(Level.PROGRAM, "program")
    one, two = Scope(Level.CALL, "call", program), Scope(Level.CALL, "call", program)
    await one.close()
    between = program.children, program.find(Level.CALL, "call")
    await two.close()

    assert between == ((two,), two)
    assert (list(program.children), program.find(Level.CALL, "call")) == ([], None)


async def test_a_turn_that_begins_while_its_conversation_gives_back_has_things_made_anew_after_that() -> None:
    """What is exclusive is never there twice; what a call defers, or is lent for itself, has not to wait."""
    door = asyncio.Event()
    told: list[str] = []

    async def use(context: CallContext) -> str:
        async with context.resource("thing", scope="conversation") as handle:
            return str(handle)

    async def defer(context: CallContext) -> str:
        context.defer(lambda: told.append("deferred"))
        async with context.resource("thing", "own", scope="call") as handle:
            return str(handle)

    async def make() -> list[int]:
        told.append("made")
        return [told.count("made")]

    async def close(handle: list[int]) -> None:
        if handle == [1]:
            await door.wait()
        told.append(f"closed {handle}")

    mind = Mind(calls(call("use")), "one", calls(call("defer"), call("use")), "two")
    async with lab(mind, [use, defer]) as here:
        here.kernel.resources.register(ResourceKind(name="thing", factory=lambda: Factory(make, close=close)))
        conversation = await here.start()
        await conversation.ask("go")
        releasing = asyncio.create_task(here.kernel.release(conversation.id))
        await spin()
        again = asyncio.create_task(conversation.ask("again"))
        await until(lambda: "deferred" in told)
        await settled(here.kernel)
        before = list(told)
        door.set()
        released = await releasing
        outcome = await again

        assert before == ["made", "made", "closed [2]", "deferred"]
        assert (released, outcome.completed) == (1, True)
        assert [text for _, text in await results(conversation)] == ["[1]", "[2]", "[3]"]
        assert len(here.kernel.resources) == 1
    assert told[-1] == "closed [3]"


async def test_a_kernel_that_closes_while_many_wait_tells_each_and_leaves_nothing() -> None:
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer"):
            await asyncio.Event().wait()
        return "held"

    async def want(context: CallContext) -> str:
        async def one() -> None:
            async with context.borrow("printer"):
                raise AssertionError("it is held")

        await asyncio.gather(*(one() for _ in range(many)))
        return "had"

    many = 1_000
    async with leak_meter(), lab(Mind(calls(call("hold"), call("want"))), [hold, want], tool_s=1_000.0) as here:
        told = await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: len(here.kernel.resources.rows()[0].waiters) == many)
        await here.kernel.close(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

        assert here.kernel.left == ()
        assert told == ["made", "closed"]


async def test_each_that_waits_for_what_is_given_back_is_told_by_name() -> None:
    table = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    scope = Scope(Level.PROGRAM, "program")
    shared = await table.create(scope, "thing", "one", Factory(listed))

    async def use() -> None:
        async with shared.borrow():
            raise AssertionError("it is closed")

    async with shared.borrow():
        waiting = [asyncio.create_task(use()) for _ in range(100)]
        await spin()
        closing = asyncio.create_task(scope.close())
        said = await asyncio.gather(*waiting, return_exceptions=True)
        before = closing.done()
    await closing

    assert not before
    assert {str(error) for error in said if isinstance(error, ResourceClosed)} == {
        "resource 'one' is closed: its scope program has ended, or has given it back at somebody's word ('agentos release')"
    }
    assert len(said) == 100


async def test_a_borrowing_is_entered_once() -> None:
    closed: list[list[int]] = []
    shared = Shared("thing", "test", Pattern.POOL, Factory(listed, close=closed.append), size=3)
    lease = shared.borrow()
    async with lease:
        with pytest.raises(RuntimeError, match="ask the resource for another"):
            async with lease:
                raise AssertionError("it is entered already")
        assert len(shared.statistics().holders) == 1
    with pytest.raises(RuntimeError, match="ask the resource for another"):
        async with lease:
            raise AssertionError("it is over")

    assert (shared.statistics().handles, shared.statistics().idle) == (1, 1)
    await shared.close()
    assert len(closed) == 1


async def test_what_does_not_close_at_the_end_of_a_turn_is_told_in_the_log_of_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def use(context: CallContext) -> str:
        async with context.resource("thing", scope="turn"):
            return "used"

    def close(handle: list[int]) -> None:
        raise ValueError("stuck")

    async with lab(Mind(calls(call("use")), "well"), [use]) as here:
        here.kernel.resources.register(ResourceKind(name="thing", factory=lambda: Factory(listed, close=close)))
        conversation = await here.start()
        outcome = await conversation.ask("go")
        await settled(here.kernel)

        assert outcome.completed
        assert len(here.kernel.resources) == 0
        assert [scope.open for scope in here.kernel.scope.children if scope.path[-1] == "main"] == [0]
        assert "1 handles of resource thing did not close: ValueError: stuck" in caplog.text


async def test_giving_back_tells_of_all_that_failed() -> None:
    table = Resources(ManualClock(), RandomIds(), hold_warn_s=60, wait_warn_s=30)
    scope = Scope(Level.PROGRAM, "program")

    def close(handle: list[int]) -> None:
        raise ValueError("stuck")

    for name in ("one", "two"):
        await table.create(scope, "thing", name, Factory(listed, close=close))
    with pytest.raises(ReleaseFailed) as failed:
        await table.release(scope)

    assert [name for name, _ in failed.value.failures] == ["two", "one"]
    assert (len(table), scope.open) == (0, 0)


async def test_a_conversation_that_has_left_the_memory_keeps_what_it_was_lent_until_it_ends_or_is_released() -> None:
    """Leaving the memory is nobody's choice, so nothing that is alive may depend on it."""
    told: list[str] = []

    async def use(context: CallContext) -> str:
        async with context.resource("thing", scope="conversation") as handle:
            return str(handle)

    async def make() -> str:
        told.append("made")
        return f"thing {len(told)}"

    def close(handle: str) -> None:
        told.append(f"closed {handle}")

    settings = Settings(live_conversations_max=1)
    mind = Mind(*(reply for _ in range(4) for reply in (calls(call("use")), "well")))
    async with lab(mind, [use], options={"settings": settings}) as here:
        here.kernel.resources.register(ResourceKind(name="thing", factory=lambda: Factory(make, close=close)))
        one, two, three = [await here.start() for _ in range(3)]
        for conversation in (one, two, three):
            await conversation.ask("go")
        await settled(here.kernel)
        in_memory = [str(log) for log in here.kernel.ticker.loaded]
        open_ = [resource.scope[-1] for resource in await here.kernel.lsof()]
        await one.ask("again")
        await two.close()
        await settled(here.kernel)
        released = await here.kernel.release(three.id)

        assert in_memory == [three.id]
        assert open_ == [one.id, two.id, three.id]
        assert [text for _, text in await results(one)] == ["thing 1", "thing 1"]
        assert (released, told) == (1, ["made"] * 3 + ["closed thing 2", "closed thing 3"])
    assert told[-1] == "closed thing 1"


@pytest.mark.parametrize("by_name", [False, True])
async def test_what_an_agent_was_lent_stays_for_a_turn_that_is_open_when_it_is_removed(by_name: bool) -> None:
    door, inside = asyncio.Event(), asyncio.Event()
    closed: list[list[int]] = []

    async def use(context: CallContext) -> str:
        async with context.borrow("counter") if by_name else context.resource("counter", scope="agent") as handle:
            inside.set()
            await door.wait()
            return str(len(closed) + len(handle))

    async with lab(Mind("ready", calls(call("use"), call("use")), calls(call("use")), "well"), [use]) as here:
        kernel = here.kernel
        kernel.resources.register(ResourceKind(name="counter", factory=lambda: Factory(listed, close=closed.append)))
        await kernel.resources.ensure(kernel.scope.child(Level.AGENT, "main"), "counter")
        conversation = await here.start()
        await conversation.ask("are you there?")
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await kernel.remove("main")
        door.set()
        await asked
        await until(lambda: not len(kernel.resources))

        assert await results(conversation) == [("done", "0")] * 3
        assert closed == [[]]
