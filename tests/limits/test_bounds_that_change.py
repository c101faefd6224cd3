"""An agent's file is read again with other bounds, while turns and calls wait for the old ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentos.definitions import AgentSpec
from tests.limits.test_calls_at_once import Works, end_all, going, mind
from tests.limits.test_turns_at_once import Desk, answer_all, asking
from tests.support import Lab, lab, settled


async def says_now(here: Lab, **spec: Any) -> None:
    """The file of the agent says this from now on."""
    await here.kernel.install(AgentSpec(slug="main", **spec), model=here.minds["main"])
    await settled(here.kernel)


@pytest.mark.parametrize(("turns_at_once", "begun"), [(1, "a"), (2, "ab"), (3, "abc"), (None, "abcd")])
async def test_turns_that_wait_begin_when_the_file_allows_more(turns_at_once: int | None, begun: str) -> None:
    desk = Desk()
    async with lab(desk.mind(), turns_at_once=1) as here:
        _, asked = await asking(here, *"abcd")
        await says_now(here, turns_at_once=turns_at_once)
        now = list(desk.asked)
        await answer_all(here, desk)
        await asyncio.gather(*asked)

        assert now == list(begun)
        assert desk.asked == list("abcd")
        assert (await here.kernel.top()).limits == ()


async def test_calls_that_wait_run_when_the_file_allows_more() -> None:
    works = Works()
    async with lab(mind(), [works.work], calls_at_once=1) as here:
        asked = await going(here, "a b", "c d")
        before = list(works.began)
        await says_now(here, calls_at_once=3, toolboxes=["box"])
        now = list(works.began)
        await end_all(here, works)
        await asyncio.gather(*asked)

        assert (before, now) == (["a"], ["a", "b", "c"])
        assert sorted(works.began) == list("abcd")
