"""Hostile scripts in real turns: the kernel is unharmed, each call ends in its time, and the next script is served.

All of a kind run in one turn of one conversation, each followed by a script that does no harm.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from agentos.components import Outcome
from agentos.testing.leaks import LeakMeter
from agentos.toolboxes.lua import LuaToolbox
from tests.lua.support import LONG_S, SOON_S, TIME_S, limits
from tests.support import Lab, Mind, call, calls, entries_of, lab, results, until

AFTER = "return 6 * 7"
MIB = 1024 * 1024
CALLS_MORE = 20
"""How many calls of tools the scripts of one turn may make."""

ENDLESS = {
    "a loop": "while true do end",
    "a loop in a coroutine": "coroutine.wrap(function() while true do end end)()",
    "a loop within pcall, again and again": "while true do pcall(function() while true do end end) end",
    "a jump back over pcall": "::again:: pcall(error, 'x') goto again",
    "a pattern": "return string.find(('a'):rep(40000), ('a-'):rep(8) .. 'b')",
    "optional parts of a pattern": "return string.find(('a'):rep(60), ('a?'):rep(40) .. ('a'):rep(61))",
    "an error whose words never end": "error(setmetatable({}, {__tostring = function() while true do end end}))",
    "a variable whose closing never ends": "local x <close> = setmetatable({}, {__close = function() while true do end end})",
    "a comparison": "local m = {__lt = function() while true do end end} return setmetatable({}, m) < setmetatable({}, m)",
    "moving a table in C": "table.move({}, 1, 1 << 50, 2)",
    "a printer": "while true do print(('x'):rep(1000)) end",
    "tail calls with more and more arguments": "local function f(...) return f(1, ...) end return f()",
    "coroutines that all fail": "while true do pcall(coroutine.wrap(function() error('x') end)) end",
    "calls of a tool that is not there": "while true do tools.call('nothing') end",
}

TOO_LARGE = {
    "a long text": "return ('x'):rep(1e9)",
    "a text that doubles": "local s = 'x' while true do s = s .. s end",
    "a table without end": "local t = {} while true do t[#t + 1] = {} end",
    "coroutines without end": "local t = {} while true do t[#t + 1] = coroutine.create(print) end",
    "pieces that are joined": "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1e5) end return table.concat(t)",
    "a text replaced by longer ones": "return (('x'):rep(1e6):gsub('x', ('y'):rep(1000)))",
    "a recursion": "local function f() return 1 + f() end return f()",
}

REFUSED = {
    "os": ("os.execute('true')", "script:1: attempt to index a nil value (global 'os')"),
    "io": ("io.open('/etc/passwd')", "script:1: attempt to index a nil value (global 'io')"),
    "debug": ("debug.getregistry()", "script:1: attempt to index a nil value (global 'debug')"),
    "package": ("package.loadlib('x', '*')", "script:1: attempt to index a nil value (global 'package')"),
    "require": ("require('os')", "script:1: attempt to call a nil value (global 'require')"),
    "python": ("python.builtins.__import__('os')", "script:1: attempt to index a nil value (global 'python')"),
    "compiled code": ("load('\\27Lua\\x54')", "script:1: attempt to call a nil value (global 'load')"),
    "compiling": ("string.dump(print)", "script:1: attempt to call a nil value (field 'dump')"),
    "a finaliser": ("setmetatable({}, {__gc = print})", "script:1: a metatable with __gc is refused"),
    "the metatable of texts": ("getmetatable('').__index = {}", "script:1: attempt to index a boolean value"),
    "the metatable of the tools": ("setmetatable(tools, {})", "script:1: cannot change a protected metatable"),
    "an attribute of Python": ("return tools.call.__globals__", "script:1: attempt to index a function value"),
    "a recursion through C": ("local function f() return (('x'):gsub('x', f)) end f()", "C stack overflow"),
    "coroutines in each other": ("local function c() return coroutine.wrap(c)() end c()", "script:1:"),
    "metatables in a circle": (
        "local t = {} t.__index = t setmetatable(t, t) return t.x",
        "script:1: '__index' chain too long",
    ),
    "too many values": ("return table.unpack({}, 1, 1e8)", "script:1: too many results to unpack"),
    "a text longer than any": ("return ('x'):rep(1 << 62)", "script:1: resulting string too large"),
    "an open pattern": ("return ('x'):find(('('):rep(1000))", "script:1:"),
    "words that are none": ("error(setmetatable({}, {__tostring = function() return {} end}))", "[]"),
    "words that fail": ("error(setmetatable({}, {__tostring = function(me) error(me) end}))", "[]"),
    "a yield into nothing": ("coroutine.yield(1)", "attempt to yield from outside a coroutine"),
    "JSON that is deep": ("return json.decode(('['):rep(1e5))", "json.decode: more than 64 lists"),
    "an argument that is a circle": ("local t = {} t.t = t tools.echo(t)", "script:1: tools.echo: json.encode: cycle"),
    "an argument that is no number": ("tools.echo{text = 0 / 0}", "script:1: tools.echo: json.encode: nan"),
    "an argument beyond numbers": ("tools.echo{text = 1 / 0}", "script:1: tools.echo: json.encode: inf"),
    "a tool with the name of a path": ("tools['../../x']{}", "script:1: tools.../../x: not-allowed:"),
    "a tool of Python's": ("tools.__class__{}", "script:1: tools.__class__: not-allowed:"),
    "a tool with a long name": ("tools[('x'):rep(1e5)]{}", "script:1: tools.call: the name of a tool has at most"),
}

UNREADABLE = {
    "brackets in each other": "return " + "(" * 1000 + "1" + ")" * 1000,
    "compiled code": "\x1bLua\x54\x00",
    "a zero byte": "return \x00",
    "too many variables": "local " + ",".join(f"a{n}" for n in range(300)),
}


async def echo(text: str) -> str:
    """Says it again."""
    return text


def box(**more: Any) -> LuaToolbox:
    return LuaToolbox("lua", tools=["echo"], limits=limits(**more))


async def outcomes(here: Lab) -> list[tuple[str, str]]:
    """How the scripts of one turn ended, which went on to its end whatever they did."""
    conversation = await here.start()
    outcome = await conversation.ask("go")
    assert outcome.outcome is Outcome.COMPLETED
    inner = [
        getattr(entry.data, "parent", None) is not None for entry in await entries_of(conversation, "call.finished")
    ]
    return [end for end, is_inner in zip(await results(conversation), inner, strict=True) if not is_inner]


async def after_each(scripts: Mapping[str, str], **asked: Any) -> dict[str, tuple[str, str]]:
    """What became of each, where the one behind it was served. asked: what is said with each, and not with that."""
    replies = [
        calls(one)
        for script in scripts.values()
        for one in (call("lua_run", script=script, **asked), call("lua_run", script=AFTER))
    ]
    meter = LeakMeter()
    turn: dict[str, Any] = {"step_limit": len(replies) + 1, "call_limit": len(replies) + CALLS_MORE}
    async with lab(Mind(*replies), [echo], toolboxes=[box()], **turn) as here:
        ends = await outcomes(here)
    await meter.check()
    assert len(ends) == len(replies)
    served = dict(zip(scripts, ends[1::2], strict=True))
    assert {name: status for name, (status, _) in served.items()} == dict.fromkeys(scripts, "done")
    assert all(json.loads(text)["values"] == [42] for _, text in served.values())
    return dict(zip(scripts, ends[::2], strict=True))


async def test_what_never_ends_is_ended() -> None:
    ended = await after_each(ENDLESS, timeout=TIME_S)

    lost = f"the script did not end within {TIME_S:g} s (time_s); its state is lost, the next one begins anew"
    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(ENDLESS, "failed(timeout)")
    assert all(text.startswith(lost) for _, text in ended.values())


async def test_what_takes_all_memory_is_an_error_of_its_own() -> None:
    ended = await after_each(TOO_LARGE)

    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(TOO_LARGE, "failed(memory)")


async def test_what_reaches_for_more_is_refused() -> None:
    ended = await after_each({name: script for name, (script, _) in REFUSED.items()})

    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(REFUSED, "failed(raised)")
    for name, (_, words) in REFUSED.items():
        assert ended[name][1].startswith(words), name


async def test_what_is_no_script_is_told() -> None:
    ended = await after_each(UNREADABLE)

    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(UNREADABLE, "failed(syntax)")


async def test_a_result_beyond_all_memory_ends_neither_the_kernel_nor_its_conversation() -> None:
    """12 MiB handed to a state of 10 MiB abort a process that does so unprepared, also from a function that Lua calls."""

    async def large() -> str:
        """Gives more than a script can hold."""
        return "y" * (12 * MIB)

    mind = Mind(
        calls(call("lua_run", script="return #tools.large{}")),
        calls(call("lua_run", script="return pcall(function() return #tools.large{} end)")),
        calls(call("lua_run", script=AFTER)),
    )
    toolbox = LuaToolbox("lua", tools=["large"], limits=limits(memory_bytes=10 * MIB, line_bytes=64 * MIB))
    async with lab(mind, [large], toolboxes=[toolbox]) as here:
        ends = await outcomes(here)

    assert [status for status, _ in ends] == ["failed(memory)", "done", "done"]
    assert json.loads(ends[1][1])["values"] == [False, "not enough memory"]
    assert json.loads(ends[2][1]) == {"values": [42], "state": "kept"}


async def test_a_flood_of_calls_ends_by_their_limit_and_the_next_turn_is_served() -> None:
    flood = "while true do tools.call('echo', {text = 'x'}) end"
    mind = Mind(calls(call("lua_run", script=flood)), calls(call("lua_run", script=AFTER)))
    async with lab(mind, [echo], toolboxes=[box(time_s=SOON_S)], call_limit=CALLS_MORE) as here:
        conversation = await here.start()
        flooded, after = await conversation.ask("go"), await conversation.ask("go on")
        told = await results(conversation)

    assert (str(flooded), after.outcome) == ("limit(calls)", Outcome.COMPLETED)
    assert [status for status, _ in told] == ["done"] * (CALLS_MORE - 1) + [
        "denied(call_limit)",
        "failed(timeout)",
        "done",
    ]


async def test_a_script_spoils_its_own_state_alone_and_a_fresh_one_is_whole() -> None:
    spoil = """
    local all, set, here = pairs, rawset, _G
    for _, value in all(here) do
      if type(value) == "table" and value ~= here then for key in all(value) do set(value, key, nil) end end
    end
    for name in all(here) do set(here, name, nil) end
    """
    whole = "return json.encode({text.trim(' a ')}), tools.echo{text = 'b'}"
    mind = Mind(
        calls(call("lua_run", script=spoil)),
        calls(call("lua_run", script="return print, tools, _G")),
        calls(call("lua_run", script=whole, fresh=True)),
    )
    async with lab(mind, [echo], toolboxes=[box()]) as here:
        ended = await outcomes(here)

    assert [json.loads(text)["values"] for _, text in ended] == [[], [None, None, None], ['["a"]', "b"]]


async def test_values_that_are_no_data_are_told_as_texts() -> None:
    numbers = "0/0, 1/0, -1/0, math.mininteger, 2^63"
    script = f"local t = {{}} t[1] = t return {numbers}, '\\xff\\xfea', print, coroutine.create(print), t"
    async with lab(Mind(calls(call("lua_run", script=script))), [echo], toolboxes=[box()]) as here:
        [(status, text)] = await outcomes(here)

    told = ["<nan>", "<inf>", "<-inf>", -(2**63), 2.0**63, "��a", "<function>", "<thread>", ["<cycle>"]]
    assert (status, json.loads(text)["values"]) == ("done", told)


@pytest.mark.parametrize(
    ("number", "ends"),
    [
        (signal.SIGTERM, "failed(died)"),
        (signal.SIGSEGV, "failed(died)"),
        (signal.SIGUSR1, "failed(died)"),
        (signal.SIGSTOP, "failed(timeout)"),
    ],
)
async def test_a_signal_from_outside_ends_the_script_alone(number: signal.Signals, ends: str) -> None:
    toolbox = box(time_s=SOON_S if number is signal.SIGSTOP else LONG_S)
    mind = Mind(calls(call("lua_run", script="while true do end")), calls(call("lua_run", script=AFTER)))
    async with lab(mind, [echo], toolboxes=[toolbox]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: toolbox._workers is not None and any(one.running for one in toolbox._workers.taken))
        assert toolbox._workers is not None
        os.kill(toolbox._workers.taken[0].pid, number)
        outcome = await asked
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert [status for status, _ in told] == [ends, "done"]
