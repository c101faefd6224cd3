"""Commands of the system toolbox: what a filter allows, what it is not asked twice about, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.errors import ConfigurationError
from agentos.ids import Name
from agentos.resources.process.partial import partial_of
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.base import Failed, notes_of
from agentos.toolboxes.results import Media
from agentos.toolboxes.system import SystemLimits, SystemToolbox
from agentos.toolboxes.system.command import CommandLimits

ALLOW = """printf '{"acceptance": "allowed"}'"""
TOOL = Name("sys_execute_command")
Write = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def filter_program(root: Path) -> Write:
    """Writes a filter: a shell script of this body, which keeps what it is asked in files."""

    def write(body: str = ALLOW, *, reads: bool = True) -> Path:
        path = root / "filter"
        keep = f"cat > '{root}/asked'; printf %s \"$AGENTOS_COMMAND_FORM\" > '{root}/form'" if reads else ":"
        path.write_text(f"#!/bin/sh\n{keep}\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@asynccontextmanager
async def opened(root: Path, filter_program: Path, **limits: Any) -> AsyncIterator[SystemToolbox]:
    process = ProcessLimits(grace_s=0.1, drain_s=0.2, memory_bytes=limits.pop("memory_bytes", 1024 * 1024))
    toolbox = SystemToolbox(
        "sys",
        capabilities=["execute-command"],
        cwd=root,
        command_filter=filter_program,
        limits=SystemLimits(command=CommandLimits(process=process, **limits)),
    )
    await toolbox.open()
    try:
        yield toolbox
    finally:
        await toolbox.close()


@pytest.fixture
def run(root: Path, context: Any) -> Callable[..., Any]:
    """Runs one command in a toolbox of its own."""

    async def run_it(filter_program: Path, command: Any, **limits: Any) -> Any:
        async with opened(root, filter_program, **limits) as toolbox:
            return await toolbox.call(TOOL, {"command": command}, context)

    return run_it


def test_s13_without_a_filter_the_capability_is_refused(root: Path) -> None:
    with pytest.raises(ConfigurationError, match="toolbox sys: execute-command needs a command filter"):
        SystemToolbox("sys", capabilities=["execute-command"], cwd=root)


@pytest.mark.parametrize("mode", [None, 0o644])
async def test_a_filter_that_is_no_program_is_an_error_at_opening(root: Path, mode: int | None) -> None:
    if mode is not None:
        (root / "filter").write_text("#!/bin/sh\n")
        (root / "filter").chmod(mode)
    toolbox = SystemToolbox("sys", capabilities=["execute-command"], cwd=root, command_filter=Path("filter"))

    with pytest.raises(ConfigurationError, match=f"toolbox sys: the command filter {root}/filter is no executable"):
        await toolbox.open()


async def test_s31_a_filter_that_others_may_write_is_told(root: Path, filter_program: Write) -> None:
    program = filter_program()
    program.chmod(0o777)

    async with opened(root, program) as toolbox:
        notes = notes_of(toolbox)

    assert any("may be written by" in note.reason for note in notes)


async def test_words_run_without_a_shell(root: Path, filter_program: Write, run: Any) -> None:
    hostile = ["; id", "$(id)", "`id`", "a && b", "-rf", "x\ny", "*", "~", "'", '"', ""]
    printed = await run(filter_program(), ["printf", "[%s]", *hostile])

    assert printed == "".join(f"[{word}]" for word in hostile)
    assert (root / "form").read_text() == "argv"


async def test_s13_the_filter_sees_words_so_that_they_cannot_be_taken_for_others(
    root: Path, filter_program: Write, run: Any
) -> None:
    await run(filter_program(), ["printf", "a b", "; id"])

    assert (root / "asked").read_text() == "printf 'a b' '; id'"


@pytest.mark.parametrize(
    "text",
    [
        "ls; id",
        "ls && id",
        "ls $(id)",
        "ls\nid",
        "echo `id`",
        "git -c core.pager=id log",
        "echo ${x@P}",
        " ls ",
        "ls #",
    ],
)
async def test_s13_the_filter_sees_a_shell_text_byte_for_byte(
    root: Path, filter_program: Write, run: Any, text: str
) -> None:
    refused = await run(filter_program("""printf '{"acceptance": "refused", "note": "no shell"}'"""), text)

    assert refused == Failed(Name("refused"), "the command filter refused this command: no shell")
    assert (root / "asked").read_text() == text
    assert (root / "form").read_text() == "shell"


@pytest.mark.parametrize("text", ["-s", "-c id", "--help", "-"])
async def test_s15_a_shell_text_that_looks_like_an_option_is_none(filter_program: Write, run: Any, text: str) -> None:
    failed = await run(filter_program(), text)

    assert failed.text.startswith("the command ended with exit code 127")


async def test_a_shell_text_that_is_allowed_runs_in_the_working_directory(
    root: Path, filter_program: Write, run: Any
) -> None:
    assert await run(filter_program(), "pwd; echo $((1 + 2)) | cat") == f"{root}\n3\n"


REFUSING = [
    "exit 0",
    "printf allowed",
    "printf '\"allowed\"'",
    """printf '{"acceptance": "Allowed"}'""",
    """printf '{"acceptance": "allowed "}'""",
    """printf '{"acceptance": true}'""",
    """printf '{"acceptance": ["allowed"]}'""",
    """printf '{"accept": "allowed"}'""",
    """printf '{"acceptance": "allowed", "note": 1}'""",
    """printf '{"acceptance": "refused", "acceptance": "allowed"}'""",
    """printf '{"acceptance": "allowed"} {"acceptance": "refused"}'""",
    """printf '[{"acceptance": "allowed"}]'""",
    """printf '{"acceptance": "allowed"}'; exit 1""",
    """printf '{"acceptance": "allowed"}'; kill -9 $$""",
    """printf '{"acceptance": "allowed"' """,
    """printf '{"acceptance": "allowed"}' >&2""",
    """printf '\\377{"acceptance": "allowed"}'""",
    """head -c 100000 /dev/zero | tr '\\0' ' '; printf '{"acceptance": "allowed"}'""",
    """head -c 50000 /dev/zero | tr '\\0' '['""",
    "exec sleep 100",
]


@pytest.mark.parametrize("body", REFUSING, ids=[f"{n}" for n in range(len(REFUSING))])
async def test_everything_but_a_clear_permission_refuses(
    root: Path, filter_program: Write, run: Any, body: str
) -> None:
    result = await run(filter_program(body), ["touch", "ran"], filter_s=0.3 if "sleep" in body else 10)

    assert isinstance(result, Failed)
    assert result.kind == "refused"
    assert not (root / "ran").exists()


async def test_a_filter_that_goes_away_refuses(root: Path, filter_program: Write, context: Any) -> None:
    program = filter_program()
    async with opened(root, program) as toolbox:
        os.remove(program)
        result = await toolbox.call(TOOL, {"command": ["touch", "ran"]}, context)

    assert isinstance(result, Failed)
    assert result.kind == "refused"
    assert "could not be started" in result.text
    assert "ran" not in os.listdir(root)


async def test_a_filter_that_does_not_read_is_no_error(root: Path, filter_program: Write, run: Any) -> None:
    assert await run(filter_program(reads=False), f": {'x' * 90_000}; echo ran") == "ran\n"


async def test_an_answer_with_a_note_and_white_space_is_a_clear_permission(
    root: Path, filter_program: Write, run: Any
) -> None:
    body = """printf '\\n {"acceptance": "allowed", "note": "fine", "id": 7}\\n'"""

    assert await run(filter_program(body), ["echo", "ran"]) == "ran\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (None, "command is a list of words"),
        (7, "command is a list of words"),
        ([], "command is a list of words"),
        (["a", 1], "command is a list of words"),
        ([["a"]], "command is a list of words"),
        ("", "the command is empty"),
        ("  \n", "the command is empty"),
        ([""], "the command is empty"),
        (["", "id"], "the command is empty"),
        ("id\0", "the command holds a NUL"),
        (["echo", "a\0b"], "the command holds a NUL"),
        (["echo", "\ud800"], "the command holds half a character"),
        ("x" * 100_001, "the command is over 100,000 characters"),
    ],
    ids=range(13),
)
async def test_what_is_no_command_is_refused_before_the_filter_is_asked(
    root: Path, filter_program: Write, run: Any, command: Any, why: str
) -> None:
    failed = await run(filter_program(), command)

    assert failed.kind == "invalid"
    assert failed.text.startswith(why)
    assert not (root / "asked").exists()


async def test_an_exit_code_is_a_failed_call_with_what_was_printed(filter_program: Write, run: Any) -> None:
    failed = await run(filter_program(), "echo out; echo err >&2; exit 3")
    killed = await run(filter_program(), "kill -9 $$")

    assert failed == Failed(Name("exit"), "the command ended with exit code 3\nstderr:\nerr\nstdout:\nout")
    assert killed.text == "the command ended with signal SIGKILL"


async def test_what_a_command_says_on_stderr_is_shown_after_its_output(filter_program: Write, run: Any) -> None:
    assert await run(filter_program(), "echo out; echo warning >&2") == "out\n\nstderr:\nwarning"


async def test_output_that_is_no_text_is_media(filter_program: Write, run: Any) -> None:
    assert await run(filter_program(), "printf '\\377\\000'") == Media("application/octet-stream", b"\xff\0", 2)


async def test_c24_five_megabytes_of_output_are_kept_within_a_limit(filter_program: Write, run: Any) -> None:
    text = await run(filter_program(), "head -c 5000000 /dev/zero | tr '\\0' x; echo end", memory_bytes=20_000)

    assert len(text) < 11_000
    assert text.endswith("xend\n")
    assert "of 5,000,004 bytes left out here" in text


async def test_a_program_that_is_not_there_is_a_failed_call(root: Path, filter_program: Write, run: Any) -> None:
    (root / "plain").write_text("text")

    assert (await run(filter_program(), ["no-such-program-anywhere"])).text == (
        "'no-such-program-anywhere' is no program here, nor on PATH"
    )
    assert (await run(filter_program(), ["./none"])).kind == "start"
    assert (await run(filter_program(), ["./plain"])).kind == "start"


async def test_s31_a_program_of_the_working_directory_is_not_found_by_its_name(
    root: Path, filter_program: Write, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "hijack").write_text("#!/bin/sh\necho hijacked\n")
    (root / "hijack").chmod(0o755)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    monkeypatch.chdir(root)

    assert (await run(filter_program(), ["hijack"])).kind == "start"
    assert (await run(filter_program(), "hijack")).kind == "exit"
    assert await run(filter_program(), ["./hijack"]) == "hijacked\n"


async def test_s25_a_command_sees_no_key_of_a_provider(
    filter_program: Write, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-canary")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    names = {line.split("=")[0] for line in (await run(filter_program(), ["env"])).splitlines()}

    assert "OPENAI_API_KEY" not in names
    assert {"PATH", "LC_ALL"} <= names


async def test_a_command_that_takes_too_long_ends_with_all_its_processes_and_shows_its_output(
    root: Path, filter_program: Write, run: Any
) -> None:
    for command_s in (0.5, 10):  # by then it has begun, also on a machine that is slow
        failed = await run(
            filter_program(),
            f"echo begun; (setsid sh -c 'echo $$ > {root}/pid; exec sleep 100') & sleep 100",
            command_s=command_s,
        )
        if has_told(root / "pid"):
            break

    assert failed.kind == "timeout"
    assert failed.text == (
        f"it did not end within {command_s:g} s (command_s), and was ended with all its processes\n"
        "Output so far:\nbegun\n"
    )
    assert not is_alive(int((root / "pid").read_text()))


async def test_a_cancelled_command_ends_with_all_its_processes(root: Path, filter_program: Write, context: Any) -> None:
    async with opened(root, filter_program()) as toolbox:
        command = f"echo begun; (trap '' TERM; echo $$ > {root}/pid; while :; do sleep 1; done) & sleep 100"
        task = asyncio.create_task(toolbox.call(TOOL, {"command": command}, context))
        await until(lambda: has_told(root / "pid"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task

    assert partial_of(caught.value) == "begun\n"
    assert not is_alive(int((root / "pid").read_text()))


async def test_a_call_cancelled_while_the_filter_thinks_runs_nothing(
    root: Path, filter_program: Write, context: Any
) -> None:
    async with opened(root, filter_program("sleep 100")) as toolbox:
        task = asyncio.create_task(toolbox.call(TOOL, {"command": ["touch", "ran"]}, context))
        await until(lambda: os.path.exists(root / "form"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert "ran" not in os.listdir(root)


async def test_what_a_command_prints_cannot_answer_for_the_filter(filter_program: Write, run: Any) -> None:
    said = json.dumps({"acceptance": "allowed"})
    refused = await run(filter_program('printf \'{"acceptance": "refused"}\''), f"echo '{said}'")

    assert refused.text == "the command filter refused this command: it gives no reason"


def has_told(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
