"""Scripts that try to get out, or to stay for ever: the kernel goes on, the call ends by a limit, and the next is served.

The five endless ones are those that a count hook within the process does not stop.
"""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from agentos.resources.kinds.lua import Ended, LuaWorker, Reply, Script
from agentos.resources.kinds.lua.wire import said
from agentos.resources.kinds.lua.worker import NO_MEMORY, PROGRAM
from tests.lua.support import MEMORY_BYTES, TIME_S, bench, limits, lives

ENDLESS = {
    "a loop": "while true do end",
    "a coroutine": "coroutine.wrap(function() while true do end end)()",
    "pcall around it": "while true do pcall(function() while true do end end) end",
    "a pattern": "return string.find(('a'):rep(40000), ('a-'):rep(8) .. 'b')",
    "optional parts": "return string.find(('a'):rep(60), ('a?'):rep(40) .. ('a'):rep(61))",
    "a sort": "table.sort(setmetatable({}, {__len = function() return 1 << 30 end}), function() while true do end end)",
    "a text that is made for ever": "print(setmetatable({}, {__tostring = function() while true do end end}))",
    "a printer": "while true do print(('x'):rep(1000)) end",
}


@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in ENDLESS.items()])
async def test_a_script_without_end_is_ended_and_the_next_worker_serves(script: str) -> None:
    async with bench() as here:
        pid = here.worker.pid
        kind, text = await here.failure(script, time_s=TIME_S)

        assert (kind, text) == ("timeout", f"the script did not end within {TIME_S:g} s (time_s)")
        assert not here.worker.alive
        assert not lives(pid)
    async with bench() as after:
        assert await after.values("return 1") == [1]


async def test_the_loop_goes_on_while_a_script_hangs() -> None:
    async with bench() as here:
        running = asyncio.ensure_future(here.failure("while true do end", time_s=TIME_S))
        turns = 0
        while not running.done():
            await asyncio.sleep(0)
            turns += 1

    assert turns > 100
    assert running.result()[0] == "timeout"


async def test_a_finaliser_is_refused_and_the_state_goes_on() -> None:
    async with bench() as here:
        kind, text = await here.failure("\nsetmetatable({}, {__gc = function() while true do end end})")

        assert (kind, text) == ("raised", "script:2: a metatable with __gc is refused: there are no finalisers here")
        late = "local m = {} local t = setmetatable({}, m) m.__gc = function() while true do end end t = nil return 1"
        assert await here.values(late) == [1]
        assert (await here.failure("local t = {} for i = 1, 1e9 do t[i] = {} end"))[0] == "memory"


BEYOND = (
    "os",
    "io",
    "debug",
    "package",
    "require",
    "load",
    "loadstring",
    "loadfile",
    "dofile",
    "collectgarbage",
    "python",
    "string.dump",
    "('').dump",
)


async def test_nothing_of_the_machine_or_of_python_has_a_name() -> None:
    async with bench() as here:
        assert await here.values(f"return {', '.join(BEYOND)}") == [None] * len(BEYOND)


@pytest.mark.parametrize(
    "script",
    [
        "python.builtins.getattr(python.builtins, '__import__')('os')",
        "python.eval('1')",
        "local f = print while true do f = getmetatable(f).__index end",
        "return tools.call.__globals__",
        "return time.now.__globals__, time.now.__class__",
        "return string.format('%s', time.now()):dump()",
        "getmetatable('').__index = {}",
        "return coroutine.running().__class__",
        "local t = setmetatable(tools, {})",
    ],
)
async def test_a_way_into_python_is_an_error_of_the_script(script: str) -> None:
    async with bench() as here:
        kind, text = await here.failure(script)

        assert (kind, text[:9]) == ("raised", "script:1:")
        assert here.worker.alive


async def test_the_environment_is_all_there_is_and_nothing_in_it_comes_from_python() -> None:
    walk = """
    local seen, found = {}, {}
    local function look(value, path)
      local kind = type(value)
      if kind == "userdata" then found[#found + 1] = path end
      if kind ~= "table" or seen[value] then return end
      seen[value] = true
      for key, inner in next, value do look(inner, path .. "." .. tostring(key)) end
      look(getmetatable(value), path .. "<meta>")
    end
    look(_G, "_G")
    return found, _ENV == _G
    """
    async with bench() as here:
        assert await here.values(walk) == [[], True]


