"""Circles of waits: one is named once, by who closed it; and a wait that is about to end by itself is in none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentos.components import Access, Concern, Pattern
from agentos.errors import KernelClosed, ResourceAccessTimeout, ResourceDeadlock
from agentos.ids import RandomIds, call_id
from agentos.ports import CallContext
from agentos.resources import Borrower, Factory, Level, Note, Resources, Scope, Shared
from agentos.testing.clock import ManualClock
from agentos.toolboxes.python import tool
from tests.resources.lending import notes_of, printer, replays
from tests.support import Lab, Life, Mind, call, calls, crash, lab, results, spin, until

WARN_S = 30.0


class Table:
    """Resources of a program, and what was noted of them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.all = Resources(self.clock, RandomIds(), hold_warn_s=1_000, wait_warn_s=WARN_S)
        self.scope = Scope(Level.PROGRAM, "program")
        self.notes: list[Note] = []
        self.all.lookout.noted_to = self.notes.append

    async def make(self, name: str, pattern: Pattern = Pattern.EXCLUSIVE, size: int = 1) -> Shared[list[int]]:
        async def handle() -> list[int]:
            return []

        return await self.all.create(self.scope, "thing", name, Factory(handle), pattern=pattern, size=size)


@asynccontextmanager
async def table() -> AsyncIterator[Table]:
    made = Table()
    try:
        yield made
    finally:
        await made.scope.close()
        made.all.shut()


@pytest.mark.parametrize("length", [2, 3, 10])
async def test_a_circle_of_any_length_is_named_once_and_ends_with_who_closed_it(length: int) -> None:
    doors = [asyncio.Event() for _ in range(length)]
    order: list[str] = []

    async def take(number: int, context: CallContext) -> str:
        async with context.borrow(f"thing-{number}"):
            doors[number].set()
            await asyncio.gather(*(door.wait() for door in doors))
            order.append(context.call_id)
            async with context.borrow(f"thing-{(number + 1) % length}"):
                return "both"

    mind = Mind(calls(*[call("take", number=number) for number in range(length)]), "well")
    async with lab(mind, [take]) as here:
        for number in range(length):
            await printer(here, name=f"thing-{number}")
        conversation = await here.start()
        await conversation.ask("go")
        ((refused, noted),) = await notes_of(conversation)

        assert sorted(status for status, _ in await results(conversation)) == ["done"] * (length - 1) + [
            "failed(deadlock)"
        ]
        assert (noted.what, len(noted.cycle)) == (Concern.DEADLOCK, length)
        assert call_id(conversation.id, refused) == order[-1]
        assert {link.resource for link in noted.cycle} == {f"thing-{number}" for number in range(length)}
        assert await replays(here.kernel, conversation.id)


async def test_who_begins_to_wait_as_the_time_of_another_is_over_closes_no_circle() -> None:
    """Its place in line is given up when its task has run; until then it counts as what it is, one that goes on."""
    go = asyncio.Event()
    had: list[str] = []

    async def impatient() -> None:
        async with left.borrow():
            with pytest.raises(ResourceAccessTimeout):
                async with right.borrow(timeout_s=5):
                    had.append("impatient")

    async def late() -> None:
        async with right.borrow():
            await go.wait()
            async with left.borrow():
                had.append("late")

    async with table() as here:
        left, right = await here.make("left"), await here.make("right")
        tasks = [asyncio.create_task(late()), asyncio.create_task(impatient())]
        await spin()
        go.set()
        here.clock.advance(5)
        await asyncio.gather(*tasks)

        assert had == ["late"]
        assert here.notes == []


async def test_who_begins_to_wait_as_another_is_cancelled_closes_no_circle() -> None:
    go = asyncio.Event()
    had: list[str] = []

    async def first() -> None:
        async with left.borrow(), right.borrow():
            had.append("first")

    async def late() -> None:
        async with right.borrow():
            await go.wait()
            async with left.borrow():
                had.append("late")

    async with table() as here:
        left, right = await here.make("left"), await here.make("right")
        second, one = asyncio.create_task(late()), asyncio.create_task(first())
        await spin()
        go.set()
        one.cancel()
        await asyncio.gather(second, one, return_exceptions=True)

        assert (one.cancelled(), had, here.notes) == (True, ["late"], [])


async def test_a_circle_that_is_found_late_ends_with_its_youngest_and_is_named_once() -> None:
    """Two wait in the name of calls; that others wait for these is known only later, as it is of a queued child."""
    old, young = ("conversation_1", 1), ("conversation_2", 2)
    door = asyncio.Event()
    ended: dict[str, str] = {}

    async def hold(shared: Shared[list[int]]) -> None:
        async with shared.borrow():
            await door.wait()

    async def want(name: str, shared: Shared[list[int]], caller: tuple[str, int]) -> None:
        try:
            async with shared.borrow(Borrower(caller=caller)):
                ended[name] = "had"
        except ResourceDeadlock:
            ended[name] = "refused"

    async with table() as here:
        left, right = await here.make("left"), await here.make("right")
        holds_left, holds_right = asyncio.create_task(hold(left)), asyncio.create_task(hold(right))
        await spin()
        waiting = [asyncio.create_task(want("old", right, old))]
        await spin()
        here.clock.advance(1)
        waiting.append(asyncio.create_task(want("young", left, young)))
        await spin()
        here.all.lookout.above = lambda caller: [{old: holds_left, young: holds_right}[caller]]
        for _ in range(6):
            here.clock.advance(WARN_S / 4)
            await spin()
        said = [note.what for note in here.notes]
        before = dict(ended)
        door.set()
        await asyncio.gather(*waiting, holds_left, holds_right)

        assert before == {"young": "refused"}
        assert ended == {"young": "refused", "old": "had"}
        assert said == [Concern.STARVED, Concern.DEADLOCK]


