"""A whole process ends while it has resources: by Ctrl-C, which ends all in order, or by kill -9, which ends nothing."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentos.interfaces.cli.errors import Exit
from agentos.kernel import open as open_kernel
from agentos.resources.folders.held import PREFIX
from agentos.testing.leaks import leak_meter
from agentos.testing.rounds import place
from tests.endings.kinds import KINDS, OTHERS, PROCESSES, Here, nothing
from tests.endings.outside import Outside, outside, sockets_in
from tests.endings.program import STORE, furnish
from tests.support import results

FOLDERS = ("sandbox", "tempdir")
"""Kinds that make a folder of their own."""
PROJECT = """
store = "sqlite:///endings.db"
[agents]
files = ["main.yaml"]
[toolboxes.box]
kind = "python"
path = "box.py"
[toolboxes.db]
kind = "sqlite"
path = "rounds.db"
"""
AGENT = "slug: main\nmodel: direct\ntoolboxes: [box, db]\n"
BOX = """
from pathlib import Path

from tests.endings.kinds import Here, device, user
from tests.endings.program import hold

use = user(Here(Path("."), {url!r}), hold)
"""


@asynccontextmanager
async def workshop(folder: Path) -> AsyncIterator[Here]:
    """Where processes are started; what is still there of them after the block is a leak."""
    async with leak_meter(), place(folder) as at:
        yield Here(at.folder, at.url)


@asynccontextmanager
async def held(here: Here, *kinds: str) -> AsyncIterator[Outside]:
    """A process that has these kinds now."""
    async with outside("-m", "tests.endings.program", str(here.folder), here.url, *kinds) as running:
        await running.until_held(kinds)
        yield running


@pytest.mark.parametrize("kinds", [OTHERS, *([kind] for kind in PROCESSES)], ids=" ".join)
async def test_ctrl_c_gives_everything_back(kinds: list[str], tmp_path: Path) -> None:
    async with workshop(tmp_path) as here, held(here, *kinds) as running:
        before = bool(running.below), len(sockets_in(here.folder))
        running.press_ctrl_c()
        code, said = await running.ended()

        assert before == (kinds != OTHERS, 1)
        assert (code, "KeyboardInterrupt" in said) == (-signal.SIGINT, True)
        await running.until_nothing_runs_below()
        assert sockets_in(here.folder) == []


async def test_after_kill_9_its_processes_end_and_another_kernel_serves_what_was_open(tmp_path: Path) -> None:
    async with workshop(tmp_path) as here:
        async with held(here, *KINDS) as running:
            running.kill()
            code, said = await running.ended()

            assert (code, said) == (-signal.SIGKILL, "")
            assert len(running.below) >= len(PROCESSES)
            await running.until_nothing_runs_below()
        left = left_in(tempfile.gettempdir())
        async with open_kernel(f"sqlite:///{here.folder / STORE}", control=True) as kernel:
            await furnish(kernel, here, nothing)
            (conversation,) = await kernel.recover()
            await kernel.outcome(conversation.id)
            served = await results(conversation)

        assert sorted(said for said in served if said[0] != "lost") == sorted(
            ("done", f"used {kind}") for kind in KINDS
        )
        assert sockets_in(here.folder) == []
        assert [path.name.startswith(PREFIX) for path in left].count(True) == len(FOLDERS)
        removed_by_hand(left)


def left_in(folder: str) -> list[Path]:
    return sorted(Path(folder).iterdir())


def removed_by_hand(left: list[Path]) -> None:
    """Folders of a process that was killed are nobody's: they stand under their names until somebody takes them away."""
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


async def test_ctrl_c_in_a_command_that_runs_an_agent_gives_everything_back(tmp_path: Path) -> None:
    async with workshop(tmp_path) as here:
        (here.folder / "agentos.toml").write_text(PROJECT)
        (here.folder / "main.yaml").write_text(AGENT)
        (here.folder / "box.py").write_text(BOX.format(url=here.url))
        said = "\n".join(f"use kind={kind}" for kind in KINDS)
        async with outside("-m", "agentos", "run", "-p", said, cwd=here.folder) as running:
            await running.until_held(list(KINDS))
            running.press_ctrl_c()
            code, told = await running.ended()

            assert (code, "Traceback" in told) == (Exit.INTERRUPTED, False), told
            assert "cancelled(interrupt)" in told
            assert len(running.below) >= len(PROCESSES)
            await running.until_nothing_runs_below()
        assert sockets_in(here.folder) == []
