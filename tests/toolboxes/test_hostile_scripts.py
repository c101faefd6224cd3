"""Scripts that hang, flood, fork, lie and vanish (faults F24 to F31, case C46). Each test knows the right value."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from agentos.ids import Name
from agentos.resources.process.partial import partial_of
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.base import Failed
from agentos.toolboxes.results import render
from agentos.toolboxes.script import ScriptToolbox
from tests.processes import new_processes, own_children
from tests.support import until

Write = Callable[..., Path]
QUICK = ProcessLimits(drain_s=0.2, grace_s=0.2, leftover_s=0.1, memory_bytes=2 * 1024 * 1024)


@pytest.fixture
def others() -> list[psutil.Process]:
    """What is no business of a test here."""
    return own_children()


@pytest.fixture(autouse=True)
def _nothing_is_left(others: list[psutil.Process]) -> Iterator[None]:
    """No test leaves a process, a zombie or a descriptor."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert new_processes(others) == []
    assert set(os.listdir("/proc/self/fd")) - before == set()


async def opened(folder: Path, limits: ProcessLimits = QUICK, **options: Any) -> ScriptToolbox:
    toolbox = ScriptToolbox("box", directories=[folder / "scripts"], cwd=folder, limits=limits, **options)
    await toolbox.open()
    assert toolbox.problems == ()
    return toolbox


async def run(folder: Path, context: Any, tool: str = "bad") -> object:
    toolbox = await opened(folder)
    try:
        return await toolbox.call(Name(tool), {}, context)
    finally:
        await toolbox.close()


async def timed_out(folder: Path, context: Any, limits: ProcessLimits = QUICK) -> str:
    """What a script had printed whose time is over as soon as it has made the file `ready`."""
    toolbox = await opened(folder, limits)
    try:
        async with asyncio.timeout(60) as deadline:
            watching = asyncio.create_task(end_when_ready(folder / "ready", deadline))
            await toolbox.call(Name("bad"), {}, context)
    except TimeoutError as error:
        await watching
        return partial_of(error)
    finally:
        await toolbox.close()
    raise AssertionError("the call ended before its time")


async def end_when_ready(path: Path, deadline: asyncio.Timeout) -> None:
    while not path.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.005)
    deadline.reschedule(asyncio.get_running_loop().time())


