"""A call that has a resource of any kind ends by itself, by an error, by its limit, or as the child of it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agentos.resources.kinds.known import KNOWN
from tests.endings.bench import TOOL_S, bench
from tests.endings.kinds import KINDS, LENT_TO_ONE, PROCESSES
from tests.support import results, until

every_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_kind_that_a_kernel_knows_is_ended_in_every_way() -> None:
    assert {kind.name for kind in KNOWN} <= KINDS.keys()


@every_kind
async def test_every_kind_with_a_process_is_ended_with_that_too(kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path, kind) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.ask(kind))
        await here.held.get()
        takes = [one.pid for row in here.lab.kernel.resources.rows() for one in row.takes if one.pid is not None]
        here.door.set()
        await asked

    assert bool(takes) == (kind in PROCESSES)


@every_kind
async def test_a_call_that_ends_gives_everything_back(kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path, kind) as here:
        ended = await here.ask(kind)

        assert ended == ("done", f"used {kind}")
        await here.check_given_back(kind)


@every_kind
async def test_a_call_that_fails_gives_everything_back(kind: str, tmp_path: Path) -> None:
    async def fail(kind: str, handle: Any) -> None:
        raise ValueError("on purpose")

    async with bench(tmp_path, kind) as here:
        here.meanwhile = fail
        ended = await here.ask(kind)

        assert ended == ("failed(raised)", "ValueError: on purpose")
        await here.check_given_back(kind)


@every_kind
async def test_a_call_over_its_limit_gives_everything_back(kind: str, tmp_path: Path) -> None:
    async with bench(tmp_path, kind) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.ask(kind))
        await here.held.get()
        here.lab.clock.advance(TOOL_S)
        status, text = await asked

        assert (status, f"no result within {TOOL_S:g} s" in text) == ("timed_out(timeout)", True)
        await here.check_given_back(kind)


@pytest.mark.parametrize("kind", LENT_TO_ONE)
async def test_a_call_that_waits_too_long_fails_and_who_has_it_goes_on(kind: str, tmp_path: Path) -> None:
    wait_s = 5.0
    async with bench(tmp_path, kind, scope="turn", wait_s=wait_s) as here:
        here.meanwhile = here.hold
        asked = asyncio.create_task(here.ask(kind, kind))
        await here.held.get()
        await until(lambda: any(row.waiters for row in here.lab.kernel.resources.rows()))
        here.lab.clock.advance(wait_s)
        await until(lambda: not any(row.waiters for row in here.lab.kernel.resources.rows()))
        here.door.set()
        await asked
        (late, why), (other, _) = (await results(here.conversation))[-2:]

        assert (late, other) == ("failed(resource)", "done")
        assert f"did not come free within {wait_s:g} s" in why
        await here.check_given_back(kind)


@pytest.mark.parametrize("kind", PROCESSES)
async def test_a_call_whose_process_is_killed_hears_of_it_and_the_next_one_is_served(kind: str, tmp_path: Path) -> None:
    killed: list[int] = []

    async def kill(kind: str, handle: Any) -> None:
        is_gone = KINDS[kind].is_gone
        assert is_gone is not None
        killed.append(handle.pid)
        os.kill(handle.pid, signal.SIGKILL)
        await until(lambda: is_gone(handle))

    async with bench(tmp_path, kind) as here:
        here.meanwhile = kill
        status, text = await here.ask(kind)

        if KINDS[kind].comes_back:
            assert (status, text) == ("done", f"used {kind}")
        else:
            assert status == "failed(raised)"
            assert "Lost(kind='died'" in text
        await here.check_given_back(kind)
    assert len(killed) == 1


@pytest.mark.parametrize(
    ("kind", "status", "why"),
    [("jsonrpc", "failed(resource)", "ended with signal SIGKILL"), ("lua", "failed(raised)", "Lost(kind='died'")],
)
async def test_a_call_that_waits_for_its_process_hears_when_that_is_killed(
    kind: str, status: str, why: str, tmp_path: Path
) -> None:
    async def say_nothing_more(kind: str, handle: Any) -> None:
        os.kill(handle.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_soon(os.kill, handle.pid, signal.SIGKILL)  # once the call waits for its answer

    async with bench(tmp_path, kind) as here:
        here.meanwhile = say_nothing_more
        ended, text = await here.ask(kind)

        assert (ended, why in text) == (status, True), text
        await here.check_given_back(kind)
