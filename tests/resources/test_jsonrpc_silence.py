"""A process that is alive and says nothing: when it is doubted, what it is asked, and how it is replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from agentos.definitions import make_toolbox
from agentos.definitions.toolbox_spec import JsonRpcSpec
from agentos.errors import ProcessGaveUp, ProcessLost
from agentos.ids import Name
from agentos.resources.kinds.jsonrpc import ExchangeLimits, JsonRpcLimits, JsonRpcProcess, NotSent, SilenceLimits
from agentos.resources.kinds.process import KeptLimits, Program
from agentos.resources.process.command import ProcessLimits, inherited
from agentos.testing.leaks import leak_meter
from agentos.toolboxes.base import CutOff
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from tests.support import until
from tests.toolboxes.conftest import CallOf

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")

CALL = f"call_{'0' * 26}"
HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""
NEVER_S = 600.0
SERVER = Path(__file__).parent.parent / "toolboxes" / "rpc_server.py"
PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    with open(sys.argv[1], "a") as log:
        print(asked["method"], file=log)
    if asked["method"] == "echo":
        answer = {"result": asked["params"]}
    elif asked["method"] in ("hush", "$/cancelRequest", *sys.argv[2:]):
        continue
    else:
        answer = {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""Answers echo, says nothing to hush and to what its further arguments name, and knows nothing else."""


def limits(silent_s: float, health_s: float, restarts_max: int = 3, grace_s: float = NEVER_S) -> JsonRpcLimits:
    # Of those that do not heed SIGTERM, only one that is ended at once is gone before a grace that is longer than a test.
    ends = ProcessLimits(grace_s=grace_s, drain_s=0.2, leftover_s=0.05)
    kept = KeptLimits(close_s=0.1, restarts_max=restarts_max, process=ends)
    silence = SilenceLimits(silent_s=silent_s, health_s=health_s)
    return JsonRpcLimits(process=kept, exchange=ExchangeLimits(cancel_s=0.05, silence=silence))


class Desk:
    """A process, and the methods that it was asked."""

    def __init__(self, log: Path, words: tuple[str, ...], bounds: JsonRpcLimits) -> None:
        argv = (sys.executable, "-c", PROGRAM, str(log), *words)
        self.process = JsonRpcProcess(
            "desk", Program(argv=argv, environment=inherited(), cwd=str(log.parent)), limits=bounds
        )
        self._log = log

    def asked(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []

    async def ask(self, method: str, params: object = None) -> Any:
        async with asyncio.timeout(HANG_S):
            return await self.process.ask(method, params)

    def begin(self, method: str, params: object = None) -> asyncio.Task[Any]:
        return asyncio.create_task(self.process.ask(method, params))

    async def give_up(self, method: str) -> None:
        """Asks, and waits no longer than until that has been read."""
        before = len(self.asked())
        one = self.begin(method)
        await until(lambda: method in self.asked()[before:])
        await cancelled(one)

    def stop(self) -> int:
        pid = self.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        return pid


class Hours:
    """Time that passes by hand, for the silence of a process that is open."""

    def __init__(self, process: JsonRpcProcess) -> None:
        self.now_s = 0.0
        self._due: list[asyncio.TimerHandle] = []
        assert process._exchange is not None
        process._exchange._silence._loop = cast("asyncio.AbstractEventLoop", self)

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        self._due.append(asyncio.TimerHandle(self.now_s + delay_s, callback, (), asyncio.get_running_loop()))
        return self._due[-1]

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        due = [timer for timer in self._due if timer.when() <= self.now_s]
        self._due = [timer for timer in self._due if timer not in due]
        for timer in due:
            if not timer.cancelled():
                timer._run()


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=HANG_S)
    assert task.cancelled()


@asynccontextmanager
async def desk(tmp_path: Path, *words: str, bounds: JsonRpcLimits) -> AsyncIterator[Desk]:
    async with leak_meter():
        here = Desk(tmp_path / "asked", words, bounds)
        await here.process.open()
        try:
            yield here
        finally:
            await asyncio.wait_for(here.process.close(), HANG_S)