async def test_f24_a_hanging_script_ends_at_its_time_and_tells_what_it_printed(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("bad", "echo so far; touch ready; sleep 1000")

    assert await timed_out(tmp_path, context) == "so far\n"


async def test_f24_a_script_that_ignores_term_is_killed_after_the_grace(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("bad", "trap '' TERM; echo stubborn; touch ready; while :; do sleep 1000; done")
    started = time.monotonic()

    printed = await timed_out(tmp_path, context)

    assert printed == "stubborn\n"
    assert time.monotonic() - started >= QUICK.grace_s


async def test_f24_a_script_that_heeds_term_may_clean_up(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "trap 'echo cleaned > clean; exit' TERM; sleep 1000 & touch ready; wait")

    await timed_out(tmp_path, context, ProcessLimits(grace_s=10))

    assert (tmp_path / "clean").read_text() == "cleaned\n"


async def test_f24_a_second_cancel_does_not_stop_the_clean_up(
    script: Write, tmp_path: Path, context: Any, others: list[psutil.Process]
) -> None:
    script("bad", "trap '' TERM; echo up; while :; do sleep 1000; done")
    toolbox = await opened(tmp_path)
    call = asyncio.create_task(toolbox.call(Name("bad"), {}, context))
    await asyncio.sleep(0.1)

    for _ in range(3):
        call.cancel()
        await asyncio.sleep(0.02)

    with pytest.raises(asyncio.CancelledError):
        await call
    assert new_processes(others) == []
    await toolbox.close()


async def test_f24_a_cancel_scope_that_repeats_itself_waits_for_the_clean_up(
    script: Write, tmp_path: Path, context: Any, others: list[psutil.Process]
) -> None:
    script("bad", "trap '' TERM; echo up; while :; do sleep 1000; done")
    toolbox = await opened(tmp_path)

    with anyio.move_on_after(0.2) as scope:
        await toolbox.call(Name("bad"), {}, context)

    assert scope.cancelled_caught
    assert new_processes(others) == []
    await toolbox.close()


async def test_f25_a_grandchild_that_keeps_the_pipe_holds_nobody_up(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("bad", "sleep 300 & echo hi")
    started = time.monotonic()

    assert await run(tmp_path, context) == "hi\n"
    assert time.monotonic() - started < 200


@pytest.mark.parametrize(
    "body",
    [
        "setsid sleep 60 & echo hi",
        "setsid sleep 60 >/dev/null 2>&1 & echo hi",
        "(setsid sh -c 'sleep 60 & sleep 60' &) & echo hi",
        "setsid sh -c 'trap \"\" TERM; sleep 60' >/dev/null 2>&1 & sleep 0.05; echo hi",
        "setsid setsid setsid sleep 60 & sleep 0.05; echo hi",
    ],
)
async def test_f26_a_grandchild_that_leaves_the_group_is_gone_with_the_call(
    script: Write, tmp_path: Path, context: Any, body: str, others: list[psutil.Process]
) -> None:
    script("bad", body)

    assert await run(tmp_path, context) == "hi\n"
    assert new_processes(others) == []


async def test_f26_a_timeout_ends_grandchildren_of_every_kind(
    script: Write, tmp_path: Path, context: Any, others: list[psutil.Process]
) -> None:
    script(
        "bad",
        "sleep 60 & setsid sleep 60 & (setsid sleep 60 &) ; env -i setsid sleep 60 & echo up; touch ready; sleep 60",
    )

    assert await timed_out(tmp_path, context) == "up\n"
    assert new_processes(others) == []


async def test_f26_processes_of_other_code_are_left_alone(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "setsid sleep 60 & echo hi")
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)

    await run(tmp_path, context)

    assert other.returncode is None
    assert psutil.pid_exists(other.pid)
    other.kill()
    await other.wait()


async def test_f26_one_call_does_not_end_the_processes_of_another(
    script: Write, tmp_path: Path, context: Any, others: list[psutil.Process]
) -> None:
    os.mkfifo(tmp_path / "go")
    script("bad", "setsid sleep 60 & read go < go; echo slow")
    script("fast", "setsid sleep 60 & echo fast")
    toolbox = await opened(tmp_path)
    slow_context = type(context)("call_of_a_test_8")
    slow = asyncio.create_task(toolbox.call(Name("bad"), {}, slow_context))
    await until(lambda: _sleeping(others))
    its = _sleeping(others)

    assert await toolbox.call(Name("fast"), {}, context) == "fast\n"
    assert [process.is_running() for process in its] == [True]
    await asyncio.to_thread((tmp_path / "go").write_text, "\n")
    assert await slow == "slow\n"
    await toolbox.close()


def _sleeping(others: list[psutil.Process]) -> list[psutil.Process]:
    """The new processes that have become `sleep`, as long as none of them ends."""
    return [process for process in new_processes(others) if process.name() == "sleep"]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("body", "total"),
    [
        ("yes | head -c 100000000", 100_000_000),
        ("head -c 100000000 /dev/zero | tr '\\0' x", 100_000_000),
        ("head -c 100000000 /dev/zero | tr '\\0' x >&2; echo done", 5),
    ],
    ids=["many lines", "one line", "stderr"],
)
async def test_f27_memory_is_bounded_however_much_is_printed(
    script: Write, tmp_path: Path, context: Any, body: str, total: int
) -> None:
    script("bad", body)
    limits = ProcessLimits()
    toolbox = await opened(tmp_path, limits)
    before, peak = resident_bytes(), 0
    call = asyncio.create_task(toolbox.call(Name("bad"), {}, context))

    while not call.done():
        peak = max(peak, resident_bytes())
        await asyncio.sleep(0.005)
    printed = str(await call)
    peak = max(peak, resident_bytes())
    await toolbox.close()

    assert peak - before < 2 * limits.memory_bytes
    assert printed == "done\n" if total == 5 else f" of {total:,} bytes left out here ...]" in printed
    assert len(printed) < limits.memory_bytes // 2 + 200


async def test_c24_five_megabytes_are_kept_whole(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "yes | head -c 5000000")
    toolbox = await opened(tmp_path, ProcessLimits())

    printed = str(await toolbox.call(Name("bad"), {}, context))
    await toolbox.close()

    assert len(printed) == 5_000_000


async def test_f27_the_head_and_the_tail_of_a_flood_are_kept(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "echo first; yes ä | head -c 5000000; echo; echo last")

    printed = str(await run(tmp_path, context))

    assert printed.startswith("first\nä\n")
    assert printed.endswith("\nlast\n")
    assert " of 5,000,012 bytes left out here ...]" in printed


async def test_f27_an_endless_flood_ends_at_its_time(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "yes | head -c 3000000; touch ready; yes")

    printed = await timed_out(tmp_path, context)

    assert printed.startswith("y\ny\n")
    assert "bytes left out here" in printed


async def test_f27_a_slow_trickle_arrives_whole(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "for n in 1 2 3 4 5; do printf $n; sleep 0.03; done")

    assert await run(tmp_path, context) == "12345"


async def test_f27_output_only_on_stderr_is_an_empty_result(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "echo aside >&2")

    assert await run(tmp_path, context) == ""


@pytest.mark.parametrize(
    ("printf", "expected"),
    [
        (r"a\377b", "application/octet-stream (3 bytes, base64) Yf9i"),
        (r"a\000b", "a\0b"),
        (r"\033[31mred\033[0m", "\x1b[31mred\x1b[0m"),
        (r"\355\240\200", "application/octet-stream (3 bytes, base64) 7aCA"),
        (r"\357\273\277bom\r\n", "\ufeffbom\r\n"),
    ],
    ids=["invalid UTF-8", "NUL", "ANSI", "surrogate", "BOM and CRLF"],
)
async def test_f28_bytes_of_every_kind_have_a_text(
    script: Write, tmp_path: Path, context: Any, printf: str, expected: str
) -> None:
    script("bad", f"printf '{printf}'")

    assert render(await run(tmp_path, context), 1_000).text == expected


def vanish(path: Path) -> None:
    path.unlink()


def lose_the_right_to_run(path: Path) -> None:
    path.chmod(0o644)


def lose_the_interpreter(path: Path) -> None:
    path.write_text("#!/no/such/interpreter\n")


def lose_the_first_line(path: Path) -> None:
    path.write_text("echo no shebang\n")


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (vanish, "No such file or directory"),
        (lose_the_right_to_run, "Permission denied"),
        (lose_the_interpreter, "the interpreter named in its first line does not exist"),
        (lose_the_first_line, "it is no program, and its first line names no interpreter"),
        (become_a_directory, "it is a directory"),
    ],
)
async def test_f29_a_script_changed_between_listing_and_call_is_a_failed_call(
    script: Write, tmp_path: Path, context: Any, change: Callable[[Path], None], reason: str
) -> None:
    path = script("bad", "echo hi")
    toolbox = await opened(tmp_path)

    change(path)
    failed = await toolbox.call(Name("bad"), {}, context)
    await toolbox.close()

    assert failed == Failed(Name("start"), f"{path} could not be started: {reason}")


