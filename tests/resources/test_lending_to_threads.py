"""A sync tool holds and waits as one: all that its thread asks of the loop counts as the thread's own."""

from __future__ import annotations

import asyncio
import threading

from agentos.components import Access, Concern, Pattern
from agentos.ports import CallContext
from agentos.resources.threaded import ask_loop, who_waits
from tests.resources.lending import notes_of, printer, replays
from tests.support import Mind, call, calls, lab, results, until


async def test_a_thread_that_reads_and_asks_to_write_is_refused() -> None:
    def change(context: CallContext) -> str:
        with (
            context.borrow_from_thread("printer", access=Access.READ),
            context.borrow_from_thread("printer", access=Access.WRITE),
        ):
            return "both"

    async with lab(Mind(calls(call("change"))), [change]) as here:
        await printer(here, Pattern.READ_WRITE)
        conversation = await here.start()
        await conversation.ask("go")
        ((status, text),) = await results(conversation)

        assert status == "failed(resource)"
        assert "reads it and asks to write" in text
        assert here.kernel.resources.rows()[0].holders == ()


async def test_a_thread_that_wants_what_it_has_is_refused() -> None:
    def twice(context: CallContext) -> str:
        with context.borrow_from_thread("printer"), context.borrow_from_thread("printer"):
            return "both"

    async with lab(Mind(calls(call("twice"))), [twice]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")

        assert (await results(conversation))[0][0] == "failed(deadlock)"
        assert [noted.what for _, noted in await notes_of(conversation)] == [Concern.DEADLOCK]


async def test_two_threads_that_want_what_the_other_has_are_one_refused_and_one_served() -> None:
    both = threading.Barrier(2, timeout=60)

    def take(first: str, second: str, context: CallContext) -> str:
        with context.borrow_from_thread(first):
            both.wait()
            with context.borrow_from_thread(second):
                return "both"

    mind = Mind(calls(call("take", first="left", second="right"), call("take", first="right", second="left")))
    async with lab(mind, [take]) as here:
        await printer(here, name="left")
        await printer(here, name="right")
        conversation = await here.start()
        await conversation.ask("go")
        ((_, noted),) = await notes_of(conversation)

        assert sorted(status for status, _ in await results(conversation)) == ["done", "failed(deadlock)"]
        assert (noted.what, len(noted.cycle)) == (Concern.DEADLOCK, 2)
        assert await replays(here.kernel, conversation.id)


async def test_an_inner_call_that_needs_what_the_thread_above_it_has_is_refused() -> None:
    def outer(context: CallContext) -> str:
        with context.borrow_from_thread("printer"):
            return context.call_from_thread("inner", {}).text

    def inner(context: CallContext) -> str:
        with context.borrow_from_thread("printer"):
            return "had"

    async with lab(Mind(calls(call("outer"))), [outer, inner]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        found = await results(conversation)

        assert [status for status, _ in found] == ["failed(deadlock)", "done"]
        assert await replays(here.kernel, conversation.id)


async def test_an_inner_call_reads_what_the_thread_above_it_reads() -> None:
    """It is not taken for the thread, in whose name it was asked for."""

    def outer(context: CallContext) -> str:
        with context.borrow_from_thread("printer", access=Access.READ):
            return context.call_from_thread("inner", {}).text

    async def inner(context: CallContext) -> str:
        async with context.borrow("printer", access=Access.READ):
            waiting.append(who_waits())
            return "had"

    waiting: list[object] = []
    async with lab(Mind(calls(call("outer"))), [outer, inner]) as here:
        await printer(here, Pattern.READ_WRITE)
        conversation = await here.start()
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["had", "had"]
        assert isinstance(waiting[0], asyncio.Task)


async def test_what_a_thread_asks_of_the_loop_is_in_its_name_and_what_that_starts_is_not() -> None:
    async def look() -> tuple[object, object]:
        return who_waits(), await asyncio.create_task(below())

    async def below() -> object:
        return who_waits()

    def ask() -> None:
        said.append((threading.current_thread(), *ask_loop(loop, look())))

    loop, said = asyncio.get_running_loop(), list[tuple[object, object, object]]()
    await asyncio.to_thread(ask)
    ((thread, asked, started),) = said

    assert asked is thread
    assert isinstance(started, asyncio.Task)
    assert who_waits() is asyncio.current_task()


async def test_a_thread_whose_call_was_cancelled_while_it_waits_gives_back_what_it_gets() -> None:
    began = threading.Event()
    ended = threading.Event()

    def want(context: CallContext) -> str:
        began.set()
        try:
            with context.borrow_from_thread("printer"):
                return "had"
        finally:
            ended.set()

    async with lab(Mind(calls(call("want"))), [want]) as here:
        await printer(here)
        (shared,) = here.kernel.resources._all()
        async with shared.borrow():
            conversation = await here.start()
            asked = asyncio.create_task(conversation.ask("go"))
            await until(lambda: bool(here.kernel.resources.rows()[0].waiters))
            await conversation.interrupt()
            outcome = await asked
        await until(ended.is_set)
        await until(lambda: not here.kernel.resources.rows()[0].holders)

        assert not outcome.completed
        assert here.kernel.resources.rows()[0].waiters == ()
