"""Waits that would never end are refused and named; long holds, long waits, leaks and broken handles are noted."""

from __future__ import annotations

import asyncio

from agentos.components import Access, Concern, Pattern, ToolboxSharing
from agentos.errors import ToolError
from agentos.ids import call_id
from agentos.ports import CallContext
from agentos.resources import Factory
from agentos.toolboxes.python import PythonToolbox, tool
from tests.resources.lending import notes_of, printer, replays
from tests.support import Mind, call, calls, entries_of, lab, results, settled, until


async def test_a_wait_that_closes_a_circle_over_two_resources_is_refused_and_the_circle_is_named() -> None:
    doors = {"left": asyncio.Event(), "right": asyncio.Event()}

    async def take(first: str, second: str, context: CallContext) -> str:
        async with context.borrow(first):
            doors[first].set()
            await doors[second].wait()
            async with context.borrow(second):
                return "both"

    mind = Mind(calls(call("take", first="left", second="right")), "well")
    other = Mind(calls(call("take", first="right", second="left")), "well")
    async with lab(mind, [take], others={"other": (other, {"toolboxes": ["box"]})}) as here:
        await printer(here, name="left")
        await printer(here, name="right")
        one, two = await here.start(), await here.start("other")
        outcomes = await asyncio.gather(one.ask("go"), two.ask("go"))
        ended = [(await results(conversation))[0] for conversation in (one, two)]
        refused = next(text for status, text in ended if status == "failed(deadlock)")
        loser = one if ended[0][0] == "failed(deadlock)" else two
        ((_, noted),) = await notes_of(loser)

        assert all(outcome.completed for outcome in outcomes)
        assert sorted(status for status, _ in ended) == ["done", "failed(deadlock)"]
        for name in ("agent main", "agent other", "waits for left", "waits for right", "turn_", "call_"):
            assert name in refused
        assert (noted.what, len(noted.cycle)) == (Concern.DEADLOCK, 2)
        assert await replays(here.kernel, one.id)
        assert await replays(here.kernel, two.id)


async def test_a_subagent_that_needs_what_the_parent_holds_is_refused() -> None:
    async def consult(context: CallContext) -> str:
        async with context.borrow("printer"):
            return (await context.call("ask_aide", {"task": "print"})).text

    async def print_(context: CallContext) -> str:
        async with context.borrow("printer"):
            return "printed"

    tools = [consult, tool(name="print")(print_)]
    aide = Mind(calls(call("print")), lambda request: f"I got: {request.messages[-1].text}")
    others = {"aide": (aide, {"toolboxes": ["box"]})}
    async with lab(Mind(calls(call("consult")), "well"), tools, others=others, subagents=["aide"]) as here:
        await printer(here)
        conversation = await here.start()
        outcome = await conversation.ask("go")
        ((_, text), *_) = await results(conversation)

        assert outcome.completed
        assert "would never come free, a deadlock" in text
        assert "agent aide" in text
        assert "agent main" in text
        assert await replays(here.kernel, conversation.id)


async def test_an_inner_call_that_waits_for_the_slot_of_a_call_that_waits_for_a_handle_is_refused() -> None:
    """The circle goes over a slot and a resource: one holds the desk and wants the printer, the other the other way round."""
    doors = {"desk": asyncio.Event(), "printer": asyncio.Event()}

    @tool
    async def at_desk(context: CallContext) -> str:
        doors["desk"].set()
        await doors["printer"].wait()
        async with context.borrow("printer"):
            return "printed"

    @tool
    async def sit() -> str:
        return "sat"

    @tool
    async def with_printer(context: CallContext) -> str:
        async with context.borrow("printer"):
            doors["printer"].set()
            await doors["desk"].wait()
            await settled(here.kernel)  # the other stands in line for the printer now
            inner = await context.call("sit", {})
            return inner.text

    boxes = [PythonToolbox("desk", [at_desk, sit], ToolboxSharing.EXCLUSIVE), PythonToolbox("air", [with_printer])]
    mind = Mind(calls(call("at_desk"), call("with_printer")), "well")
    async with lab(mind, toolboxes=boxes) as here:
        await printer(here)
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert mind.results[0] == "printed"
        assert mind.results[1].startswith("not run: toolbox desk has no room for sit")
        assert "waits for printer" in mind.results[1]
        ((_, noted),) = await notes_of(conversation)
        assert (noted.decided, len(noted.cycle)) == (True, 2)
        assert await replays(here.kernel, conversation.id)