async def test_f29_a_script_may_end_before_it_has_read_its_input(script: Write, tmp_path: Path, context: Any) -> None:
    text = {"name": "text", "description": "", "type": "string", "backing_type": "string", "arity": "single"}
    script("bad", "exec 0<&-; echo enough", [{**text, "mode": "stdin"}])
    toolbox = await opened(tmp_path)

    printed = await toolbox.call(Name("bad"), {"text": "x" * 1_000_000}, context)
    await toolbox.close()

    assert printed == "enough\n"


async def test_f30_a_description_that_changed_since_does_not_change_the_tool(
    script: Write, tmp_path: Path, context: Any
) -> None:
    script("bad", "echo old")
    toolbox = await opened(tmp_path)
    (tmp_path / "scripts" / "bad").write_text("#!/bin/sh\necho garbage $1\n")

    printed = await toolbox.call(Name("bad"), {}, context)
    tools = toolbox.tools()
    await toolbox.close()

    assert printed == "garbage run\n"
    assert [spec.name for spec in tools] == ["bad"]


async def test_f31_a_script_runs_without_a_home_and_without_a_path(
    script: Write, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("bad", 'echo "home=${HOME-unset} path=$PATH"')
    monkeypatch.delenv("HOME", raising=False)
    toolbox = await opened(tmp_path)  # describe needs cat, and so a PATH
    monkeypatch.setenv("PATH", "")

    printed = await toolbox.call(Name("bad"), {}, context)
    await toolbox.close()

    assert printed == "home=unset path=\n"


async def test_f31_a_folder_that_is_gone_is_named(script: Write, tmp_path: Path, context: Any) -> None:
    path = script("bad", "echo hi")
    folder = tmp_path / "place"
    folder.mkdir()
    toolbox = ScriptToolbox("box", files=[path], cwd=folder)
    await toolbox.open()
    folder.rmdir()

    failed = await toolbox.call(Name("bad"), {}, context)
    await toolbox.close()

    assert failed == Failed(Name("start"), f"{path} could not be started: the folder it runs in is gone: {folder}")


async def test_f31_a_strict_umask_changes_nothing_for_a_script(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "echo kept > file; cat file; umask")
    before = os.umask(0o077)
    try:
        assert await run(tmp_path, context) == "kept\n0077\n"
    finally:
        os.umask(before)


async def test_f31_python_prints_utf8_in_a_c_locale(
    script: Write, tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("bad", "python3 -c \"print('gr\\u00fc\\u00df \\u2713')\"")
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")

    assert await run(tmp_path, context) == "grüß ✓\n"


async def test_f13_the_loop_lives_while_scripts_run(script: Write, tmp_path: Path, context: Any) -> None:
    script("bad", "yes | head -c 30000000; until [ -e go ]; do sleep 0.01; done")
    toolbox = await opened(tmp_path)
    call = asyncio.create_task(toolbox.call(Name("bad"), {}, context))

    for _ in range(15):
        await asyncio.sleep(0.01)
    went_on = not call.done()
    (tmp_path / "go").touch()
    await call
    await toolbox.close()

    assert went_on
