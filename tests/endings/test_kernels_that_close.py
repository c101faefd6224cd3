"""A kernel is closed while a call has a resource of any kind: it waits for the call, or ends it, and nothing is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentos.errors import KernelClosed
from tests.endings.bench import TOOL_S, bench
from tests.endings.kinds import KINDS
from tests.support import settled

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
async def test_a_kernel_that_closes_waits_for_the_call_and_then_gives_everything_back(
    kind: str, tmp_path: Path
) -> None:
    async with bench(tmp_path, kind, scope=None) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.conversation.ask(kind))
        await here.held.get()
        closing = asyncio.create_task(here.lab.kernel.close(TOOL_S / 2))
        await settled(here.lab.kernel)
        before = closing.done()
        here.door.set()
        await closing

        assert not before
        assert (await asked).completed
        assert here.lab.kernel.left == ()
        await here.meter.check()


@every_kind
@pytest.mark.parametrize("scope", ["call", None], ids=["for-the-call", "as-its-kind-says"])
async def test_a_kernel_that_closes_at_once_ends_the_call_and_gives_everything_back(
    kind: str, scope: str | None, tmp_path: Path
) -> None:
    async with bench(tmp_path, kind, scope=scope) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.conversation.ask(kind))
        await here.held.get()
        await here.lab.kernel.close(0)

        with pytest.raises(KernelClosed):
            await asked
        assert here.lab.kernel.left == ()
        await here.meter.check()


async def test_a_kernel_whose_grace_is_over_ends_all_calls_whatever_they_have(tmp_path: Path) -> None:
    async with bench(tmp_path, *KINDS, scope=None) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.conversation.ask(" ".join(KINDS)))
        for _ in KINDS:
            await here.held.get()
        closing = asyncio.create_task(here.lab.kernel.close(TOOL_S / 2))
        await here.lab.advance(TOOL_S / 2)
        await closing

        with pytest.raises(KernelClosed):
            await asked
        assert here.lab.kernel.left == ()
        await here.meter.check()
