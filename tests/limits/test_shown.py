"""What is bounded, who waits and who has which weight is shown."""

from __future__ import annotations

import asyncio

from agentos.interfaces.cli.top.lines import summary
from agentos.kernel.listing import Listing
from agentos.kernel.top import LimitUse
from agentos.settings import Settings
from tests.support import Mind, hang, lab, settled


async def test_top_and_ps_show_bounds_waiting_turns_and_weights() -> None:
    async with lab(Mind(*[hang] * 5), options={"settings": Settings(turns_max=1)}, turns_at_once=4) as here:
        await here.kernel.renice("main", 2.5)
        await here.kernel.renice("acme", 4, tenant=True)
        talks = [await here.start() for _ in range(3)]
        asked = [asyncio.create_task(talk.ask("go")) for talk in talks]
        await settled(here.kernel)
        top = await here.kernel.top()
        page = await here.kernel.page(Listing(sort="started"))
        states = [here.kernel.state_of(talk.id) for talk in talks]
        for task in asked:
            task.cancel()
        for talk in talks:
            await talk.interrupt()

    lines = "\n".join(summary(None, top))
    assert (top.turns_waiting, [one.state for one in page.conversations]) == (2, ["waiting", "waiting", "running"])
    assert states == ["running", "waiting", "waiting"]
    assert top.limits == (
        LimitUse(of="turns", scope="agent", name="main", size=4, held=3, waiting=0),
        LimitUse(of="turns", scope="program", name="", size=1, held=1, waiting=2),
    )
    for words in ("2 waiting for a place", "turns of agent main 3/4, turns 1/1 +2 waiting", "main 2.5, tenant acme 4"):
        assert words in lines
