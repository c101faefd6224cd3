"""What scripts have beside Lua itself: json, text, time and tools, and how values go out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.resources.kinds.lua import Reply
from tests.lua.support import Bench, bench


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Bench]:
    """One process for all tests here that leave it as they found it."""
    async with bench() as here:
        yield here


@pytest.fixture
def lua(shared: Bench) -> Bench:
    shared.called.clear()
    shared.reply = Reply(status="ok", result_txt='{"found": [1, 2]}')
    return shared


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        ("", []),
        ("nil", [None]),
        ("1, 2.5, -3, 1e300, 2^53", [1, 2.5, -3, 1e300, 9007199254740992.0]),
        ("math.maxinteger, math.mininteger", [2**63 - 1, -(2**63)]),
        ("0.1, 1/3, 1e100", [0.1, 1 / 3, 1e100]),
        ("true, false", [True, False]),
        ("'a\\0b\\n\"\\\\é'", ['a\0b\n"\\é']),
        ("'\\xff\\xc3'", ["\ufffd\ufffd"]),
        ("{}, {1, 2}, {a = 1}", [[], [1, 2], {"a": 1}]),
        ("{1, nil, 3}", [{"1": 1, "3": 3}]),
        ("{[2] = 'b', x = {}}", [{"2": "b", "x": []}]),
        ("json.null, json.object()", [None, {}]),
        ("print, coroutine.create(print)", ["<function>", "<thread>"]),
        ("0/0 ~= 0/0, 1/0, -1/0", [True, "<inf>", "<-inf>"]),
    ],
)
async def test_values_go_out_as_plain_data(lua: Bench, returned: str, values: list[Any]) -> None:
    assert await lua.values(f"return {returned}") == values


async def test_a_cycle_and_a_depth_without_end_are_told_as_texts(lua: Bench) -> None:
    assert await lua.values("local t = {} t.t = t return t") == [{"t": "<cycle>"}]
    deep = "local t = {} local at = t for _ = 1, 1000 do at[1] = {} at = at[1] end return t"
    assert "<too deep>" in json.dumps(await lua.values(deep))


@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        ("x = = 1", "syntax", "script:1: unexpected symbol near '='"),
        ("\n\nlocal x <const> = 1 x = 2", "syntax", "script:3: attempt to assign to const variable 'x'"),
        ("local x = 1\nerror('boom')", "raised", "script:2: boom"),
        ("error('boom', 0)", "raised", "boom"),
        ("error({code = 7})", "raised", '{"code":7}'),
        ("error(setmetatable({}, {__tostring = function() return 'told' end}))", "raised", "told"),
        ("error()", "raised", "null"),
        ("nothing.there()", "raised", "script:1: attempt to index a nil value (global 'nothing')"),
        ("os.exit()", "raised", "script:1: attempt to index a nil value (global 'os')"),
        ("coroutine.yield()", "raised", "attempt to yield from outside a coroutine"),
        ("local x = {} .. 1", "raised", "script:1: attempt to concatenate a table value"),
    ],
)
async def test_a_failure_names_the_line(lua: Bench, script: str, kind: str, text: str) -> None:
    assert await lua.failure(script) == (kind, text)


async def test_a_recursion_without_end_is_an_error() -> None:
    recursion = "local function f() return 1 + f() end return f()"
    async with bench() as small, bench(memory_bytes=256 * 1024 * 1024) as large:
        assert (await small.failure(recursion))[0] == "memory"
        assert await large.failure(recursion) == ("raised", "script:1: stack overflow")


async def test_variables_stay_until_a_fresh_state_is_asked_for(lua: Bench) -> None:
    await lua.values("kept = {1} local gone = 2")

    assert await lua.values("return kept, gone") == [[1], None]
    assert await lua.values("return kept", fresh=True) == [None]


def _is_some(value: object) -> bool:
    """In an object null is nothing, as the documentation says."""
    return value is not None


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner.filter(_is_some), max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=PLAIN, as_ascii=st.booleans())
async def test_what_is_decoded_encodes_as_it_was(lua: Bench, value: Any, as_ascii: bool) -> None:
    lua.reply = Reply(status="ok", result_txt=json.dumps(value, ensure_ascii=as_ascii, separators=(",", ":")))

    [text] = await lua.values("return json.encode(json.decode(tools.call('any').result_txt))")

    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no value at byte 1"),
        ("[1,", "no value at byte 4"),
        ("[1 2]", "',' or ']' expected at byte 4"),
        ('{"a" 1}', "':' expected at byte 6"),
        ("{a: 1}", "a key in quotes expected at byte 2"),
        ('"abc', "a text without its end at byte 1"),
        ('"a\nb"', "a control character in a text at byte 3"),
        (r'"\x"', "an unknown escape at byte 2"),
        (r'"\u12"', "\\u needs four hexadecimal digits at byte 4"),
        ("01", "no value at byte 1"),
        ("1 2", "more after the value at byte 3"),
        ("nul", "no value at byte 1"),
        ("[" * 100, "more than 64 lists and objects in each other at byte 65"),
    ],
)
async def test_what_is_no_json_is_an_error_at_its_byte(lua: Bench, text: str, problem: str) -> None:
    lua.reply = Reply(status="ok", result_txt=text)

    found = await lua.failure("local t = tools.call('any').result_txt\nreturn json.decode(t), 1")

    assert found == ("raised", f"script:2: json.decode: {problem}")


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("json.decode('[1,null,2]')", [[1, None, 2]]),
        ("json.decode('{\"a\":null}').a == nil, json.decode('null', 7)", [True, 7]),
        ("json.decode('1'), json.decode('1.0'), json.decode('1e2')", [1, 1.0, 100.0]),
        ("math.type(json.decode('1')), math.type(json.decode('1.0'))", ["integer", "float"]),
        ("json.decode('\"\\\\ud83d\\\\ude00\\\\ud800\"')", ["😀\ufffd"]),
        ("json.encode({b = 1, a = {}})", ['{"a":[],"b":1}']),
        ("json.encode(json.decode('{\"a\":{}}'))", ['{"a":{}}']),
        ("pcall(json.encode, 0/0)", [False, "json.encode: nan has no JSON form"]),
        ("pcall(json.encode, {[{}] = 1})", [False, "json.encode: a key that is a table has no JSON form"]),
        ("pcall(json.encode, print)", [False, "json.encode: function has no JSON form"]),
        ("text.split('a,b,,c', ','), text.split(' a  b ')", [["a", "b", "", "c"], ["a", "b"]]),
        ("text.split('a.b', '.'), text.join({'a', 'b'}, '-')", [["a", "b"], "a-b"]),
        ("text.find('a.b.c', '.'), text.find('abc', '.')", [2, None]),
        ("text.find('a.b.c', '.', 3)", [4, 4]),
        ("text.contains('a%b', '%'), text.startswith('abc', 'ab'), text.endswith('abc', 'ab')", [True, True, False]),
        ("text.trim('  a b\\n'), text.trim('   '), text.trim('')", ["a b", "", ""]),
        ("text.upper('aé'), text.lower('AÉ')", ["Aé", "aÉ"]),
        ("text.len('héé'), text.sub('héllo', 2, 3), text.sub('héllo', -2), text.sub('é', 5)", [3, "él", "lo", ""]),
        ("text.sub('héllo', 0, 99), text.sub('\\xff\\xfe', 1, 1)", ["héllo", "\ufffd"]),
        ("text.replace('a.b.c', '.', '%1')", ["a%1b%1c", 2]),
        ("text.gsub('abc', '%w', '%0%0')", ["aabbcc", 3]),
        ("text.lines('a\\r\\nb\\n\\nc')", [["a", "b", "", "c"]]),
        ("('abc'):upper(), #'abc', ('x'):rep(3)", ["ABC", 3, "xxx"]),
        (
            "time.format(0), time.format(951782400.9), time.format(-1)",
            [
                "1970-01-01T00:00:00Z",
                "2000-02-29T00:00:00Z",
                "1969-12-31T23:59:59Z",
            ],
        ),
        ("time.format(1e9, '%d.%m.%Y %H:%M:%S %%'), time.diff(5, 3)", ["09.09.2001 01:46:40 %", 2]),
        ("time.sleep", [None]),
    ],
)
async def test_the_modules_do_as_they_say(lua: Bench, expression: str, values: list[Any]) -> None:
    found = await lua.values(f"return {expression}")

    assert found[: len(values)] == values


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("text.split('a', '')", "script:1: text.split: the separator is empty"),
        ("text.trim(1)", "script:1: text.trim: argument 1 is a text, not a number"),
        ("time.format('x')", "script:1: time.format: a number of seconds is needed"),
        ("time.format(0, '%A')", "script:1: time.format: %A is none of %Y %m %d %H %M %S %%"),
        ("tools.any('x')", "script:1: tools.any: the arguments are a table by their names, not a string"),
        ("tools.any({1, 2})", "script:1: tools.any: the arguments are a table by their names, not a list"),
        ("tools.any({[1] = 'a', ['1'] = 'b'})", 'script:1: tools.any: two keys of a table are "1" as JSON'),
        ("tools.call({})", "script:1: tools.call: the name of a tool is a text"),
        ("tools.call(('x'):rep(129))", "script:1: tools.call: the name of a tool has at most 128 bytes"),
        ("text.sub('a', 0/0)", "script:1: text.sub: argument 2 is no number"),
        ("text.sub('a')", "script:1: text.sub: argument 2 is a number, not a nil"),
        ("text.find('a', 'a', {})", "script:1: text.find: argument 3 is a number, not a table"),
        ("text.join({'a', {}})", "script:1: text.join: part 2 is a table, no text"),
        ("time.format(1/0)", "script:1: time.format: no year that has a name"),
        ("time.format(0, 1)", "script:1: time.format: argument 2 is a text, not a number"),
        ("time.diff('a', 1)", "script:1: time.diff: argument 1 is a number, not a string"),
        ("json.object(1)", "script:1: json.object: a table is needed, not a number"),
        ("text.lines()", "script:1: text.lines: argument 1 is a text, not a nil"),
        ("{[1] = 'a', ['1'] = 'b'}", 'two keys of a table are "1" as JSON'),
        ("{['\\xff'] = 1, ['\\xfe'] = 2}", 'two keys of a table are "\ufffd" as JSON'),
        ("json.decode(7)", "script:1: json.decode: a text is needed, not a number"),
    ],
)
async def test_a_module_that_is_misused_says_so_at_the_line_of_the_script(lua: Bench, script: str, text: str) -> None:
    assert await lua.failure(f"local done = {script} return done") == ("raised", text)


async def test_the_time_is_that_of_the_kernel_and_goes_on_while_a_script_runs(lua: Bench) -> None:
    first, second = await lua.values("local a = time.now() for i = 1, 1e5 do end return a, time.now()", now_s=1_000.0)

    assert 1_000.0 <= first < second < 1_060.0


async def test_a_tool_gives_a_table_where_its_result_is_json(lua: Bench) -> None:
    assert await lua.values("return tools.find_text{text = 'x', deep = {1, {}}}.found[2]") == [2]
    lua.reply = Reply(status="ok", result_txt="plain [text]")
    assert await lua.values("return tools['find-text']()") == ["plain [text]"]

    assert lua.called == [("find_text", {"text": "x", "deep": [1, []]}), ("find-text", {})]


async def test_a_tool_that_does_not_work_out_raises_or_is_told(lua: Bench) -> None:
    lua.reply = Reply(status="not-allowed", result_txt="denied by a rule", trace_id="call_1", outcome="denied")

    assert await lua.failure("\ntools.pay{}") == ("raised", "script:2: tools.pay: not-allowed: denied by a rule")
    [told] = await lua.values("return tools.call('pay')")
    told.pop("duration", None)
    assert told == {
        "status": "not-allowed",
        "result_txt": "denied by a rule",
        "trace_id": "call_1",
        "outcome": "denied",
    }


async def test_tools_can_be_called_from_a_coroutine(lua: Bench) -> None:
    script = "local c = coroutine.wrap(function() coroutine.yield(tools.any{}.found[1]) return 9 end) return c(), c()"

    assert await lua.values(script) == [1, 9]


async def test_the_list_of_tools_is_that_of_the_toolbox() -> None:
    async with bench(("read_*", "find")) as here:
        assert await here.values("return tools.list()") == [["read_*", "find"]]