async def test_a_process_that_is_stopped_is_ended_and_started_anew(tmp_path: Path) -> None:
    async with desk(tmp_path, bounds=limits(0.1, 0.1)) as here:
        first = await here.ask("echo", 1)
        stopped = here.stop()
        waits, given_up = here.begin("echo", 2), here.begin("echo", 3)
        await asyncio.sleep(0)
        other = here.begin("echo", 4)
        await asyncio.sleep(0)
        await cancelled(waits)
        await cancelled(given_up)
        with pytest.raises(ProcessLost) as lost:
            await asyncio.wait_for(other, HANG_S)
        again = await here.ask("echo", 5)
        started, pid = here.process.started, here.process.pid

    assert (first, again, started) == (1, 5, 2)
    assert pid != stopped
    assert str(lost.value) == (
        "desk: hung, and was ended: it said nothing for 0.1 s (silent_s), nor within 0.1 s when it was asked again (health_s)"
    )


async def test_one_that_hangs_again_and_again_is_given_up_like_one_that_ends(tmp_path: Path) -> None:
    async with desk(tmp_path, bounds=limits(0.05, 0.05, restarts_max=1)) as here:
        for _ in range(2):
            await here.ask("echo", 1)
            here.stop()
            await asyncio.gather(*(cancelled(here.begin("echo", n)) for n in range(2)))
            await until(lambda: not here.process.healthy())
        with pytest.raises(ProcessGaveUp, match="hung, and was ended"):
            await here.ask("echo", 2)


async def test_an_error_is_a_sign_of_life(tmp_path: Path) -> None:
    """It knows nothing of the method that it is asked, and goes on with what it has under way."""
    async with desk(tmp_path, bounds=limits(0.05, NEVER_S)) as here:
        await here.give_up("hush")
        await until(lambda: "rpc.health" in here.asked())
        answers = [await here.ask("echo", n) for n in range(3)]
        started, late = here.process.started, here.process.counts.late

    assert (answers, started, late) == ([0, 1, 2], 1, 0)


async def test_it_may_be_busy_with_the_oldest_request_as_long_as_somebody_waits_for_it(tmp_path: Path) -> None:
    async with desk(tmp_path, "rpc.health", bounds=limits(10, 10)) as here:
        hours = Hours(here.process)
        oldest = here.begin("hush")
        await until(lambda: "hush" in here.asked())
        await here.give_up("hush")
        hours.advance(1_000)
        await here.give_up("hush")
        while_somebody_waits = "rpc.health" in here.asked()
        sound = here.process.healthy()
        await cancelled(oldest)
        await until(lambda: "rpc.health" in here.asked())
        hours.advance(10)
        await until(lambda: not here.process.healthy())

    assert (while_somebody_waits, sound) == (False, True)


async def test_any_line_ends_a_silence(tmp_path: Path) -> None:
    async with desk(tmp_path, "rpc.health", bounds=limits(10, 10)) as here:
        hours = Hours(here.process)
        await here.give_up("hush")
        hours.advance(9)
        await here.ask("echo", 1)
        hours.advance(1_000)
        await here.ask("echo", 2)
        asked, started = here.asked(), here.process.started

    assert "rpc.health" not in asked
    assert started == 1


async def test_a_silence_in_which_nothing_was_asked_tells_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, "rpc.health", bounds=limits(10, NEVER_S)) as here:
        hours = Hours(here.process)
        await here.ask("echo", 1)
        hours.advance(1_000)
        await here.give_up("hush")
        hours.advance(9)
        await here.give_up("hush")
        at_once = "rpc.health" in here.asked()
        hours.advance(1)
        await until(lambda: "rpc.health" in here.asked())

    assert not at_once


async def test_one_that_reads_nothing_holds_up_neither_a_cancellation_nor_its_end(tmp_path: Path) -> None:
    """What it is sent fills the pipe, and then what is kept for it."""
    bounds = limits(0.1, 0.1)
    async with desk(tmp_path, bounds=bounds) as here:
        await here.ask("echo", 1)
        here.stop()
        piece = "x" * 4_000_000
        waiting = [here.begin("echo", piece) for _ in range(6)]
        await asyncio.sleep(0)
        refused = [one for one in waiting if one.done() and isinstance(one.exception(), NotSent)]
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting, timeout=HANG_S)
        await until(lambda: not here.process.healthy())
        again = await here.ask("echo", 2)
        started = here.process.started

    assert all(one.done() for one in waiting)
    assert len(refused) >= 1
    assert (again, started) == (2, 2)


