"""The tools of a process that speaks JSON-RPC: how it is asked, what it may answer, and what becomes of its calls."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.errors import ConfigurationError, ToolError
from agentos.ids import Name
from agentos.resources.kinds.jsonrpc import ExchangeLimits, JsonRpcLimits
from agentos.resources.kinds.process import KeptLimits, ProcessState
from agentos.resources.process.command import ProcessLimits
from agentos.testing.clock import ManualClock
from agentos.testing.leaks import leak_meter
from agentos.toolboxes.base import CutOff, Failed
from agentos.toolboxes.jsonrpc import JsonRpcToolbox
from tests.toolboxes.conftest import CallOf

CALL = f"call_{'0' * 26}"
SERVER = Path(__file__).with_name("rpc_server.py")
QUICK = ProcessLimits(grace_s=0.2, drain_s=0.2, leftover_s=0.1)
HANG_S = 60.0
"""Not a limit that is tested: what has not ended by then hangs."""

pytestmark = pytest.mark.usefixtures("tmp_path", "no_leaks")


def limits(process: dict[str, Any] | None = None, **exchange: Any) -> JsonRpcLimits:
    kept = KeptLimits(**{"close_s": 2.0, "process": QUICK, **(process or {})})
    return JsonRpcLimits(process=kept, exchange=ExchangeLimits(**{"cancel_s": 0.1, **exchange}))


def box(*words: str, **options: Any) -> JsonRpcToolbox:
    options = {"limits": limits(), "cwd": SERVER.parent, **options}
    return JsonRpcToolbox("desk", command=[sys.executable, str(SERVER), *words], **options)


@asynccontextmanager
async def opened(*words: str, **options: Any) -> AsyncIterator[JsonRpcToolbox]:
    toolbox = box(*words, **options)
    await toolbox.open()
    try:
        yield toolbox
    finally:
        await toolbox.close()


async def ask(toolbox: JsonRpcToolbox, tool: str, context: Any = None, **arguments: Any) -> Any:
    async with asyncio.timeout(HANG_S):
        return await toolbox.call(Name(tool), arguments, context or CallOf(f"{CALL}_7"))


async def test_a_process_offers_its_tools_with_what_it_says_of_them() -> None:
    async with opened(effects={"wait": EffectClass.IDEMPOTENT}, prefix="desk_", call_s=7.0) as toolbox:
        tools = {str(tool.name): tool for tool in toolbox.tools()}

    assert [*tools] == sorted(tools)
    assert (tools["desk_add"].effect, tools["desk_add"].access) == (EffectClass.PURE, Access.READ)
    assert (tools["desk_show"].effect, tools["desk_show"].access) == (EffectClass.ONCE, Access.WRITE)
    assert tools["desk_wait"].effect is EffectClass.IDEMPOTENT
    assert {tool.timeout_s for tool in tools.values()} == {7.0}
    assert (toolbox.kind, toolbox.sharing) == ("jsonrpc", ToolboxSharing.STATELESS)


async def test_a_call_says_which_it_is_and_all_go_to_one_process() -> None:
    async with opened() as toolbox:
        shown = [await ask(toolbox, "show", CallOf(f"{CALL}_{n}")) for n in range(1, 4)]

    assert {one["pid"] for one in shown}.isdisjoint({os.getpid()})
    assert len({one["pid"] for one in shown}) == 1
    assert [one["call"]["key"] for one in shown] == [f"{CALL}_{n}" for n in range(1, 4)]
    assert shown[0]["cwd"] == str(SERVER.parent)


async def test_answers_that_come_in_another_order_go_to_those_who_asked() -> None:
    async with opened() as toolbox:
        asked = [asyncio.create_task(ask(toolbox, "gather", size=50)) for _ in range(50)]
        answers = await asyncio.gather(*asked)

    numbers = [int(answer.removeprefix("request ")) for answer in answers]
    assert numbers == list(range(numbers[0], numbers[0] + 50))


async def test_a_false_id_a_line_without_sense_and_a_second_answer_go_to_nobody() -> None:
    async with opened() as toolbox:
        answers = [await ask(toolbox, tool) for tool in ("lie", "twice", "parts")]
        assert toolbox.process is not None
        counts = toolbox.process.counts

    assert answers == ["the truth", "first", "ä" * 10]
    assert (counts.answered, counts.late, counts.unknown, counts.misread) == (4, 1, 7, 4)


async def test_an_answer_to_a_call_that_is_over_goes_to_nobody(tmp_path: Path) -> None:
    async with opened("stubborn", limits=limits({"close_s": 0.1})) as toolbox:
        assert toolbox.process is not None
        await cancelled(toolbox, tmp_path)
        told = await ask(toolbox, "late")
        answer = await ask(toolbox, "add", a=1, b=2)
        counts = toolbox.process.counts

    assert (told, answer) == (1, 3)
    assert (counts.late, counts.cancelled) == (1, 0)


async def cancelled(toolbox: JsonRpcToolbox, folder: Path) -> None:
    asked = asyncio.create_task(ask(toolbox, "wait", touch=str(folder / "there")))
    await seen(folder / "there")
    asked.cancel()
    await asyncio.wait([asked], timeout=HANG_S)
    assert asked.cancelled()


async def seen(path: Path) -> None:
    """Until the process has made a file."""
    for _ in range(round(HANG_S / 0.005)):
        if os.access(path, os.F_OK):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{path} never came")


async def test_a_cancelled_call_is_told_to_the_process_and_waits_for_its_answer(tmp_path: Path) -> None:
    async with opened(limits=limits(cancel_s=HANG_S)) as toolbox:
        assert toolbox.process is not None
        await cancelled(toolbox, tmp_path)
        counts, left = toolbox.process.counts, toolbox.process.under_way

    assert (counts.cancelled, counts.late, left) == (1, 0, 0)


async def test_a_call_that_is_cancelled_twice_waits_for_nothing(tmp_path: Path) -> None:
    async with opened("stubborn", limits=limits({"close_s": 0.1}, cancel_s=HANG_S)) as toolbox:
        asked = asyncio.create_task(ask(toolbox, "wait", touch=str(tmp_path / "there")))
        await seen(tmp_path / "there")
        asked.cancel()
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked], timeout=HANG_S)
        answer = await ask(toolbox, "add", a=1, b=2)

    assert asked.cancelled()
    assert answer == 3


async def test_a_cancel_at_any_await_of_a_call_leaves_the_next_one_whole() -> None:
    async with opened() as toolbox:
        for turns in range(40):
            asked = asyncio.create_task(ask(toolbox, "add", a=turns, b=1))
            for _ in range(turns):
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait([asked], timeout=HANG_S)
            assert await ask(toolbox, "add", a=turns, b=2) == turns + 2
        assert toolbox.process is not None
        assert toolbox.process.under_way == 0


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.03, 0.3])
async def test_a_cancel_at_any_await_of_opening_leaves_nothing(pause_s: float) -> None:
    for turns in (0, 1, 2, 3, 5, 8):
        async with leak_meter():
            toolbox = box()
            opening = asyncio.create_task(toolbox.open())
            await asyncio.sleep(pause_s)
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening], timeout=HANG_S)
            await toolbox.close()


@pytest.mark.parametrize("turns", [1, 2, 5, 20])
async def test_a_cancel_while_it_closes_still_closes_all(turns: int) -> None:
    async with leak_meter():
        toolbox = box("stubborn", limits=limits({"close_s": 0.05}))
        await toolbox.open()
        closing = asyncio.create_task(toolbox.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing], timeout=HANG_S)

    assert closing.cancelled()


async def test_what_the_process_says_of_an_error_is_how_the_call_failed() -> None:
    async with opened() as toolbox:
        ends = [
            await ask(toolbox, "fail"),
            await ask(toolbox, "fail", code=-32602, text="a is missing"),
            await ask(toolbox, "fail", code=-32601, text="no such thing"),
            await ask(toolbox, "fail", raw={"code": "x"}),
            await ask(toolbox, "nothing"),
        ]

    assert ends[:3] == [
        Failed(Name("error"), "it is closed on Sundays"),
        Failed(Name("invalid"), "a is missing"),
        Failed(Name("unknown_tool"), "no such thing"),
    ]
    assert ends[3] == Failed(Name("error"), "an error that JSON-RPC does not know: {'code': 'x'}")
    assert ends[4] == Failed(Name("unknown_tool"), "toolbox desk has no tool nothing")


@pytest.mark.parametrize(
    ("kill", "how"), [(False, "ended with exit code 3; it said: out of paper"), (True, "ended with signal SIGKILL")]
)
async def test_a_call_under_way_when_the_process_dies_is_cut_off_and_the_next_one_has_another(
    kill: bool, how: str, tmp_path: Path
) -> None:
    async with opened() as toolbox:
        waits = asyncio.create_task(ask(toolbox, "wait", touch=str(tmp_path / "there")))
        await seen(tmp_path / "there")
        cut = await ask(toolbox, "exit", kill=kill)
        other = await waits
        down = [problem.reason for problem in toolbox.problems]
        answer = await ask(toolbox, "add", a=1, b=2)

    assert isinstance(cut, CutOff)
    assert isinstance(other, CutOff)
    assert (cut.kind, cut.text, other.text) == (Name("process"), cut.text, cut.text)
    assert cut.text.startswith(f"toolbox desk: {how}")
    assert len(down) == 1
    assert down[0].startswith(how)
    assert (answer, toolbox.problems) == (3, ())


async def test_a_process_that_is_killed_from_outside_is_missed_at_once(tmp_path: Path) -> None:
    async with opened() as toolbox:
        waits = asyncio.create_task(ask(toolbox, "wait", touch=str(tmp_path / "there")))
        await seen(tmp_path / "there")
        assert toolbox.process is not None
        assert toolbox.process.pid is not None
        os.kill(toolbox.process.pid, signal.SIGKILL)
        cut = await waits

    assert cut == CutOff(Name("process"), "toolbox desk: ended with signal SIGKILL")


async def test_a_process_that_ends_too_often_is_given_up_and_seen_to_be() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=limits({"restarts_max": 2})) as toolbox:
        assert toolbox.process is not None
        cut = [await ask(toolbox, "vanish") for _ in range(3)]
        failed = await ask(toolbox, "add", a=1, b=2)
        state, started = toolbox.process.state, toolbox.process.started
        unavailable, changed = toolbox.unavailable, toolbox.changed()
        await toolbox.reload()
        again = await ask(toolbox, "add", a=1, b=2)

    assert all(isinstance(one, CutOff) for one in cut)
    assert isinstance(failed, Failed)
    assert failed.kind == "unavailable"
    assert again == failed
    assert (state, started, changed) == (ProcessState.FAILED, 3, True)
    assert unavailable == (
        "the process ended again after 2 restarts within 60 s, so it is not started any more; it ended with exit code 4;"
        " 'agentos release desk' has it started again"
    )


async def test_one_that_gave_up_is_started_again_once_it_is_renewed_and_counts_anew() -> None:
    async with opened(clock=ManualClock(), limits=limits({"restarts_max": 1})) as toolbox:
        for _ in range(2):
            await ask(toolbox, "vanish")
        refused = await ask(toolbox, "add", a=1, b=2)
        renewed = await toolbox.renew()
        await toolbox.reload()
        standing = (toolbox.unavailable, toolbox.problems)
        answer = await ask(toolbox, "add", a=1, b=2)
        for _ in range(2):
            await ask(toolbox, "vanish")
        again = await ask(toolbox, "add", a=1, b=2)

    assert isinstance(refused, Failed)
    assert refused.text.endswith("'agentos release desk' has it started again")
    assert (renewed, standing, answer) == (1, ("", ()), 3)
    assert again == refused


async def test_a_renewed_process_answers_what_it_was_asked_before_another_one_is_asked(tmp_path: Path) -> None:
    there, door = tmp_path / "there", tmp_path / "door"
    async with opened() as toolbox:
        before = await ask(toolbox, "show")
        asked = asyncio.create_task(ask(toolbox, "until", touch=str(there), path=str(door)))
        await seen(there)
        renewing = asyncio.create_task(toolbox.renew())
        await asyncio.sleep(0)
        late = asyncio.create_task(ask(toolbox, "show"))
        door.touch()
        told, renewed, after = await asyncio.gather(asked, renewing, late)

    assert (told, renewed) == ("it came", 1)
    assert after["pid"] != before["pid"]


async def test_a_process_that_does_not_answer_in_time_is_let_go_all_the_same(tmp_path: Path) -> None:
    async with opened() as toolbox:
        asked = asyncio.create_task(ask(toolbox, "until", touch=str(tmp_path / "there"), path=str(tmp_path / "never")))
        await seen(tmp_path / "there")
        assert toolbox.process is not None
        renewed = await toolbox.process.renew(0.05)
        cut = await asked
        answer = await ask(toolbox, "add", a=1, b=2)

    assert renewed
    assert cut == CutOff(Name("process"), "toolbox desk: was let go, for another one")
    assert answer == 3


async def test_there_is_nothing_to_renew_of_a_toolbox_that_is_not_open() -> None:
    toolbox = box()
    assert await toolbox.renew() == 0
    async with opened() as closed:
        pass
    assert await closed.renew() == 0


async def test_restarts_that_lie_far_apart_are_not_counted_together() -> None:
    clock = ManualClock()
    async with opened(clock=clock, limits=limits({"restarts_max": 1})) as toolbox:
        for _ in range(4):
            assert isinstance(await ask(toolbox, "vanish"), CutOff)
            clock.advance(60)
        answer = await ask(toolbox, "add", a=1, b=2)

    assert answer == 3


async def test_a_flood_that_answers_nothing_ends_the_process_and_not_the_kernel() -> None:
    async with opened(limits=limits(strays_max=5_000)) as toolbox:
        cut = await ask(toolbox, "flood")
        answer = await ask(toolbox, "add", a=1, b=2)

    assert isinstance(cut, CutOff)
    assert "it said 5,001 lines in a row that answer nothing (strays_max)" in cut.text
    assert answer == 3


@pytest.mark.parametrize("front", [True, False])
async def test_a_line_that_is_too_long_is_the_failure_of_the_call_that_it_names(front: bool) -> None:
    async with opened(limits=limits(line_bytes=10_000)) as toolbox:
        assert toolbox.process is not None
        fits = await ask(toolbox, "long", size=9_000)
        asked = asyncio.create_task(ask(toolbox, "long", size=100_000, front=front))
        await ask(toolbox, "add", a=1, b=2)
        if not front:  # nothing tells whose it was; the call goes on until its time is over
            assert not asked.done()
            asked.cancel()
        await asyncio.wait([asked], timeout=HANG_S)
        misread = toolbox.process.counts.misread

    assert fits == "x" * 9_000
    assert misread == 1
    if front:
        assert isinstance(asked.result(), CutOff)
        assert "bytes, over 10,000 (line_bytes)" in asked.result().text


async def test_a_request_that_is_too_long_is_not_sent() -> None:
    async with opened(limits=limits(line_bytes=10_000)) as toolbox:
        failed = await ask(toolbox, "show", text="x" * 10_000)

    assert isinstance(failed, Failed)
    assert failed.kind == "unavailable"
    assert "not run: the request has 10,3" in failed.text.replace("10,2", "10,3")


async def test_progress_of_a_call_is_told_and_what_the_process_asks_of_us_is_refused() -> None:
    told: list[Any] = []

    class Hears(CallOf):
        def progress(self, data: Any) -> None:
            if data == "too much":
                raise ToolError("that is enough")
            told.append(data)

    async with opened() as toolbox:
        answer = await ask(toolbox, "note", Hears(f"{CALL}_7"), parts=["a", {"b": 1}, "too much"])
        changed = toolbox.changed()
        await toolbox.reload()
        after = toolbox.changed()

    assert (answer, told) == ("noted", ["a", {"b": 1}])
    assert (changed, after) == (True, False)


async def test_the_process_sees_no_variable_that_nobody_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_WANTED", "yes")
    monkeypatch.setenv("DESK_KEY", "no")
    async with opened(environment=["DESK_WANTED"]) as toolbox:
        variables = await ask(toolbox, "env")

    assert variables["DESK_WANTED"] == "yes"
    assert "DESK_KEY" not in variables
    assert {"PATH", "AGENTOS_CALL"} <= variables.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["die"], "toolbox desk: ended with exit code 7 before it was ready; it said: there is no licence"),
        (["garbage"], 'describe answered "tools", not an object with a list `tools`'),
        (["silent"], "describe was not answered within 0.2 s (describe_s)"),
        (["tools=no name"], ""),
    ],
)
async def test_a_process_that_does_not_describe_itself_cannot_be_opened(words: list[str], said: str) -> None:
    toolbox = box(*words, describe_s=0.2 if "silent" in words else 10.0)
    if said:
        with pytest.raises(ConfigurationError) as refused:
            await toolbox.open()
        assert said in str(refused.value)
        return
    await toolbox.open()
    problems, tools = toolbox.problems, toolbox.tools()
    await toolbox.close()

    assert [problem.place for problem in problems] == ["tools[16]"]
    assert "'no name'" in problems[0].reason.replace('"', "'")
    assert len(tools) == 16


async def test_a_process_that_is_not_ready_in_time_is_ended() -> None:
    toolbox = box("silent", limits=limits({"start_s": 0.2}))
    with pytest.raises(ConfigurationError, match=r"was not ready in 0\.2 s \(start_s\)"):
        await toolbox.open()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": ["no-such-program-anywhere"]}, "'no-such-program-anywhere' is not on PATH"),
        ({"command": ["./gone"]}, "there is no"),
        ({"command": [str(SERVER.parent)]}, "it is a directory"),
        ({"command": [str(SERVER)]}, "could not be started"),
        ({"effects": {"gone": EffectClass.PURE}}, "effects names no tool 'gone'"),
    ],
)
async def test_a_program_that_cannot_be_had_is_named(options: dict[str, Any], said: str) -> None:
    made = {"command": [sys.executable, str(SERVER)], "cwd": SERVER.parent, "limits": limits(), **options}
    with pytest.raises(ConfigurationError) as refused:
        await JsonRpcToolbox("desk", **made).open()

    assert said in str(refused.value)


@pytest.mark.parametrize("words", [["stubborn"], ["forks"], []])
async def test_nothing_of_it_is_left_however_it_takes_its_end(words: list[str]) -> None:
    async with leak_meter():
        toolbox = box(*words, limits=limits({"close_s": 0.1}))
        await toolbox.open()
        answer = await ask(toolbox, "add", a=1, b=2)
        await toolbox.close()

    assert answer == 3


async def test_the_loop_may_end_with_it_open() -> None:
    """As at Ctrl-C: all tasks are cancelled, its owner too."""
    async with leak_meter():
        toolbox = box("stubborn")
        await toolbox.open()
        owners = [task for task in asyncio.all_tasks() if task.get_name() == "process toolbox desk"]
        for task in owners:
            task.cancel()
        await asyncio.wait(owners, timeout=HANG_S)
        failed = await ask(toolbox, "add", a=1, b=2)
        await toolbox.close()

    assert len(owners) == 1
    assert isinstance(failed, Failed)
    assert "is closed" in failed.text