async def test_the_oldest_wait_of_a_circle_may_have_a_time_and_is_not_waited_for() -> None:
    """Somebody of the circle has to fail. It fails at once, and the others have what they asked for within their time."""

    async def take(first: Shared[list[int]], second: Shared[list[int]], timeout_s: float | None) -> str:
        async with first.borrow():
            await spin(2)
            try:
                async with second.borrow(timeout_s=timeout_s):
                    return "both"
            except ResourceDeadlock:
                return "refused"

    async with table() as here:
        left, right = await here.make("left"), await here.make("right")
        ended = await asyncio.gather(take(left, right, 5), take(right, left, None))

        assert list(ended) == ["both", "refused"]
        assert [note.what for note in here.notes] == [Concern.DEADLOCK]


async def test_two_calls_that_read_and_have_a_third_write_are_both_refused_by_name() -> None:
    """An upgrade by way of an inner call waits for its own caller."""
    doors = [asyncio.Event(), asyncio.Event()]

    async def read(number: int, context: CallContext) -> str:
        async with context.borrow("file", access=Access.READ):
            doors[number].set()
            await doors[1 - number].wait()
            return (await context.call("write", {})).text

    async def write(context: CallContext) -> str:
        async with context.borrow("file", access=Access.WRITE):
            return "written"

    async with lab(Mind(calls(call("read", number=0), call("read", number=1))), [read, write]) as here:
        await printer(here, Pattern.READ_WRITE, name="file")
        conversation = await here.start()
        await conversation.ask("go")
        found = await results(conversation)

        assert sorted(status for status, _ in found) == ["done", "done", "failed(deadlock)", "failed(deadlock)"]
        assert all("waits for file" in text for _, text in found)
        assert await replays(here.kernel, conversation.id)


async def test_an_upgrade_by_way_of_a_subagent_is_refused() -> None:
    async def read(context: CallContext) -> str:
        async with context.borrow("file", access=Access.READ):
            return (await context.call("ask_aide", {"task": "write"})).text

    async def write(context: CallContext) -> str:
        async with context.borrow("file", access=Access.WRITE):
            return "written"

    aide = Mind(calls(call("write")), lambda request: f"I got: {request.messages[-1].text}")
    others = {"aide": (aide, {"toolboxes": ["box"]})}
    async with lab(Mind(calls(call("read")), "well"), [read, write], others=others, subagents=["aide"]) as here:
        await printer(here, Pattern.READ_WRITE, name="file")
        conversation = await here.start()
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert "file' would never come free, a deadlock" in (await results(conversation))[0][1]
        assert await replays(here.kernel, conversation.id)


async def test_a_pool_is_no_circle_as_long_as_one_who_has_some_of_it_goes_on() -> None:
    """Two wait in turn for each other's; the third of the pool gives back, and so do all."""
    had: list[str] = []
    door = asyncio.Event()

    async def take(name: str) -> None:
        async with pool.borrow():
            await spin(3)
            async with pool.borrow():
                had.append(name)

    async def bystander() -> None:
        async with pool.borrow():
            await door.wait()

    async with table() as here:
        pool = await here.make("pool", Pattern.POOL, size=3)
        tasks = [asyncio.create_task(work) for work in (bystander(), take("one"), take("two"))]
        await spin()
        before = [task.done() for task in tasks]
        door.set()
        await asyncio.gather(*tasks)

        assert before == [False, False, False]
        assert had == ["one", "two"]
        assert here.notes == []


async def test_a_pool_that_all_who_have_it_want_more_of_is_a_circle_of_all() -> None:
    ended: list[str] = []

    async def take() -> None:
        async with pool.borrow():
            await spin(3)
            try:
                async with pool.borrow():
                    ended.append("both")
            except ResourceDeadlock:
                ended.append("refused")

    async with table() as here:
        pool = await here.make("pool", Pattern.POOL, size=3)
        await asyncio.gather(*(take() for _ in range(3)))

        assert ended == ["refused", "both", "both"]
        assert [note.what for note in here.notes] == [Concern.DEADLOCK]


async def test_a_crash_after_a_note_leaves_a_log_that_goes_on_and_replays() -> None:
    """What is alive ends with the process; the notes are what is left of it, and the next process has it made anew."""

    @tool(effect="pure")
    async def hold(context: CallContext) -> str:
        async with context.borrow("printer"):
            await door.wait()
        return "held"

    door = asyncio.Event()
    life = Life()

    async def noted(here: Lab) -> bool:
        here.clock.advance(5)
        await asyncio.sleep(0)
        return bool((await here.kernel.query("select 1 from entries where kind = 'resource.noted'")).rows)

    async def prepared(here: Lab) -> None:
        if not here.kernel.resources.rows():
            await printer(here)

    mind = Mind(calls(call("hold"), call("hold")), "well", "well")
    async with life.open(mind, [hold], tool_s=1_000.0) as here:
        await prepared(here)
        conversation = await here.start()
        life.id = conversation.id
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: noted(here))
        crash(here)
    await asyncio.wait([asked])
    door.set()
    async with life.open(mind, [hold], tool_s=1_000.0) as here:
        await prepared(here)
        conversation, outcome = await life.recovered(here)

        assert isinstance(asked.exception(), KernelClosed)
        assert outcome == "completed"
        assert [noted.what for _, noted in await notes_of(conversation)] == [Concern.STARVED]
        assert [status for status, _ in await results(conversation)] == ["lost", "lost", "done", "done"]
        assert await replays(here.kernel, conversation.id)
