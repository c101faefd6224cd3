"""What calls borrow in turns: found by name, made in a scope, seen with frames, and given back however the call ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.errors import ResourceNotFound, ToolError
from agentos.lineage import FrameType
from agentos.ports import CallContext
from agentos.resources import Factory, Level, ResourceKind
from agentos.toolboxes.python import PythonToolbox, tool
from tests.resources.lending import printer
from tests.support import Mind, call, calls, entries_of, lab, results, settled


async def test_a_tool_borrows_by_name_and_is_seen_with_its_frames() -> None:
    async def use(context: CallContext) -> str:
        async with context.borrow("printer") as handle:
            (row,) = here.kernel.resources.rows()
            seen.extend(row.holders)
            return f"used the {handle}"

    seen: list[Any] = []
    async with lab(Mind(calls(call("use"))), [use]) as here:
        told = await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        (after,) = here.kernel.resources.rows()

        assert (await results(conversation))[0] == ("done", "used the printer")
        assert [frame.type for frame in seen[0].by.frames] == [FrameType.CONVERSATION, FrameType.TURN, FrameType.CALL]
        assert seen[0].by.nearest(FrameType.CONVERSATION) == conversation.id
        assert (after.holders, after.borrowed, told) == ((), 1, ["made"])
    assert told == ["made", "closed"]


async def test_a_name_that_lives_nowhere_fails_the_call_and_says_what_does() -> None:
    async def use(context: CallContext) -> str:
        async with context.borrow("plotter"):
            return "used"

    async with lab(Mind(calls(call("use"))), [use]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        ((status, text),) = await results(conversation)

        assert status == "failed(resource)"
        assert "no resource 'plotter'" in text
        assert "printer" in text


async def test_what_is_not_free_in_time_fails_the_call_and_names_who_has_it() -> None:
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer"):
            await door.wait()
        return "held"

    async def want(context: CallContext) -> str:
        async with context.borrow("printer", timeout_s=5):
            return "had"

    door = asyncio.Event()
    async with lab(Mind(calls(call("hold"), call("want"))), [hold, want]) as here:
        await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await here.advance(5)
        door.set()
        await asked
        text = next(text for status, text in await results(conversation) if status == "failed(resource)")
        holder, _ = await entries_of(conversation, "call.started")

        assert "did not come free within 5 s" in text
        assert text.endswith(f"held by call_{conversation.id.partition('_')[2]}_{holder.call}")


@pytest.mark.parametrize("scope", ["call", "turn", "conversation", "agent", "program"])
async def test_a_resource_is_made_once_in_its_scope_and_ends_with_it(scope: str) -> None:
    async def use(context: CallContext) -> str:
        async with context.resource("counter", scope=scope) as handle:
            handle.append(context.call_id)
            return str(len(handle))

    def counters(**_options: Any) -> Factory[list[str]]:
        async def make() -> list[str]:
            made.append("made")
            return []

        return Factory(make, close=lambda handle: made.append("closed"))

    made: list[str] = []
    mind = Mind(calls(call("use"), call("use")), "one", calls(call("use")), "two", calls(call("use")), "three")
    async with lab(mind, [use]) as here:
        here.kernel.resources.register(ResourceKind(name="counter", factory=counters))
        conversation = await here.start()
        await conversation.ask("go")
        await conversation.ask("go")
        await here.ask()
        await settled(here.kernel)
        expected = {"call": 4, "turn": 3, "conversation": 2, "agent": 1, "program": 1}[scope]
        closed = {"call": 4, "turn": 3, "conversation": 2, "agent": 0, "program": 0}[scope]

        assert made.count("made") == expected
        if scope in ("call", "turn", "agent", "program"):
            assert made.count("closed") == closed
    assert made.count("closed") == expected


async def test_a_resource_of_a_toolbox_is_shared_by_its_agents_and_ends_with_it() -> None:
    @tool
    async def use(context: CallContext) -> str:
        async with context.resource("counter", scope="toolbox") as handle:
            handle.append(1)
            return str(len(handle))

    async def make() -> list[int]:
        return []

    closed: list[Any] = []
    box = PythonToolbox("shelf", [use])
    other = (Mind(calls(call("use")), "done"), {"toolboxes": ["shelf"]})
    async with lab(Mind(calls(call("use")), "done"), toolboxes=[box], others={"other": other}) as here:
        kind = ResourceKind(name="counter", factory=lambda: Factory(make, close=closed.append))
        here.kernel.resources.register(kind)
        await here.ask()
        await here.ask(agent="other")
        (row,) = here.kernel.resources.rows()
        for name in ("other", "main", "shelf"):
            await here.kernel.remove(name)

        assert row.level is Level.TOOLBOX
        assert closed == [[1, 1]]
        assert here.kernel.resources.rows() == []


async def test_a_cancelled_call_gives_back_what_it_borrowed_and_leaves_the_line() -> None:
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer"):
            await asyncio.get_running_loop().create_future()
        return "never"

    async with lab(Mind(calls(call("hold"), call("hold")), "well"), [hold]) as here:
        await printer(here)
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await settled(here.kernel)
        (before,) = here.kernel.resources.rows()
        await conversation.interrupt()
        await asked
        (after,) = here.kernel.resources.rows()

        assert (len(before.holders), len(before.waiters)) == (1, 1)
        assert (after.holders, after.waiters) == ((), ())


async def test_what_was_lent_can_be_given_back_while_all_go_on() -> None:
    async def use(context: CallContext) -> str:
        async with context.resource("counter", "of-agent", scope="agent") as handle:
            handle.append(1)
        async with context.resource("counter", "of-conversation", scope="conversation") as handle:
            handle.append(1)
            return str(len(handle))

    async def make() -> list[int]:
        return []

    closed: list[list[int]] = []
    mind = Mind(calls(call("use")), "one", calls(call("use")), "two")
    async with lab(mind, [use]) as here:
        kind = ResourceKind(name="counter", factory=lambda: Factory(make, close=closed.append))
        here.kernel.resources.register(kind)
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        from_conversation = await here.kernel.release(conversation.id)
        from_agent, from_program = await here.kernel.release("main"), await here.kernel.release("program")
        await conversation.ask("go")

        assert (from_conversation, from_agent, from_program) == (1, 1, 1)
        assert closed[:2] == [[1], [1]]
        assert [text for _, text in await results(conversation)] == ["1", "1"]
        with pytest.raises(ResourceNotFound, match="conversation is named 'nobody'; there are: box, main"):
            await here.kernel.release("nobody")


async def test_a_sync_tool_borrows_in_its_thread_and_gives_back_however_it_ends() -> None:
    def use(fails: bool, context: CallContext) -> str:
        with context.borrow_from_thread("printer", timeout_s=5) as handle:
            if fails:
                raise ToolError("paper jam")
            return f"used the {handle}"

    mind = Mind(calls(call("use", fails=True)), calls(call("use", fails=False)), "well")
    async with lab(mind, [use]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        (row,) = here.kernel.resources.rows()

        assert await results(conversation) == [("failed(tool)", "paper jam"), ("done", "used the printer")]
        assert (row.holders, row.borrowed) == ((), 2)


async def test_a_sync_borrow_on_the_loop_is_refused_with_the_way_out() -> None:
    async def use(context: CallContext) -> str:
        with context.borrow_from_thread("printer"):
            return "never"

    async with lab(Mind(calls(call("use"))), [use]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        ((status, text),) = await results(conversation)

        assert status == "failed(tool)"
        assert text.endswith("here, async with borrow(...)")
