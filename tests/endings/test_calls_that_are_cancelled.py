"""A call that has a resource of any kind, or is about to have it, is cancelled: at each of its awaits, or with its turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentos.ids import LogId
from tests.endings.bench import bench
from tests.endings.kinds import KINDS
from tests.endings.stepping import Steps
from tests.support import results

AWAITS_MAX = 100


async def breathe(kind: str, handle: Any) -> None:
    """A call that has what it asked for waits for something at least once."""
    await asyncio.sleep(0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_is_cancelled_at_any_of_its_awaits_gives_everything_back(kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path, kind) as here:
        log, runner = LogId(here.conversation.id), here.lab.kernel.runner
        steps = Steps(lambda: runner.stop(log))
        said: list[str] = []
        here.meanwhile = breathe
        with steps.in_force():
            while not said or steps.seen >= steps.at:
                assert len(said) < AWAITS_MAX, "it does not end by itself"
                steps.begin(len(said) + 1)
                said.append((await here.ask(kind))[0])
                await here.meter.check()

        cancelled = said.index("done")
        assert cancelled > 0
        assert said[:cancelled] == ["cancelled(interrupted)"] * cancelled
        assert set(said[cancelled:]) == {"done"}, "from there on it was only giving back"
        await here.check_given_back(kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_turn_that_is_interrupted_gives_everything_back(kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path, kind) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.conversation.ask(kind))
        await here.held.get()
        await here.conversation.interrupt()
        outcome = await asked

        assert str(outcome) == "cancelled(interrupt)"
        assert (await results(here.conversation))[-1][0] == "cancelled(interrupted)"
        await here.check_given_back(kind)
