"""Who watches all conversations of a kernel, and words to end it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ControlRefused
from agentos.events.entry import Entry
from agentos.ids import LogId
from agentos.kernel import Kernel
from agentos.kernel.control import SocketClient
from agentos.kernel.watch import StreamGap
from agentos.settings import Settings
from tests.control.support import listening, path_of
from tests.support import Mind, lab


async def test_the_entries_of_all_conversations_come_in_the_order_in_which_they_are_stored() -> None:
    async with lab(Mind()) as here:
        following = asyncio.ensure_future(_all(here.kernel))
        await asyncio.sleep(0)
        ids = [(await here.ask()).conversation for _ in range(3)]
        stored = [entry for id_ in ids for entry in await here.kernel.history(id_)]
        await here.kernel.close(0)

        assert await following == stored


async def test_who_takes_them_too_slowly_is_told_of_a_gap_and_the_kernel_does_not_wait() -> None:
    async with (
        lab(Mind(), options={"settings": Settings(watch_queue_max=8)}) as here,
        aclosing(_everything(here.kernel)) as items,
    ):
        first = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        for _ in range(5):
            await here.ask()
        seen = [await first, *[await anext(items) for _ in range(3)]]

        assert any(isinstance(item, StreamGap) for item in seen)


async def test_nothing_is_kept_for_those_who_have_gone() -> None:
    async with lab(Mind()) as here:
        async with aclosing(_everything(here.kernel)) as items:
            first = asyncio.ensure_future(anext(items))
            await asyncio.sleep(0)
            assert LogId("conversation_any") in here.kernel.watchers
            await here.start()
            await first
        assert LogId("conversation_any") not in here.kernel.watchers


async def test_a_word_to_end_is_heard_by_whoever_listens_for_it(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel, SocketClient(path_of(kernel)) as client:
        with pytest.raises(ControlRefused, match="does not take 'stop'"):
            await client.stop()
        kernel.stopping.listen()
        await client.stop()
        await client.stop(force=True)

        assert [await kernel.stopping.wait() for _ in range(2)] == [False, True]


async def test_words_to_end_beyond_what_anybody_hears_are_dropped(tmp_path: Path) -> None:
    async with listening(tmp_path) as kernel:
        kernel.stopping.listen()
        for _ in range(100):
            kernel.stopping.ask(force=False)

        assert await kernel.stopping.wait() is False


def _everything(kernel: Kernel) -> Any:
    """It is a generator, which can be closed."""
    return kernel.everything()


async def _all(kernel: Kernel) -> list[Entry | StreamGap]:
    return [item async for item in kernel.everything()]
