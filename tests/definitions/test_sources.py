"""Files of every kind: their values, the place of each key and item, and how they are refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agentos.definitions import read_source
from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Source

VALUE: dict[str, Any] = {
    "slug": "a",
    "model": {"kind": "scripted", "options": {"steps": []}},
    "toolboxes": ["notes", {"name": "files", "expose": ["read_*"]}],
    "step_limit": 5,
    "tool_s": 2.5,
}
JSON = """\
{"slug": "a",
 "model": {"kind": "scripted", "options": {"steps": []}},
 "toolboxes": [ "notes",
   {"name": "files", "expose": ["read_*"]}],
 "step_limit": 5, "tool_s": 2.5}
"""
YAML = """\
slug: a
model: {kind: scripted, options: {steps: []}}
toolboxes:
  - notes
  - name: files
    expose: ["read_*"]
step_limit: 5
tool_s: 2.5
"""
TOML = """\
slug = "a"   # the name = [
step_limit = 5
tool_s = 2.5
toolboxes = [
  'notes', # ]
  {name = "files", expose = ["read_*"]},
]
[model]
kind = "scripted"
options.steps = []
"""
MARKDOWN = f"---\n{YAML}---\n"
FORMS = {".json": JSON, ".yaml": YAML, ".yml": YAML, ".toml": TOML, ".md": MARKDOWN}


def read(folder: Path, name: str, text: str | bytes, limits: FileLimits | None = None) -> Source:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return read_source(path, limits or FileLimits())


def told(source: Source) -> list[str]:
    return [str(problem).removeprefix(str(source.path)) for problem in source.problems]


@pytest.mark.parametrize("suffix", FORMS)
def test_one_value_in_every_form(tmp_path: Path, suffix: str) -> None:
    source = read(tmp_path, f"agent{suffix}", FORMS[suffix])

    assert source.value == VALUE
    assert source.problems == ()


@pytest.mark.parametrize(
    ("suffix", "places"),
    [
        (".json", [(1, 1), (1, 2), (2, 32), (3, 2), (3, 17), (4, 4), (4, 5), (4, 22), (4, 33), (5, 2)]),
        (".yaml", [(1, 1), (1, 1), (2, 25), (3, 1), (4, 5), (5, 5), (5, 5), (6, 5), (6, 14), (7, 1)]),
        (".toml", [(1, 1), (1, 1), (10, 1), (4, 1), (5, 3), (6, 3), (6, 4), (6, 20), (6, 30), (2, 1)]),
        (".md", [(2, 1), (2, 1), (3, 25), (4, 1), (5, 5), (6, 5), (6, 5), (7, 5), (7, 14), (8, 1)]),
    ],
)
def test_every_key_and_item_has_its_place_in_the_file(tmp_path: Path, suffix: str, places: list[Any]) -> None:
    source = read(tmp_path, f"agent{suffix}", FORMS[suffix])

    asked: list[tuple[str | int, ...]] = [
        (),
        ("slug",),
        ("model", "options"),
        ("toolboxes",),
        ("toolboxes", 0),
        ("toolboxes", 1),
        ("toolboxes", 1, "name"),
        ("toolboxes", 1, "expose"),
        ("toolboxes", 1, "expose", 0),
        ("step_limit",),
    ]
    assert [source.place(keys) for keys in asked] == places


def test_a_place_that_is_not_told_is_that_of_what_holds_it(tmp_path: Path) -> None:
    source = read(tmp_path, "a.json", JSON)

    assert source.place(("model", "gone", 3)) == source.place(("model",)) == (2, 2)


def test_toml_places_reach_tables_lists_of_tables_and_quoted_keys(tmp_path: Path) -> None:
    text = 'a."b c".d = {"e\\u0041" = 1}\n[[t]]\nx = 1\n[[t]]\n[t.u]\ny = """\n= [\n"""\n[[t.v]]\nz = 1.5\n'

    source = read(tmp_path, "a.toml", text)

    assert source.value["a"]["b c"]["d"] == {"eA": 1}
    assert {keys: source.places[keys] for keys in source.places if len(keys) > 2} == {
        ("a", "b c", "d"): (1, 9),
        ("a", "b c", "d", "eA"): (1, 14),
        ("t", 0, "x"): (3, 1),
        ("t", 1, "u"): (5, 4),
        ("t", 1, "u", "y"): (6, 1),
        ("t", 1, "v"): (9, 5),
        ("t", 1, "v", 0): (9, 3),
        ("t", 1, "v", 0, "z"): (10, 1),
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"a": 1,\n "b": 2, "a": 3}', [":2:10: the key 'a' stands here twice"]),
        (
            "a.json",
            '{"a":\n {"b": 1, "b": 1}, "a": 1}',
            [":2:11: the key 'b' stands here twice", ":2:20: the key 'a' "],
        ),
        ("a.json", '{"a": [NaN,\n -Infinity]}', [":1:8: a[0]: nan is no finite number", ":2:2: a[1]: -inf is no "]),
        ("a.json", '{"a": 1e999}', [":1:2: a: inf is no finite number"]),
        ("a.json", '{"a": 9223372036854775808}', [":1:2: a: an integer has to fit into 64 bits"]),
        ("a.json", '{"a": [' + "9" * 5_000 + "]}", [":1:8: a[0]: an integer has to fit into 64 bits"]),
        ("a.json", '{"a": "\\u0000"}', [":1:2: a: a text may not hold U+0000"]),
        ("a.json", '{"\\ud800": 1}', [":1:2: \ud800: a text may not hold half of a pair"]),
        ("a.json", '{"a" 1}', [":1:6: expecting ':' delimiter"]),
        ("a.json", '{"a": "x', [":1:7: unterminated string starting at"]),
        ("a.json", "", [":1:1: expecting value"]),
        ("a.yaml", "a: 1\na: 2\na: 3", [":2:1: the key 'a' stands here twice", ":3:1: the key 'a' stands here twice"]),
        ("a.yaml", "a: .nan", [":1:1: a: nan is no finite number"]),
        ("a.yaml", "a: 9223372036854775808", [":1:1: a: an integer has to fit into 64 bits"]),
        ("a.yaml", "a: " + "9" * 5_000, [":1:4: '" + "9" * 80 + "...' does not fit its tag"]),
        ("a.yaml", 'a: "\\0"', [":1:1: a: a text may not hold U+0000"]),
        ("a.yaml", "a: !!binary aGk=", [":1:1: a: a value of type bytes has no meaning here; in quotes it is text"]),
        ("a.yaml", "a: !!bool maybe", [":1:4: 'maybe' does not fit its tag 'tag:yaml.org,2002:bool'"]),
        ("a.yaml", "a: !!int ''", [":1:4: '' does not fit its tag"]),
        ("a.yaml", "a: !!set {b}", [":1:4: the tag 'tag:yaml.org,2002:set' has no meaning here"]),
        ("a.toml", "a = nan", [":1:1: a: nan is no finite number"]),
        ("a.toml", "a = 9223372036854775808", [":1:1: a: an integer has to fit into 64 bits"]),
        ("a.toml", "a = " + "9" * 5_000, [":1:1: Exceeds the limit (4300 digits) for integer string conversion"]),
        ("a.toml", "a = 1979-05-27", [":1:1: a: a date has no meaning here; in quotes it is text"]),
        ("a.toml", "a = 1\na = 2", [":2:6: Cannot overwrite a value (at end of document)"]),
        ("a.toml", 'a = "x\n', [":1:7: Illegal character '\\n'"]),
        ("a.md", "# Title\n", [":1:1: front matter is missing"]),
        ("a.md", "---\nslug: a\n", [":1:1: the front matter has no end"]),
        ("a.md", "---\nslug: [a\n---\n", [":3:1: did not find expected ',' or ']'"]),
        ("a.txt", "slug: a", [": its name ends in none of .yaml, .yml, .toml, .json, .md"]),
    ],
)
def test_what_no_configuration_may_hold_is_told_with_its_place(
    tmp_path: Path, name: str, text: str, said: list[str]
) -> None:
    source = read(tmp_path, name, text)

    assert len(told(source)) == len(said), told(source)
    for problem in said:
        assert any(one.startswith(problem) for one in told(source)), told(source)
    assert all(problem.is_error for problem in source.problems)


@pytest.mark.parametrize("suffix", FORMS)
def test_bytes_that_are_no_text_are_refused_in_every_form(tmp_path: Path, suffix: str) -> None:
    good = FORMS[suffix]
    data = good.replace("files", "f\xfcles").encode("latin-1")
    at = good[: good.index("files") + 1]
    line, column = at.count("\n") + 1, len(at) - at.rfind("\n")

    assert told(read(tmp_path, f"latin{suffix}", data)) == [f":{line}:{column}: byte {len(at)} (0xfc) is not UTF-8"]
    assert told(read(tmp_path, f"zero{suffix}", good.replace("files", "\0"))) == [
        f":{line}:{column - 1}: a zero byte (U+0000) stands here"
    ]
    assert told(read(tmp_path, f"wide{suffix}", good.encode("utf-16"))) == [
        ":1:1: the text is UTF-16; save it as UTF-8"
    ]


@pytest.mark.parametrize("suffix", FORMS)
def test_a_byte_order_mark_and_windows_line_ends_change_nothing_but_a_warning(tmp_path: Path, suffix: str) -> None:
    source = read(tmp_path, f"a{suffix}", "\ufeff" + FORMS[suffix].replace("\n", "\r\n"))

    assert source.value == VALUE
    assert source.place(("step_limit",)) == read(tmp_path, f"b{suffix}", FORMS[suffix]).place(("step_limit",))
    assert [(problem.line, problem.severity) for problem in source.problems] == [(1, "warning")]


def test_a_file_that_cannot_be_read_is_told_without_a_line(tmp_path: Path) -> None:
    assert told(read_source(tmp_path / "gone.yaml")) == [": No such file or directory"]
    assert told(read_source(tmp_path)) == [": Is a directory"]
    assert told(read_source(tmp_path / ("x" * 300 + ".json"))) == [": File name too long"]


DEEP = 200_000
MEGABYTES_20 = 20 * 1024 * 1024


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"a": ' + "[" * DEEP + "]" * DEEP + "}"),
        ("a.json", '{"a":' * DEEP + "1" + "}" * DEEP),
        ("a.yaml", "a: " + "[" * DEEP + "]" * DEEP),
        ("a.yaml", "a: " + "{b: " * DEEP),
        ("a.yaml", "- " * DEEP + "a"),
        ("a.yaml", "? " * DEEP + "a"),
        ("a.toml", "a = " + "[" * DEEP + "]" * DEEP),
        ("a.toml", "a = " + "{b = " * DEEP),
        ("a.toml", "a." * DEEP + "b = 1"),
        ("a.toml", "[" + "a." * DEEP + "b]"),
        ("a.toml", "[[" + "a." * DEEP + "b]]"),
        ("a.md", "---\na: " + "[" * DEEP + "]" * DEEP + "\n---\n"),
    ],
    ids=lambda text: str(text)[:12].strip(),
)
def test_a_file_nested_200_000_deep_is_refused_by_a_named_limit_at_once(tmp_path: Path, name: str, text: str) -> None:
    started = time.process_time()

    source = read(tmp_path, name, text, FileLimits(file_bytes_max=MEGABYTES_20))

    assert time.process_time() - started < 5
    assert source.value is None
    (problem,) = source.problems
    assert problem.text == "nested deeper than 50 levels (file_depth_max)"
    assert problem.column > 50


@pytest.mark.parametrize("suffix", FORMS)
def test_a_file_of_20_megabytes_is_refused_without_being_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with path.open("wb") as file:
        file.truncate(MEGABYTES_20)
    started = time.process_time()

    source = read_source(path)

    assert time.process_time() - started < 1
    assert told(source) == [": over 1,048,576 bytes (file_bytes_max), which no configuration needs"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps({"a": list(range(30_000))})),
        ("a.json", json.dumps({str(n): n for n in range(30_000)})),
        ("a.yaml", "a: [" + "1," * 50_000 + "]"),
        ("a.yaml", "\n".join(f"k{n}: {n}" for n in range(25_000))),
        ("a.yaml", "a: &a [x, x]\nb: [" + "*a," * 15_000 + "]"),
        ("a.toml", "a = [" + "1," * 30_000 + "]"),
        ("a.toml", "\n".join(f"k{n} = {n}" for n in range(30_000))),
        ("a.toml", "[[a]]\n" * 30_000),
        ("a.md", "---\na: [" + "1," * 50_000 + "]\n---\n"),
    ],
    ids=lambda text: str(text)[:12].strip(),
)
def test_a_file_of_too_many_values_is_refused_by_a_named_limit(tmp_path: Path, name: str, text: str) -> None:
    source = read(tmp_path, name, text)

    assert source.value is None
    assert [problem.text for problem in source.problems] == [
        "more than 20,000 values (file_values_max), or an alias that repeats itself"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '"' + '\\"' * 400_000),
        ("a.json", '{"a": "' + "\\" * 400_001),
        ("a.toml", 'a = "' + '\\"' * 400_000),
        ("a.toml", 'a = """' + '""x' * 200_000),
        ("a.toml", "a = '''" + "''x" * 200_000),
        ("a.toml", "'" * 400_001),
        ("a.toml", "=" * 400_000),
        ("a.yaml", 'a: "' + '\\"' * 400_000),
        ("a.yaml", "&a " * 100_000),
        ("a.md", "---\n" + "-" * 500_000),
        ("a.md", "---\ntools: " + "files(" * 50_000 + "\n---\n"),
        ("a.md", "---\ntools: " + "a(b), " * 50_000 + "\n---\n"),
    ],
    ids=lambda text: str(text)[:12].strip(),
)
def test_text_that_goes_on_and_on_is_looked_at_once(tmp_path: Path, name: str, text: str) -> None:
    started = time.process_time()

    source = read(tmp_path, name, text)

    assert time.process_time() - started < 5
    assert source.problems or name == "a.md"


