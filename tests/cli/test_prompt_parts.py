"""The parts of a prompt: kept in order, read within limits, put into the templates of aliases."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.interfaces.cli.app import make_app
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.prompt.alias import BUILT_IN, Alias, filled, find_alias
from agentos.interfaces.cli.prompt.options import PromptOptions
from agentos.interfaces.cli.prompt.parts import OPTIONS, Part, PartKind, parts_in_order
from agentos.interfaces.cli.prompt.text import PromptText
from tests.cli.support import LIMIT_S

values = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12).filter(lambda text: text != "--")
names = st.sampled_from(sorted(OPTIONS))
others = st.sampled_from(
    [(), ("--json",), ("-a", "helper"), ("--agent-file=x.yaml",), ("--without", "files"), ("7hk587xc",)]
)


def spelled(name: str, value: str, attached: bool) -> list[str]:
    """An option with its value, in one word or in two."""
    if not attached:
        return [name, value]
    short = not name.startswith("--")
    return [f"{name}{value}"] if short and value and not value.startswith("=") else [f"{name}={value}"]


lines = st.lists(st.tuples(names, values, st.booleans(), others), max_size=8)


@given(lines)
def test_parts_stand_in_the_order_of_the_line(line: list[tuple[str, str, bool, tuple[str, ...]]]) -> None:
    words = [word for name, value, attached, other in line for word in (*other, *spelled(name, value, attached))]

    assert parts_in_order(words) == [Part(OPTIONS[name], value) for name, value, _, _ in line]


@given(lines)
def test_the_parser_of_the_command_line_sees_the_same_parts(
    line: list[tuple[str, str, bool, tuple[str, ...]]],
) -> None:
    """Else an order that is read beside it would be that of other words."""
    seen: set[tuple[str, ...]] = set()
    words = ["run"]
    for name, value, attached, other in line:
        words += [*(() if other in seen else other), *spelled(name, value, attached)]
        seen.add(other)  # an id, or an agent, may stand there once

    _, bound, _ = make_app(words).parse_args(words, exit_on_error=False, print_error=False)
    options = bound.kwargs.get("options", PromptOptions())

    assert options._same(parts_in_order(words))


def test_what_stands_behind_two_hyphens_is_no_part() -> None:
    assert parts_in_order(["-p", "one", "--", "-p", "two"]) == [Part(PartKind.TEXT, "one")]


def test_an_option_without_a_value_is_left_to_the_parser() -> None:
    assert parts_in_order(["-p", "one", "--file"]) == [Part(PartKind.TEXT, "one")]


def until_it_is_gone(pid: int) -> None:
    """Also one that has ended, and that nobody has asked for yet, is gone."""
    end = time.monotonic() + LIMIT_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, f"{pid} lives on"
        time.sleep(0.01)


async def built(*parts: tuple[PartKind, str], stdin: bytes = b"", bytes_max: int = 1_000, shell_s: float = 60.0) -> str:
    text = PromptText({**BUILT_IN, "mine": Alias("", "<{{content}}>", "file")}, bytes_max, shell_s)
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")):
        return await text.build([Part(*part) for part in parts])


async def test_parts_are_joined_by_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from a file\n")

    text = await built(
        (PartKind.TEXT, "first"),
        (PartKind.SEP4, "=-"),
        (PartKind.FILE, str(tmp_path / "a.txt")),
        (PartKind.SHELL, "echo one; echo two"),
        (PartKind.SEP40, "+"),
        (PartKind.FILE, "-"),
        stdin=b"from stdin\r\n",
    )

    assert text == f"first\n=-=-=-=-\nfrom a file\none\ntwo\n{'+' * 40}\nfrom stdin"


async def test_without_parts_stdin_is_the_prompt() -> None:
    assert await built(stdin=b"two\nlines\n") == "two\nlines"


async def test_stdin_can_be_read_by_one_part() -> None:
    with pytest.raises(UsageError, match="stdin is read by two parts"):
        await built((PartKind.FILE, "-"), (PartKind.ALIAS, "summarize"), stdin=b"text")


@pytest.mark.parametrize("said", ["", "  ", "\u200b", "\n\t\ufeff"])
async def test_a_blank_prompt_is_refused_before_anybody_is_asked(said: str) -> None:
    with pytest.raises(UsageError, match="blank"):
        await built((PartKind.TEXT, said))


@pytest.mark.parametrize(
    "part", [(PartKind.FILE, "big"), (PartKind.SHELL, "cat big"), (PartKind.SHELL, "yes"), (PartKind.FILE, "-")]
)
async def test_each_source_has_a_limit(
    part: tuple[PartKind, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big").write_text("x" * 1_001)

    with pytest.raises(UsageError, match=r"over 1000 bytes, the limit for a prompt \(input_bytes_max\)"):
        await built(part, stdin=b"y" * 1_001)


async def test_the_whole_has_the_same_limit() -> None:
    with pytest.raises(UsageError, match="the prompt: over 1000 bytes"):
        await built((PartKind.TEXT, "x" * 600), (PartKind.SEP40, "x" * 10))


async def test_a_file_that_is_no_text_names_the_byte(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"abc\xff")

    with pytest.raises(UsageError, match=r"b\.bin: byte 3 is not UTF-8"):
        await built((PartKind.FILE, str(tmp_path / "b.bin")))


async def test_a_command_that_fails_is_no_part() -> None:
    with pytest.raises(UsageError, match="'echo half; exit 3': ended with exit code 3"):
        await built((PartKind.SHELL, "echo half; exit 3"))


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"

    with pytest.raises(UsageError, match=r"not done after 1 s"):
        await built((PartKind.SHELL, f"sleep 600 & echo $! > {child}; wait"), shell_s=1.0)

    await asyncio.to_thread(until_it_is_gone, int(child.read_text()))


async def test_an_alias_wraps_stdin_or_the_file_named_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x.rs"
    path.write_text("fn main() {}\n")

    summed = await built((PartKind.ALIAS, "summarize"), stdin=b"a long story\n")
    explained = await built((PartKind.ALIAS, f"explain={path}"))

    assert summed.endswith("\n\na long story")
    assert "what x.rs does" in explained
    assert "```rust\nfn main() {}\n```" in explained


async def test_an_alias_that_wants_a_file_takes_the_one_behind_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A")

    text = await built(
        (PartKind.ALIAS, "mine"), (PartKind.FILE, str(tmp_path / "a")), (PartKind.FILE, str(tmp_path / "a"))
    )
    piped = await built((PartKind.ALIAS, "mine"), (PartKind.TEXT, "next"), stdin=b"S")
    other = await built((PartKind.ALIAS, "summarize"), (PartKind.FILE, str(tmp_path / "a")), stdin=b"S")

    assert (text, piped) == ("<A>\nA", "<S>\nnext")
    assert other.endswith("\n\nS\nA")


def test_an_unknown_alias_is_told_with_the_nearest_and_all() -> None:
    with pytest.raises(UsageError, match=r"no alias 'sumarize'\. Did you mean summarize\? There are:\n  code-review: "):
        find_alias(BUILT_IN, "sumarize")


@given(st.text(), st.sampled_from(["a/b/main.PY", "notes", ".hidden", "x.tar.gz", None]))
def test_what_a_content_says_of_places_stays_as_it_is(content: str, file: str | None) -> None:
    alias = Alias("", "{{filename}}|{{language}}|{{content}}|{{other}}", "file")
    name = "" if file is None else file.rpartition("/")[2]

    text = filled(alias, content + "{{filename}}", file)

    assert text == f"{name}|{'python' if name == 'main.PY' else ''}|{content}{{{{filename}}}}|{{{{other}}}}"