async def test_compiled_code_has_no_way_in() -> None:
    async with bench() as here:
        assert (await here.failure("\x1bLua garbage"))[0] == "syntax"
        assert (await here.failure("return load('\\27Lua')"))[0] == "raised"


async def test_running_out_of_memory_is_an_error_and_the_state_stays() -> None:
    async with bench() as here:
        assert await here.values("kept = 7 return kept") == [7]

        kind, text = await here.failure("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end")

        assert (kind, text) == (
            "memory",
            f"not enough memory: all of {MEMORY_BYTES} bytes are taken, by data or by a recursion without end",
        )
        assert await here.values("return kept") == [7]


async def test_what_a_script_without_memory_leaves_is_no_hindrance_to_the_next() -> None:
    """Lua makes room for a long text by no collection of its own."""
    size = MEMORY_BYTES // 4
    async with bench() as here:
        for _ in range(3):
            fill = "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end"
            assert (await here.failure(fill))[0] == "memory"

            assert await here.values(f"return #('x'):rep({size})") == [size]


async def test_texts_reach_a_state_whose_memory_is_full() -> None:
    """Without room made for them, this is where the process would be aborted, or hang for ever."""
    fill = "T = {} pcall(function() for i = 1, 1e9 do T[i] = ('x'):rep(1000) .. i end end)"
    async with bench() as here:
        await here.run(fill)
        here.reply = Reply(status="ok", result_txt="y" * (2 * MEMORY_BYTES // 16))

        assert await here.values("return #T > 1000") == [True]
        assert (await here.failure("-- " + "x" * 200_000 + "\nlocal t = {} for i = 1, 1e9 do t[i] = {} end"))[
            0
        ] == "memory"
        assert (await here.failure("return #tools.any{}"))[0] == "memory"
        assert await here.values("T = nil return #tools.any{}") == [2 * MEMORY_BYTES // 16]


async def test_a_result_that_is_larger_than_a_message_is_an_error_of_that_call_alone() -> None:
    async with bench(line_bytes=2 * 1024 * 1024) as here:
        here.reply = Reply(status="ok", result_txt="y" * 3_000_000)

        [told] = await here.values("return tools.call('any')")

        assert told["status"] == "error"
        assert told["result_txt"] == "the result of 3,000,032 bytes is over line_bytes (2,097,152)"


async def test_text_beyond_all_memory_comes_in_only_as_far_as_the_process_bears_it() -> None:
    """12 MiB for a state of 10 MiB abort a process that hands them in unprepared."""
    async with bench(memory_bytes=10 * 1024 * 1024, line_bytes=64 * 1024 * 1024) as here:
        here.reply = Reply(status="ok", result_txt="y" * (12 * 1024 * 1024))

        assert (await here.failure("return tools.any{}"))[0] == "memory"
        assert await here.values("return 1") == [1]


async def test_values_have_a_bound_of_their_own() -> None:
    async with bench(values_bytes=1000) as here:
        assert await here.failure("return ('x'):rep(2000)") == ("raised", "the values are over 1000 bytes as JSON")
        assert await here.failure("return ('x'):rep(600), ('x'):rep(600)") == (
            "raised",
            "the values are over 1000 bytes as JSON",
        )
        assert (await here.failure("tools.any{a = ('x'):rep(2000)}"))[0] == "raised"
        assert here.called == []


async def test_an_error_is_told_up_to_a_bound_and_the_state_stays() -> None:
    async with bench(printed_bytes=1000, line_bytes=100_000) as here:
        kind, text = await here.failure("kept = 7 error(('x'):rep(2000000), 0)")

        assert (kind, text) == ("raised", "x" * 1000 + " [... 1,999,000 bytes left out]")
        assert await here.values("return kept") == [7]


async def test_a_worker_that_says_too_much_at_once_is_told_of_by_the_limit() -> None:
    async with bench(line_bytes=100_000, printed_bytes=1_000_000) as here:
        told = await here.failure("print(('x'):rep(500000))")

    assert told == ("died", "its process said over 100,000 bytes at once (line_bytes), and was ended")


async def test_what_is_printed_is_kept_up_to_a_bound_and_counted_beyond() -> None:
    async with bench(printed_bytes=1000) as here:
        ended = await here.run("for i = 1, 100000 do print('0123456789') end")

    assert isinstance(ended, Ended)
    assert ended.printed_bytes == 1_100_000
    assert 900 < len("".join(here.printed)) <= 1000


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"no json\n", "died"),
        (b'{"type":"granted"}\n', "died"),
        (b'{"type":"ended","kind":"done"}\n', "died"),
        (b"x" * 3_000_000, "died"),
    ],
)
async def test_a_worker_that_says_what_is_no_message_is_ended(said: bytes, kind: str) -> None:
    async with bench(line_bytes=2_000_000) as here:
        running = asyncio.ensure_future(here.failure("while true do end"))
        await asyncio.sleep(0)
        for at in range(0, len(said), 65_536):
            here.worker._inbox.heard(memoryview(said[at : at + 65_536]))

        assert (await running)[0] == kind
        assert not here.worker.alive