async def test_who_asks_or_gives_up_looks_at_few_of_those_that_wait(tmp_path: Path) -> None:
    """Else a thousand that ask together, or are cancelled together, would hold up all others."""

    class Counted(dict[int, Any]):
        looked = 0

        def items(self) -> Any:
            for item in super().items():
                self.looked += 1
                yield item

    async with desk(tmp_path, bounds=limits(NEVER_S, NEVER_S, grace_s=0.1)) as here:
        await here.ask("echo", 1)
        here.stop()
        assert here.process._exchange is not None
        counted = here.process._exchange._asked = Counted()
        waiting = [here.begin("echo", number) for number in range(300)]
        await asyncio.sleep(0)
        asked = len(counted)
        for one in reversed(waiting):
            one.cancel()
        await asyncio.wait(waiting, timeout=HANG_S)

    assert asked == 300
    assert counted.looked < 4 * 300


async def test_a_stopped_process_can_be_closed_with_requests_under_way(tmp_path: Path) -> None:
    ends = ProcessLimits(grace_s=0.1, drain_s=0.1, leftover_s=0.05)
    bounds = JsonRpcLimits(process=KeptLimits(close_s=0.1, process=ends))
    async with desk(tmp_path, bounds=bounds) as here:
        await here.ask("echo", 1)
        here.stop()
        waiting = here.begin("echo", "x" * 1_000_000)
        await asyncio.sleep(0)
    await asyncio.wait([waiting], timeout=HANG_S)

    assert isinstance(waiting.exception(), ProcessLost)


@pytest.mark.parametrize("health", [None, "ping"])
async def test_a_toolbox_asks_its_process_to_describe_itself_or_what_it_is_told(health: str | None) -> None:
    """The server says nothing to methods that it does not know, so that it is alive only when asked what it knows."""
    async with leak_meter():
        toolbox = JsonRpcToolbox(
            "desk",
            command=[sys.executable, str(SERVER), "stubborn"],
            cwd=SERVER.parent,
            limits=limits(0.1, 0.5 if health else NEVER_S, grace_s=0.1),
            health=health,
        )
        await toolbox.open()
        process = toolbox.process
        assert process is not None
        waiting = asyncio.create_task(toolbox.call(Name("wait"), {}, CallOf(f"{CALL}_7")))
        await until(lambda: process.under_way == 1)
        await cancelled(waiting)
        if health:
            await until(lambda: not process.healthy())
        else:
            silence = process._exchange._silence  # type: ignore[union-attr]
            await until(lambda: silence._given_up is None)
        result = await toolbox.call(Name("add"), {"a": 1, "b": 2}, CallOf(f"{CALL}_8"))
        started = process.started
        await toolbox.close()

    assert result == 3
    assert started == (2 if health else 1)


async def test_a_call_that_hangs_with_its_process_is_cut_off_and_what_it_did_is_not_known() -> None:
    async with leak_meter():
        toolbox = JsonRpcToolbox(
            "desk", command=[sys.executable, str(SERVER)], cwd=SERVER.parent, limits=limits(0.1, 0.1)
        )
        await toolbox.open()
        process = toolbox.process
        assert process is not None
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        first, second = (asyncio.create_task(toolbox.call(Name("show"), {}, CallOf(f"{CALL}_{n}"))) for n in (7, 8))
        await until(lambda: process.under_way == 2)
        await cancelled(first)
        result = await asyncio.wait_for(second, HANG_S)
        await toolbox.close()

    assert isinstance(result, CutOff)
    assert "hung, and was ended" in result.text


async def test_a_file_says_how_long_a_silence_may_be_and_what_is_asked_then() -> None:
    command = [sys.executable, str(SERVER), "stubborn"]
    spec = JsonRpcSpec(command=command, silent_s=0.1, health="ping", health_s=0.1, close_s=0.1)
    async with leak_meter():
        toolbox = make_toolbox("desk", spec, SERVER.parent)
        assert isinstance(toolbox, JsonRpcToolbox)
        await toolbox.open()
        process = toolbox.process
        assert process is not None
        waiting = asyncio.create_task(toolbox.call(Name("wait"), {}, CallOf(f"{CALL}_7")))
        await until(lambda: process.under_way == 1)
        await cancelled(waiting)
        await until(lambda: not process.healthy())
        await toolbox.call(Name("add"), {"a": 1, "b": 2}, CallOf(f"{CALL}_8"))
        started, pid = process.started, process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)  # it does not heed SIGTERM, and has the usual grace
        await toolbox.close()

    assert started == 2


@pytest.mark.parametrize("key", [{"silent_s": 0}, {"health_s": -1}, {"health": ""}, {"silent": 5}])
def test_a_file_cannot_ask_for_a_silence_that_there_is_not(key: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(key))):
        JsonRpcSpec(command=["desk"], **key)
