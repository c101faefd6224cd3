"""Executables as tools: the describe and run protocol."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Access, EffectClass, ToolboxSharing
from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.base import Failed, ToolboxProblem, problems_of
from agentos.toolboxes.results import Media, render
from agentos.toolboxes.script import DescribeLimits, ScriptToolbox

Write = Callable[..., Path]


def arg(name: str, mode: str = "positional", arity: str = "single", backing: str = "string") -> dict[str, str]:
    return {
        "name": name,
        "description": f"the {name}",
        "type": backing,
        "backing_type": backing,
        "arity": arity,
        "mode": mode,
    }


_open: list[ScriptToolbox] = []


async def opened(folder: Path, **options: Any) -> ScriptToolbox:
    """Open until the end of the test."""
    toolbox = ScriptToolbox("box", directories=[folder / "scripts"], cwd=folder, **options)
    _open.append(toolbox)
    await toolbox.open()
    return toolbox


@pytest.fixture(autouse=True)
async def _closed_again() -> AsyncIterator[None]:
    yield
    while _open:
        await _open.pop().close()


PRINT_ALL = 'for word in "$@"; do printf "<%s>" "$word"; done; [ -t 0 ] || cat'


async def test_arguments_reach_the_script_in_the_order_and_form_that_it_declares(
    script: Write, tmp_path: Path, context: Any
) -> None:
    modes = [
        arg("text", "stdin"),
        arg("first"),
        arg("depth", "dashdashspace", "optional", "integer"),
        arg("style", "dashdashequal", "optional"),
        arg("more", "stdin", "optional"),
    ]
    script("show", PRINT_ALL, modes)
    toolbox = await opened(tmp_path)

    values = {"style": "a b", "more": "two", "text": "one", "depth": 3, "first": "x;rm *"}
    printed = await toolbox.call(Name("show"), values, context)

    assert printed == "<x;rm *><--depth><3><--style=a b>one\ntwo\n"


async def test_an_absent_or_null_argument_gives_nothing(script: Write, tmp_path: Path, context: Any) -> None:
    script("show", PRINT_ALL, [arg("a", "dashdashspace", "optional"), arg("b", "stdin", "optional"), arg("c")])
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("show"), {"c": "end", "a": None}, context) == "<end>"


async def test_numbers_and_booleans_arrive_as_their_text(script: Write, tmp_path: Path, context: Any) -> None:
    script("show", PRINT_ALL, [arg("a"), arg("b"), arg("c")])
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("show"), {"a": 5, "b": 1.5, "c": True}, context) == "<5><1.5><true>"


async def test_an_argument_may_be_an_environment_variable(script: Write, tmp_path: Path, context: Any) -> None:
    script("show", 'echo "$COLOUR"', [arg("COLOUR", "env")])
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("show"), {"COLOUR": "green"}, context) == "green\n"


async def test_the_schema_follows_the_description(script: Write, tmp_path: Path) -> None:
    script("find", "true", [arg("n", backing="integer"), {**arg("p", arity="optional"), "type": "filepath"}])
    (spec,) = (await opened(tmp_path)).tools()

    assert (spec.name, spec.description, spec.toolbox) == ("find", "Runs find.", "box")
    assert spec.schema == {
        "type": "object",
        "properties": {
            "n": {"type": ["integer", "string"], "description": "the n"},
            "p": {"type": ["string", "number", "boolean", "null"], "description": "the p (filepath)"},
        },
        "required": ["n"],
        "additionalProperties": False,
    }


async def test_a_script_is_a_pool_of_four_and_runs_once_unless_it_says_otherwise(script: Write, tmp_path: Path) -> None:
    script("careful", "true")
    script("reader", "true", effect="pure", access="read")
    script("writer", "true")
    toolbox = await opened(tmp_path, effects={"writer": EffectClass.IDEMPOTENT})

    careful, reader, writer = toolbox.tools()

    assert (toolbox.sharing, toolbox.size) == (ToolboxSharing.POOL, 4)
    assert (careful.effect, careful.access) == (EffectClass.ONCE, Access.WRITE)
    assert (reader.effect, reader.access) == (EffectClass.PURE, Access.READ)
    assert writer.effect is EffectClass.IDEMPOTENT


async def test_the_script_knows_the_ids_of_its_call(script: Write, tmp_path: Path, context: Any) -> None:
    script("ids", "env | grep -E '^AGENT' | sort")
    toolbox = await opened(tmp_path)

    printed = await toolbox.call(Name("ids"), {}, context)

    assert printed == (
        "AGENTOS_CALL=call_of_a_test_7\nAGENT_AGENT_ID=tester\nAGENT_CALL_ID=call_of_a_test_7\n"
        "AGENT_CONVERSATION_ID=conversation_of_a_test\nAGENT_SESSION_ID=conversation_of_a_test\n"
        "AGENT_TURN_ID=turn_of_a_test_3\n"
    )


async def test_no_key_of_a_provider_reaches_a_script(
    script: Write, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("NOTES_DIR", "notes")
    monkeypatch.setenv("LC_TIME", "C")
    script("env", "env")
    toolbox = await opened(tmp_path, environment=["NOTES_DIR"])

    printed = str(await toolbox.call(Name("env"), {}, context))

    assert "OPENAI_API_KEY" not in printed
    assert "NOTES_DIR=notes\n" in printed
    assert "LC_TIME=C\n" in printed


async def test_a_script_runs_in_the_folder_it_was_given(script: Write, tmp_path: Path, context: Any) -> None:
    script("where", "pwd")
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("where"), {}, context) == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ""),
        ({"empty-result": {"tag": "DoNothing"}}, ""),
        ({"empty-result": {"tag": "AddMessage", "contents": "nothing found"}}, "nothing found"),
    ],
)
async def test_an_empty_output_becomes_what_the_script_declared(
    script: Write, tmp_path: Path, context: Any, more: dict[str, Any], expected: str
) -> None:
    script("quiet", "true", **more)
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("quiet"), {}, context) == expected


@pytest.mark.parametrize("media_type", ["text/csv; charset=utf-8", "application/json", "application/ld+json"])
async def test_an_output_of_a_media_type_that_is_text_is_text(
    script: Write, tmp_path: Path, context: Any, media_type: str
) -> None:
    script("table", "echo '{}'", **{"output-media-type": media_type})
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("table"), {}, context) == "{}\n"


async def test_an_output_of_another_media_type_stays_bytes(script: Write, tmp_path: Path, context: Any) -> None:
    script("picture", "printf '\\211PNG'", **{"output-media-type": "Image/PNG"})
    toolbox = await opened(tmp_path)

    picture = await toolbox.call(Name("picture"), {}, context)

    assert picture == Media("image/png", b"\x89PNG", 4)
    assert render(picture, 1_000).text == "image/png (4 bytes, base64) iVBORw=="


async def test_of_a_picture_that_is_too_large_the_first_bytes_are_kept(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("picture", "head -c 100000 /dev/zero; printf end", **{"output-media-type": "image/png"})
    toolbox = await opened(tmp_path, limits=ProcessLimits(memory_bytes=80_000))

    picture = await toolbox.call(Name("picture"), {}, context)

    assert picture == Media("image/png", bytes(30_000), 100_003)
    assert "the first 30,000 are kept with the call" in render(picture, 1_000).text


@pytest.mark.parametrize(
    ("more", "media_type"), [({}, "application/octet-stream"), ({"output-media-type": "text/plain"}, "text/plain")]
)
async def test_a_text_that_is_no_utf_8_stays_bytes(
    script: Write, tmp_path: Path, context: Any, more: dict[str, str], media_type: str
) -> None:
    script("latin", "printf 'caf\\351'", **more)
    toolbox = await opened(tmp_path)

    assert await toolbox.call(Name("latin"), {}, context) == Media(media_type, b"caf\xe9", 4)


async def test_a_failing_script_says_path_code_and_what_it_printed(script: Write, tmp_path: Path, context: Any) -> None:
    path = script("fail", "echo half; echo broken >&2; exit 3")
    toolbox = await opened(tmp_path)

    failed = await toolbox.call(Name("fail"), {}, context)

    assert failed == Failed(Name("exit"), f"{path} ended with exit code 3\nstderr:\nbroken\nstdout:\nhalf")


async def test_a_script_killed_by_a_signal_is_reported_by_the_signal(
    script: Write, tmp_path: Path, context: Any
) -> None:
    path = script("die", "kill -SEGV $$")
    toolbox = await opened(tmp_path)

    failed = await toolbox.call(Name("die"), {}, context)

    assert failed == Failed(Name("exit"), f"{path} ended with signal SIGSEGV")


async def test_only_executable_files_directly_inside_are_asked(script: Write, tmp_path: Path) -> None:
    path = script("tool", "true")
    (path.parent / "linked").symlink_to(script("behind", "true").rename(tmp_path / "behind"))
    (path.parent / "README").write_text("words")
    (path.parent / "folder").mkdir()
    script(".hidden", "true")

    toolbox = await opened(tmp_path)

    assert [spec.name for spec in toolbox.tools()] == ["behind", "tool"]
    assert toolbox.problems == ()


async def test_single_files_are_tools_too(script: Write, tmp_path: Path) -> None:
    path = script("tool", "true")
    toolbox = ScriptToolbox("box", files=[Path("scripts/tool"), Path("gone")], cwd=tmp_path, prefix="bash_")
    _open.append(toolbox)
    await toolbox.open()

    assert [spec.name for spec in toolbox.tools()] == ["bash_tool"]
    assert toolbox.problems == (ToolboxProblem(str(path.parent.parent / "gone"), "No such file or directory"),)


async def test_a_bad_describe_takes_no_other_script_with_it(script: Write, tmp_path: Path) -> None:
    script("good", "true")
    bad = {
        "garbage": "echo not json",
        "huge": "head -c 300000 /dev/zero",
        "list": "echo []",
        "failing": "echo no >&2; exit 1",
        "slow": "sleep 60",
        "nameless": """echo '{"slug": "two words", "description": "", "args": []}'""",
        "incomplete": """echo '{"slug": "x", "description": "", "args": [{"description": "a"}]}'""",
        "twin": """echo '{"slug": "good", "description": "", "args": []}'""",
        "odd": """echo '{"slug": "o", "description": "", "args": [], "effect": "maybe"}'""",
    }
    for name, body in bad.items():
        path = tmp_path / "scripts" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    for wait_s in (1, 30):  # which is enough for all but one also on a machine that is slow
        toolbox = await opened(tmp_path, describe_limits=DescribeLimits(wait_s=wait_s))
        if sum("did not end" in problem.reason for problem in toolbox.problems) == 1:
            break

    assert [spec.name for spec in toolbox.tools()] == ["good"]
    reasons = {Path(problem.place).name: problem.reason for problem in toolbox.problems}
    assert reasons.keys() == bad.keys()
    assert "describe did not print a description" in reasons["garbage"]
    assert reasons["huge"] == "describe printed 300,000 bytes, over 262,144"
    assert reasons["failing"] == "describe ended with exit code 1: no"
    assert reasons["slow"] == f"describe did not end within {wait_s} s"
    assert "slug 'two words' is no name" in reasons["nameless"]
    assert reasons["incomplete"] == "argument 1: the key 'name' is missing or blank"
    assert reasons["twin"] == f"slug 'good' is already that of {tmp_path / 'scripts' / 'good'}"
    assert "maybe" in reasons["odd"]


async def test_a_missing_directory_is_a_problem_and_takes_no_other_with_it(script: Write, tmp_path: Path) -> None:
    script("tool", "true")
    toolbox = ScriptToolbox("box", directories=[Path("gone"), Path("scripts")], cwd=tmp_path)
    _open.append(toolbox)
    await toolbox.open()

    assert [spec.name for spec in toolbox.tools()] == ["tool"]
    assert problems_of(toolbox) == (
        ToolboxProblem(str(tmp_path / "gone"), "cannot be read: No such file or directory"),
    )


async def test_a_filter_keeps_the_files_whose_name_contains_it(script: Write, tmp_path: Path) -> None:
    script("read_notes", "true")
    script("write_notes", "true")

    toolbox = await opened(tmp_path, filter="read")

    assert [spec.name for spec in toolbox.tools()] == ["read_notes"]


async def test_arguments_that_a_script_does_not_take_any_more_are_refused(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("show", PRINT_ALL, [arg("a"), arg("b", arity="optional")])
    toolbox = await opened(tmp_path)

    failed = await toolbox.call(Name("show"), {"b": 1, "old": 2}, context)

    assert failed == Failed(Name("invalid"), "old is no argument; a is missing; show takes a, b")


async def test_an_override_for_an_unknown_tool_is_an_error(script: Write, tmp_path: Path) -> None:
    script("tool", "true")

    with pytest.raises(ConfigurationError, match="toolbox box: effects names no tool 'toll'"):
        await opened(tmp_path, effects={"toll": EffectClass.PURE})

    (tmp_path / "scripts" / "tool").write_text("#!/bin/sh\nexit 1\n")
    toolbox = await opened(tmp_path, effects={"tool": EffectClass.PURE})
    assert [problem.place for problem in toolbox.problems] == [str(tmp_path / "scripts" / "tool"), "effects.tool"]


async def test_what_no_process_can_be_given_is_refused_by_name(script: Write, tmp_path: Path, context: Any) -> None:
    script("show", PRINT_ALL, [arg("a"), arg("b", "stdin", "optional")])
    toolbox = await opened(tmp_path)

    nul = await toolbox.call(Name("show"), {"a": "x\0y"}, context)
    half = await toolbox.call(Name("show"), {"a": "\ud800"}, context)
    long = await toolbox.call(Name("show"), {"a": "x" * 200_000}, context)
    by_stdin = await toolbox.call(Name("show"), {"a": "", "b": "x\0y" + "z" * 200_000}, context)

    assert nul == Failed(Name("invalid"), "a holds a NUL character, which no process can be given")
    assert half == Failed(Name("invalid"), "a holds half of a surrogate pair, which is no text")
    assert isinstance(long, Failed)
    assert "let it take long text by stdin" in long.text
    assert by_stdin == "<>x\0y" + "z" * 200_000 + "\n"


async def test_closing_gives_back_what_opening_took(script: Write, tmp_path: Path, context: Any) -> None:
    script("tool", "true")
    before = set(os.listdir("/proc/self/fd"))
    toolbox = await opened(tmp_path)
    await toolbox.call(Name("tool"), {}, context)

    await toolbox.close()

    assert set(os.listdir("/proc/self/fd")) == before
    assert toolbox.tools() == []
