"""What is bounded, who waits and who has which weight is shown."""

from __future__ import annotations

import asyncio

from agentos.definitions import AgentSpec
from agentos.interfaces.cli.top.lines import summary
from agentos.kernel import Kernel
from agentos.kernel.listing import Listing
from agentos.kernel.top import LimitUse
from agentos.settings import Settings
from tests.support import Mind, hang, lab, settled, until


async def test_top_and_ps_show_bounds_waiting_turns_and_weights() -> None:
    async with lab(Mind(*[hang] * 5), options={"settings": Settings(turns_max=1)}, turns_at_once=4) as here:
        await here.kernel.renice("main", 2.5)
        await here.kernel.renice("acme", 4, tenant=True)
        talks = [await here.start() for _ in range(3)]
        asked = [asyncio.create_task(talk.ask("go")) for talk in talks]
        await settled(here.kernel)
        top = await here.kernel.top()
        page = await here.kernel.page(Listing(sort="started"))
        waiting = await here.kernel.page(Listing(sort="started", state="waiting"))
        first = await here.kernel.page(Listing(sort="started", state="waiting", limit=1))
        rest = await here.kernel.page(Listing(sort="started", state="waiting", after=talks[2].id))
        states = [here.kernel.state_of(talk.id) for talk in talks]
        for task in asked:
            task.cancel()
        for talk in talks:
            await talk.interrupt()

    lines = "\n".join(summary(None, top))
    assert (top.turns_waiting, [one.state for one in page.conversations]) == (2, ["waiting", "waiting", "running"])
    assert (waiting.conversations, waiting.more) == (page.conversations[:2], 0)
    assert (first.conversations, first.more) == (page.conversations[:1], 1)
    assert (rest.conversations, rest.more) == (page.conversations[1:2], 0)
    assert states == ["running", "waiting", "waiting"]
    assert top.limits == (
        LimitUse(of="turns", scope="agent", name="main", size=4, held=3, waiting=0),
        LimitUse(of="turns", scope="program", name="", size=1, held=1, waiting=2),
    )
    for words in ("2 waiting for a place", "turns of agent main 3/4, turns 1/1 +2 waiting", "main 2.5, tenant acme 4"):
        assert words in lines


async def test_turns_that_wait_are_found_in_every_store(durable_url: str) -> None:
    async with Kernel(durable_url, settings=Settings(turns_max=1)) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=Mind(hang))
        talks = [await kernel.start("main", tenant=tenant) for tenant in (None, "acme", "acme", None)]
        for talk in talks:
            await talk.send("go")
        await until(lambda: kernel.turns_waiting == 3)
        found = await kernel.page(Listing(state="waiting", tenant="acme", roots=True))
        rest = await kernel.page(Listing(state="waiting", agent="main", sort="started", after=talks[2].id, limit=1))
        await kernel.close(0)

    assert {row.id for row in found.conversations} == {talk.id for talk in talks[1:3]}
    assert {(row.state, row.tenant) for row in found.conversations} == {("waiting", "acme")}
    assert ([row.id for row in rest.conversations], rest.more) == ([talks[1].id], 0)
