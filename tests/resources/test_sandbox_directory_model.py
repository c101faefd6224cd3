"""Whatever calls do with a directory, what is counted is what is there, and it stays within its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Callable
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.errors import AgentosError
from agentos.resources.folders.held import HeldFolder
from agentos.resources.kinds.sandbox import SandboxDirectory, SandboxLimits
from agentos.resources.kinds.sandbox.writing import Mode

pytestmark = pytest.mark.usefixtures("no_leaks")
BYTES_MAX, FILES_MAX = 60, 12
PATHS = st.sampled_from(["a", "b", "c/x", "c"])


class Calls:
    """What calls may do, with the files that they leave open. Each does nothing where there is nothing to do it to."""

    def __init__(self) -> None:
        self.box = SandboxDirectory(
            HeldFolder.new(), SandboxLimits(bytes_max=BYTES_MAX, files_max=FILES_MAX, open_max=4)
        )
        self.files: list[BinaryIO] = []
        box = self.box
        self.works: dict[str, Callable[[str, str, int], object]] = {
            "write": lambda path, _, size: box.write(path, b"x" * size),
            "rename": lambda path, other, _: box.rename(path, other),
            "remove": lambda path, *_: box.remove(path),
            "remove a tree": lambda path, *_: box.remove(path, tree=True),
            "make a folder": lambda path, *_: box.make_folder(path),
            "open to read": lambda path, *_: self._open(path, "r"),
            "open to write": lambda path, *_: self._open(path, "w"),
            "open to make": lambda path, *_: self._open(path, "x"),
            "open to append": lambda path, *_: self._open(path, "a"),
            "write to one": self._write,
            "cut one": lambda _, __, size: self.files[-1].truncate(size) if self.files else None,
            "close one": lambda *_: self.files.pop(0).close() if self.files else None,
        }

    def _open(self, path: str, mode: Mode) -> None:
        self.files.append(self.box.open(path, mode))

    def _write(self, path: str, other: str, size: int) -> None:
        for file in self.files[:1]:
            file.seek(size // 2)
            file.write(b"y" * size)

    def held_bytes(self) -> int:
        """Of files that are open and have no name, each once."""
        told = [os.fstat(file.fileno()) for file in self.files]
        return sum({one.st_ino: one.st_size for one in told if not one.st_nlink}.values())


WORKS = [
    *("write", "rename", "remove", "remove a tree", "make a folder"),
    *("open to read", "open to write", "open to make", "open to append", "write to one", "cut one", "close one"),
]
STEPS = st.lists(st.tuples(st.sampled_from(WORKS), PATHS, PATHS, st.integers(0, 40)), min_size=30, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(steps=STEPS)
def test_what_is_counted_is_what_is_there(steps: list[tuple[str, str, str, int]]) -> None:
    calls = Calls()
    try:
        for work, path, other, size in steps:
            with contextlib.suppress(AgentosError, OSError, io.UnsupportedOperation):
                calls.works[work](path, other, size)

            counted = calls.box.usage
            assert counted == calls.box.measure()
            assert counted.bytes + calls.held_bytes() <= BYTES_MAX
            assert counted.files <= FILES_MAX
    finally:
        asyncio.run(calls.box.close())