def test_the_prompt_of_markdown_is_its_body(tmp_path: Path) -> None:
    source = read(tmp_path, "a.md", "---\nslug: a\n---\n\n\n# You\n\nreview.\n\n---\nEnd.\n")

    assert source.value == {"slug": "a", "system_prompt": "# You\n\nreview.\n\n---\nEnd."}
    assert source.place(("system_prompt",)) == (6, 1)


def test_the_body_stands_behind_the_prompt_that_the_front_matter_has(tmp_path: Path) -> None:
    one = read(tmp_path, "a.md", "---\nslug: a\nsystem_prompt: First.\n---\nThen.\n")
    two = read(tmp_path, "b.md", "---\nslug: a\nsystem_prompt: [First., Second.]\n---\nThen.\n")

    assert one.value["system_prompt"] == ["First.", "Then."]
    assert two.value["system_prompt"] == ["First.", "Second.", "Then."]
    assert two.place(("system_prompt", 2)) == (5, 1)


@pytest.mark.parametrize(
    ("tools", "toolboxes"),
    [
        ("files, notes", ["files", "notes"]),
        ("files", ["files"]),
        ("files(read_*, count), notes", [{"name": "files", "expose": ["read_*", "count"]}, "notes"]),
        ("[files, notes(x)]", ["files", {"name": "notes", "expose": ["x"]}]),
        ("[{name: files}]", [{"name": "files"}]),
        ("5", 5),
        ("files(read", ["files(read"]),
        ("''", []),
    ],
)
def test_words_of_other_programs_stand_for_ours(tmp_path: Path, tools: str, toolboxes: Any) -> None:
    text = f"---\nname: reviewer\ndescription: Reads.\ntools: {tools}\nmodel: openai:x\ncolor: red\n---\n"

    source = read(tmp_path, "a.md", text)

    assert source.value == {
        "slug": "reviewer",
        "announce": "Reads.",
        "toolboxes": toolboxes,
        "model": "openai:x",
    }
    assert source.place(("announce",)) == (3, 1)


def test_two_words_for_one_thing_are_refused(tmp_path: Path) -> None:
    source = read(tmp_path, "a.md", "---\nslug: a\nname: b\n---\n")

    assert told(source) == [":3:1: name is another word for slug, which stands here too; keep one"]
    assert source.value == {"slug": "a"}