async def test_tasks_of_one_call_that_wait_for_each_other_in_a_pool_are_no_deadlock() -> None:
    async def one(context: CallContext) -> None:
        async with context.borrow("printer"):
            await asyncio.sleep(0)

    async def many(context: CallContext) -> str:
        await asyncio.gather(*(one(context) for _ in range(10)))
        return "all"

    async with lab(Mind(calls(call("many"))), [many]) as here:
        await printer(here, Pattern.POOL, size=2)
        conversation = await here.start()
        await conversation.ask("go")

        assert (await results(conversation))[0] == ("done", "all")


async def test_an_inner_call_may_wait_for_a_handle_that_another_task_of_its_caller_gives_back() -> None:
    async def inner(context: CallContext) -> str:
        async with context.borrow("printer"):
            return "had"

    async def outer(context: CallContext) -> str:
        async def busy() -> None:
            async with context.borrow("printer"):
                began.set()
                await door.wait()

        task = asyncio.create_task(busy())
        await began.wait()
        asked = asyncio.create_task(context.call("inner", {}))
        await settled(here.kernel)
        door.set()
        await task
        return (await asked).text

    began, door = asyncio.Event(), asyncio.Event()
    async with lab(Mind(calls(call("outer"))), [inner, outer]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")

        assert (await results(conversation))[-1] == ("done", "had")


async def test_long_holds_and_long_waits_are_entries_once_each() -> None:
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer", access=Access.WRITE):
            await door.wait()
        return "held"

    door = asyncio.Event()
    async with lab(Mind(calls(call("hold"), call("hold"))), [hold], tool_s=1_000.0) as here:
        await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        await here.advance(29)
        before = await notes_of(conversation)
        for _ in range(20):
            await here.advance(15)
        door.set()
        await asked
        (starved_call, starved), (holding_call, holding) = await notes_of(conversation)

        assert before == []
        assert (starved.what, holding.what) == (Concern.STARVED, Concern.LONG_HOLD)
        assert (starved.resource, holding.resource) == ("printer", "printer")
        assert starved_call != holding_call
        assert 30_000 <= starved.ms <= 40_000
        assert 60_000 <= holding.ms <= 75_000
        assert await replays(here.kernel, conversation.id)


async def test_a_broken_handle_is_replaced_and_noted() -> None:
    async def use(context: CallContext) -> str:
        async with context.borrow("line") as handle:
            return str(handle[0])

    async def make() -> list[int]:
        made.append(len(made))
        return [made[-1]]

    made: list[int] = []
    async with lab(Mind(calls(call("use")), calls(call("use")), "well"), [use]) as here:
        factory = Factory(make, check=lambda handle: handle[0] > 0)
        await here.kernel.resources.create(here.kernel.scope, "line", "line", factory)
        conversation = await here.start()
        await conversation.ask("go")
        ((_, noted),) = await notes_of(conversation)

        assert [text for _, text in await results(conversation)] == ["1", "1"]
        assert (noted.what, noted.of) == (Concern.BROKEN, "line")
        assert here.kernel.resources.rows()[0].broken == 1


async def test_plain_borrowing_leaves_no_entry_and_no_timer() -> None:
    async def use(context: CallContext) -> str:
        async with context.borrow("printer"):
            return "used"

    async with lab(Mind(calls(call("use"))), [use]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        await here.advance(100)

        assert await notes_of(conversation) == []
        assert here.kernel.resources.lookout._timer is None


async def test_a_call_that_starves_in_line_for_a_slot_is_noted_once_with_who_holds_it() -> None:
    async def hold() -> str:
        await door.wait()
        return "held"

    door = asyncio.Event()
    mind = Mind(calls(call("hold"), call("hold")))
    async with lab(mind, [hold], sharing=ToolboxSharing.EXCLUSIVE, tool_s=1_000.0) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        for _ in range(20):
            await here.advance(10)
        door.set()
        await asked
        ((waiting, noted),) = await notes_of(conversation)
        first, second = await entries_of(conversation, "call.started")

        assert (noted.what, noted.resource, noted.of) == (Concern.STARVED, "box", "slots")
        assert waiting == second.call
        assert [holder.call for holder in noted.cycle[0].holders] == [call_id(conversation.id, first.call)]
        assert await replays(here.kernel, conversation.id)


async def test_a_circle_over_the_open_turn_of_a_reused_child_is_found_when_somebody_has_waited_long() -> None:
    """The first call keeps the child at work, which wants what the second holds; the second waits for the same child."""

    async def first(context: CallContext) -> str:
        return (await context.call("ask_aide", {"task": "one"})).text

    async def second(context: CallContext) -> str:
        async with context.borrow("printer"):
            doors["held"].set()
            await doors["asked"].wait()
            return (await context.call("ask_aide", {"task": "two"})).text

    async def print_(context: CallContext) -> str:
        await doors["held"].wait()
        async with context.borrow("printer"):
            return "printed"

    doors = {"held": asyncio.Event(), "asked": asyncio.Event()}
    aide = Mind(calls(call("print")), lambda request: request.messages[-1].text, "two done")
    others = {"aide": (aide, {"toolboxes": ["box"]})}
    mind = Mind(calls(call("first"), call("second")), "well")
    tools = [first, second, tool(name="print")(print_)]
    subagents = [{"slug": "aide", "session": "reuse"}]
    async with lab(mind, tools, others=others, subagents=subagents, tool_s=1_000.0) as here:
        await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: any(row.waiters for row in here.kernel.resources.rows()))
        doors["asked"].set()
        await here.advance(29)
        before = len(await results(conversation))
        for _ in range(4):
            await here.advance(10)
        outcome = await asked

        assert before == 0
        assert outcome.completed
        assert any("a deadlock" in text for text in mind.results)
        assert "two done" in mind.results


async def test_what_a_task_holds_that_outlives_its_call_is_a_leak_and_it_borrows_nothing_more() -> None:
    async def stray(context: CallContext) -> None:
        async with context.borrow("printer"):
            held.set()
            await door.wait()
        try:
            async with context.borrow("printer"):
                said.append("had it again")
        except ToolError as error:
            said.append(str(error))

    async def leave(context: CallContext) -> str:
        tasks.append(asyncio.create_task(stray(context)))
        await held.wait()
        return "left"

    held, door = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    said: list[str] = []
    async with lab(Mind(calls(call("leave"))), [leave]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        ((_, noted),) = await notes_of(conversation)
        door.set()
        await tasks[0]

        assert (noted.what, noted.resource) == (Concern.LEAK, "printer")
        assert said == ["printer: the call that asks for it is over"]
        assert here.kernel.resources.rows()[0].holders == ()
        assert await replays(here.kernel, conversation.id)


async def test_what_is_held_when_it_has_to_close_has_a_moment_and_is_a_leak_then() -> None:
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer"):
            await door.wait()
        return "held"

    door = asyncio.Event()
    async with lab(Mind(calls(call("hold"))), [hold]) as here:
        told = await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        releasing = asyncio.create_task(here.kernel.release("program"))
        await here.advance(4)
        before = list(told)
        await here.advance(2)
        released = await releasing
        door.set()
        outcome = await asked

        assert (before, told, released) == (["made"], ["made", "closed"], 1)
        assert [noted.what for _, noted in await notes_of(conversation)] == [Concern.LEAK]
        assert outcome.completed
