"""Kinds that every kernel knows are told the name and the clock; who asks or makes wrongly is told what was meant."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from agentos.components import Access, Pattern
from agentos.errors import ResourceBusy
from agentos.ports import CallContext
from agentos.resources import Factory, Shared
from agentos.resources.kinds.cache import CacheLimits
from agentos.resources.kinds.process import Program
from tests.resources.lending import printer
from tests.support import Mind, Reply, call, calls, lab, results


async def test_a_cache_that_a_tool_asks_for_forgets_by_the_clock_of_the_kernel() -> None:
    made: list[str] = []

    async def make(key: str) -> str:
        made.append(key)
        return f"{key} {len(made)}"

    async def look(context: CallContext) -> str:
        options = {"make": make, "size_of": len, "limits": CacheLimits(ttl_s=10)}
        async with context.resource("cache", scope="agent", options=options) as texts:
            return str(await texts.get("text"))

    replies: list[Reply] = [calls(call("look")), "well"]
    async with lab(Mind(*replies * 3), [look]) as here:
        conversation = await here.start()
        for wait_s in (0.0, 9.9, 0.1):
            await here.advance(wait_s)
            await conversation.ask("go")

        assert await results(conversation) == [("done", "text 1"), ("done", "text 1"), ("done", "text 2")]


async def test_a_process_that_a_tool_asks_for_is_told_of_by_the_name_of_its_resource() -> None:
    async def ask(context: CallContext) -> str:
        program = Program(
            argv=(sys.executable, "-c", "input(); raise SystemExit('no index here')"), environment={}, cwd=os.getcwd()
        )
        async with context.resource("jsonrpc", "indexer", options={"program": program}) as process:
            return str(await process.ask("find", {}))

    async with lab(Mind(calls(call("ask"))), [ask]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        ((status, text),) = await results(conversation)

        assert status == "failed(resource)"
        assert text.startswith("indexer: ")


async def test_options_that_a_kind_does_not_take_are_refused_with_its_name() -> None:
    async def no_such(context: CallContext) -> str:
        async with context.resource("tempdir", options={"size": 3}) as folder:
            return str(folder)

    async def none_given(context: CallContext) -> str:
        async with context.resource("process") as process:
            return str(process)

    async with lab(Mind(calls(call("no_such"), call("none_given"))), [no_such, none_given]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        texts = [text for _, text in await results(conversation)]

        assert texts[0].endswith("options of the kind 'tempdir': got an unexpected keyword argument 'size'")
        assert texts[1].endswith("options of the kind 'process': missing a required argument: 'program'")


async def test_who_asks_for_what_there_is_not_is_told_what_there_is() -> None:
    async def lend(name: str, context: CallContext) -> str:
        async with context.borrow(name) as handle:
            return str(handle)

    async def make(kind: str, context: CallContext) -> str:
        async with context.resource(kind) as handle:
            return str(handle)

    asked = calls(call("lend", name="plotter"), call("lend", name="tempdir"), call("make", kind="plotter"))
    async with lab(Mind(asked), [lend, make]) as here:
        await printer(here)
        conversation = await here.start()
        await conversation.ask("go")
        ended = await results(conversation)

        assert [status for status, _ in ended] == ["failed(resource)"] * 3
        unknown, kind, no_kind = (text for _, text in ended)
        assert unknown == "no resource 'plotter' lives in program and program/box or around it; those that do: printer"
        assert kind.endswith("; 'tempdir' is a kind, of which context.resource('tempdir') makes one")
        assert no_kind.startswith("no kind of resource is named 'plotter'; there are: cache, http_pool, jsonrpc, lua,")


async def test_a_pattern_and_an_access_may_be_given_by_their_words() -> None:
    pattern: Any = "read-write"
    access: Any = "read"
    shared = Shared("book", "test", pattern, Factory(book))
    await shared.open()
    async with shared.borrow(access=access), shared.borrow(access=access):
        holders = shared.statistics().holders
        with pytest.raises(ResourceBusy), shared.borrow_nowait():
            raise AssertionError("two read it")
    with pytest.raises(ValueError, match="'look' is not a valid Access"):
        shared.borrow(access="look")  # type: ignore[arg-type]
    await shared.close()

    assert (shared.pattern, [one.access for one in holders]) == (Pattern.READ_WRITE, [Access.READ, Access.READ])


async def test_a_factory_that_cannot_be_awaited_is_told_by_the_name_of_its_resource() -> None:
    make: Any = list
    shared = Shared("book", "test", Pattern.EXCLUSIVE, Factory(make))

    with pytest.raises(TypeError, match="resource 'book': its factory's make is no async function"):
        await shared.open()


async def book() -> str:
    return "book"