async def test_many_fresh_states_take_no_more_memory_than_one() -> None:
    """Lua holds functions of ours that hold Lua: what no collector sees has to be given back by hand."""
    fill = "T = {} for i = 1, 40000 do T[i] = ('x'):rep(100) .. i end return #T"
    async with bench() as here:
        for _ in range(60):  # of 6 MB each, where the process may have less than 160 MB
            assert await here.values(fill, fresh=True) == [40000]


def test_what_fails_outside_reaches_a_script_as_a_text_and_not_as_an_object_of_python() -> None:
    """Here in this process, since a failure at the very edge of memory cannot be had at will."""
    from lupa import lua54  # type: ignore[import-untyped]

    def fails(*_: object) -> None:
        raise MemoryError

    state = lua54.LuaRuntime(register_eval=False, register_builtins=False, encoding=None)
    sources = [(PROGRAM.parent / name).read_bytes() for name in ("sandbox.lua", "json.lua", "modules.lua")]
    run = state.execute(*sources, 1000, b"[]", fails, fails, lambda: 0.0, lambda: None, name=b"=sandbox")
    script = b"local function told(...) local _, e = pcall(...) return type(e), e end return told(print, 1), "

    assert run(script + b"told(tools.call, 'any')") == (b"done", b'["string","string","not enough memory"]')


async def test_a_worker_that_is_killed_from_outside_is_lost_and_told() -> None:
    async with bench() as here:
        running = asyncio.ensure_future(here.failure("while true do end"))
        await asyncio.sleep(0)
        os.kill(here.worker.pid, signal.SIGKILL)

        assert await running == ("died", "its process ended with signal SIGKILL")


async def test_a_cancelled_script_is_gone_before_the_cancellation_goes_on() -> None:
    async with bench() as here:
        pid = here.worker.pid
        running = asyncio.ensure_future(here.run("while true do end"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert not lives(pid)


async def test_the_limits_of_the_process_itself_hold_where_nobody_is_left_to_kill_it() -> None:
    def bounds(pid: int) -> dict[str, str]:
        with open(f"/proc/{pid}/limits") as file:
            rows = [line.rstrip("\n") for line in file]
        return {row[:26].strip(): row[26:47].strip() for row in rows}

    async with bench() as here:
        await here.values("return 1")
        found = await asyncio.to_thread(bounds, here.worker.pid)

    assert found["Max file size"] == found["Max open files"] == found["Max processes"] == "0"
    assert found["Max core file size"] == "0"
    assert int(found["Max address space"]) < MEMORY_BYTES + 160 * 1024 * 1024
    assert int(found["Max cpu time"]) <= 60


def _environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


async def test_a_worker_sees_no_environment_and_has_three_descriptors_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    async with bench() as here:
        environment = await asyncio.to_thread(_environment, here.worker.pid)
        open_files = [os.readlink(f"/proc/{here.worker.pid}/fd/{n}") for n in os.listdir(f"/proc/{here.worker.pid}/fd")]

    assert environment == b""
    assert {name.split(":")[0] for name in open_files} == {"pipe", "/dev/null"}


def test_both_ends_know_the_exit_code_of_a_worker_without_memory() -> None:
    assert f"\nNO_MEMORY = {NO_MEMORY}\n" in PROGRAM.read_text()


async def test_it_dies_with_the_end_of_its_input() -> None:
    worker = await LuaWorker.start(limits())
    worker._process._feed.close()
    await worker._watcher

    assert not worker.alive
    assert await worker.end() == 0


async def test_a_script_that_nobody_ends_is_ended_by_the_limit_of_its_process() -> None:
    worker = await LuaWorker.start(limits())
    asked = Script(script="while true do end", now_s=0.0, time_s=-1.9)  # a second of CPU is left of what it has beyond
    worker._process.write(said(asked))
    await worker._watcher

    assert await worker.end() in (-signal.SIGXCPU, -signal.SIGALRM)
