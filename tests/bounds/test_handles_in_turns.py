"""Bounds of handles and bytes in turns: who waits, who is refused, what is told, and what is seen of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Pattern
from agentos.ports import CallContext
from agentos.resources import Factory, ResourceKind, Shared
from agentos.resources.account import asked_now
from agentos.settings import Settings
from tests.resources.lending import notes_of, printer
from tests.support import Mind, call, calls, lab, results, settled


def bounded(**bounds: Any) -> dict[str, Any]:
    return {"settings": Settings(**bounds)}


async def one_folder(context: CallContext) -> str:
    """Has a folder until the test opens the door."""
    async with context.resource("tempdir"):
        await DOOR.get().wait()
    return "had one"


class Door:
    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def get(self) -> asyncio.Event:
        assert self._event is not None, "the test made one"
        return self._event

    def new(self) -> asyncio.Event:
        self._event = asyncio.Event()
        return self._event


DOOR = Door()


async def two_folders(context: CallContext) -> str:
    async with context.resource("tempdir", "first"), context.resource("tempdir", "second"):
        return "had two"


async def test_a_call_waits_for_a_handle_that_another_has_and_goes_on() -> None:
    door = DOOR.new()
    mind = Mind(calls(call("one_folder")), calls(call("one_folder")))
    async with lab(mind, [one_folder], options=bounded(handles_max=1)) as here:
        first, second = await here.start(), await here.start()
        asked = [asyncio.create_task(one.ask("go")) for one in (first, second)]
        await settled(here.kernel)
        top = await here.kernel.top()
        (shown,) = [one for one in await here.kernel.lsof() if one.kind == "bound"]
        door.set()
        await asyncio.gather(*asked)
        after = await here.kernel.top()

        assert [(one.of, one.scope, one.size, one.held, one.waiting) for one in top.limits] == [
            ("handles", "program", 1, 1, 1)
        ]
        assert [turn.waits for turn in top.turns].count(("bound",)) == 1
        assert (shown.name, len(shown.holders), len(shown.waiters)) == ("handles_max", 1, 1)
        assert {one.frames[0] for one in (*shown.holders, *shown.waiters)} == {first.id, second.id}
        assert [(await results(one))[0][1] for one in (first, second)] == ["had one", "had one"]
        assert after.limits == ()


@pytest.mark.parametrize(
    "setting", ["handles_max", "agent_handles_max", "conversation_handles_max", "toolbox_handles_max"]
)
async def test_a_call_that_has_all_handles_itself_is_told_at_once(setting: str) -> None:
    async with lab(Mind(calls(call("two_folders"))), [two_folders], options=bounded(**{setting: 1})) as here:
        conversation = await here.start()
        await conversation.ask("go")
        ((status, text),) = await results(conversation)
        noted = await notes_of(conversation)

        assert status == "failed(deadlock)"
        assert f"{setting} allows 1 handles there: raise it, or give one back before" in text
        assert [what.what.value for _, what in noted] == ["deadlock"]
        assert len(here.kernel.resources) == 0


async def test_bounds_of_a_tenant_hold_for_its_conversations_alone() -> None:
    mind = Mind(calls(call("two_folders")), "done", calls(call("two_folders")))
    async with lab(mind, [two_folders], options=bounded(tenant_handles_max=1)) as here:
        with_one, without = await here.kernel.start("main", tenant="acme"), await here.start()
        await with_one.ask("go")
        await without.ask("go")

        assert (await results(with_one))[0][0] == "failed(deadlock)"
        assert (await results(without))[0] == ("done", "had two")


async def test_what_is_kept_for_a_conversation_refuses_the_next_by_name_until_it_is_released() -> None:
    async def keep(name: str, context: CallContext) -> str:
        async with context.resource("tempdir", name, scope="conversation"):
            return f"has {name}"

    mind = Mind(calls(call("keep", name="a")), calls(call("keep", name="b")), "done", calls(call("keep", name="c")))
    async with lab(mind, [keep], options=bounded(conversation_handles_max=1)) as here:
        conversation = await here.start()
        await conversation.ask("go")
        released = await here.kernel.release(conversation.id)
        await conversation.ask("again")
        told = await results(conversation)

        assert [status for status, _ in told] == ["done", "failed(resource)", "done"]
        assert (
            f"conversation_handles_max allows 1 handles in conversation {conversation.id}, 1 are in use" in told[1][1]
        )
        assert "none of them comes back by itself; raise conversation_handles_max, or give some back" in told[1][1]
        assert released == 1


async def test_an_idle_handle_of_a_pool_makes_room_for_who_waits() -> None:
    told: list[str] = []

    async def make() -> str:
        told.append("made")
        return f"connection {len(told)}"

    async def connect(context: CallContext) -> str:
        async with context.borrow("connections"):
            return "connected"

    factory = Factory(make, close=lambda handle: told.append(f"closed {handle}"))
    mind = Mind(calls(call("connect")), calls(call("two_folders")))
    async with lab(mind, [connect, two_folders], options=bounded(handles_max=2)) as here:
        await here.kernel.resources.create(
            here.kernel.scope, "database", "connections", factory, pattern=Pattern.POOL, size=2
        )
        conversation = await here.start()
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["connected", "had two"]
        assert told == ["made", "closed connection 1"]


async def test_what_cannot_be_made_gives_its_place_back() -> None:
    tries: list[str] = []

    def fails() -> Factory[str]:
        async def make() -> str:
            tries.append("tried")
            if len(tries) == 1:
                raise OSError("no such device")
            return "made"

        return Factory(make)

    async def use(context: CallContext) -> str:
        async with context.resource("device") as handle:
            return str(handle)

    mind = Mind(calls(call("use")), calls(call("use")))
    async with lab(mind, [use], options=bounded(handles_max=1)) as here:
        here.kernel.resources.register(ResourceKind(name="device", factory=fails))
        conversation = await here.start()
        await conversation.ask("go")

        assert [status for status, _ in await results(conversation)] == ["failed(raised)", "done"]
        assert (await here.kernel.top()).limits == ()


async def test_bytes_are_looked_at_before_more_is_made(tmp_path: Path) -> None:
    async def fill(name: str, size: int, context: CallContext) -> str:
        options = {"parent": tmp_path}
        async with context.resource("tempdir", name, scope="conversation", options=options) as folder:
            with folder.create("data") as file:
                file.write(b"x" * size)
        return f"filled {name}"

    mind = Mind(*(calls(call("fill", name=name, size=600)) for name in "abc"))
    async with lab(mind, [fill], options=bounded(conversation_resource_bytes_max=1_000)) as here:
        conversation, other = await here.start(), await here.start()
        await conversation.ask("go")
        limits = (await here.kernel.top()).limits
        told = await results(conversation)

        assert [status for status, _ in told] == ["done", "done", "failed(resource)"]
        assert f"allows 1000 bytes in conversation {conversation.id}, 1200 are in use" in told[2][1]
        assert [(one.of, one.name, one.size, one.held) for one in limits] == [("bytes", conversation.id, 1_000, 1_200)]
        await here.kernel.release(conversation.id)
        assert (await here.kernel.top()).limits == ()
        await other.close()


async def test_a_call_that_waits_for_long_is_an_entry_and_lsof_shows_whose_it_is() -> None:
    door = DOOR.new()

    async def connect(context: CallContext) -> str:
        async with context.borrow("connections") as handle:
            return str(handle)

    async def make() -> str:
        return "connected"

    options = {"settings": Settings(handles_max=1, wait_warn_s=10)}
    async with lab(
        Mind(calls(call("one_folder")), calls(call("connect"))), [one_folder, connect], options=options
    ) as here:
        first, second = await here.start(), await here.start()
        asked = [asyncio.create_task(first.ask("go"))]
        await settled(here.kernel)
        connections = Shared("connections", "database", Pattern.POOL, Factory(make))
        here.kernel.resources.adopt(here.kernel.scope, connections)
        asked.append(asyncio.create_task(second.ask("go")))
        await settled(here.kernel)
        (shown,) = [one for one in await here.kernel.lsof() if one.kind == "bound"]
        early = await notes_of(second)
        await here.advance(10)
        await here.advance(5)
        door.set()
        await asyncio.gather(*asked)
        noted = [what for _, what in await notes_of(second)]

        assert [one.frames[0] for one in shown.waiters] == [second.id]
        assert (early, [(one.what.value, one.resource, one.of) for one in noted]) == (
            [],
            [("starved", "handles_max", "bound")],
        )
        assert [text for _, text in await results(second)] == ["connected"]


async def test_a_call_whose_time_is_over_while_it_waits_is_told_for_what() -> None:
    door = DOOR.new()
    mind = Mind(calls(call("one_folder")), calls(call("one_folder")))
    async with lab(mind, [one_folder], options=bounded(handles_max=1), tool_s=20) as here:
        first, second = await here.start(), await here.start()
        one = asyncio.create_task(first.ask("go"))
        await settled(here.kernel)
        other = asyncio.create_task(second.ask("go"))
        await here.advance(1)
        await here.advance(20)
        door.set()
        await asyncio.gather(one, other)
        ((_, text),) = await results(second)

    assert text.startswith("no result within 20 s; it waited for one of the 1 handles that handles_max allows; ")


async def test_a_kernel_without_such_bounds_counts_nothing() -> None:
    seen: list[Any] = []

    async def look(context: CallContext) -> str:
        seen.append(asked_now())
        return "looked"

    async with lab(Mind(calls(call("look"))), [look], options=bounded(calls_max=2)) as here:
        await here.ask()

        assert seen == [None]
        assert here.kernel.resources.account_of is None


async def test_a_bound_and_a_resource_that_two_calls_wait_for_crosswise_are_a_deadlock() -> None:
    begun = asyncio.Event()

    async def folder_then_printer(context: CallContext) -> str:
        async with context.resource("tempdir"):
            begun.set()
            async with context.borrow("printer"):
                return "had both"

    async def printer_then_folder(context: CallContext) -> str:
        async with context.borrow("printer"):
            await begun.wait()
            async with context.resource("tempdir"):
                return "had both"

    minds = {"other": (Mind(calls(call("printer_then_folder"))), {"toolboxes": ["box"]})}
    tools = [folder_then_printer, printer_then_folder]
    async with lab(
        Mind(calls(call("folder_then_printer"))), tools, others=minds, options=bounded(handles_max=2)
    ) as here:
        await printer(here)
        other, main = await here.start("other"), await here.start()
        waits = asyncio.create_task(other.ask("go"))
        await settled(here.kernel)
        await asyncio.gather(main.ask("go"), waits)
        told = [(await results(one))[0] for one in (main, other)]

        assert sorted(status for status, _ in told) == ["done", "failed(deadlock)"]
        assert (await here.kernel.top()).limits[0].held == 1


@pytest.mark.parametrize(
    ("tool", "waited"),
    [("print_it", "resource 'printer', held by "), ("use_it", "a handle of resource 'device', to be")],
)
async def test_a_call_whose_time_is_over_while_it_borrows_is_told_for_what_it_waited(tool: str, waited: str) -> None:
    async def print_it(context: CallContext) -> str:
        async with context.borrow("printer"):
            return "printed"

    async def use_it(context: CallContext) -> str:
        async with context.resource("device") as handle:
            return str(handle)

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    async with lab(Mind(calls(call(tool))), [print_it, use_it], tool_s=20) as here:
        await printer(here)
        here.kernel.resources.register(ResourceKind(name="device", factory=lambda: Factory(never)))
        conversation = await here.start()
        async with here.kernel.resources.find("printer", here.kernel.scope).borrow():
            asked = asyncio.create_task(conversation.ask("go"))
            await here.advance(20)
            await asked
        ((_, text),) = await results(conversation)

    assert text.startswith(f"no result within 20 s; it waited for {waited}")
