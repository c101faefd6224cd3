"""What outlives a kernel that is killed: a process of our own that waits for our end, and ends all families that are left.

Nothing can be done any more by a process that gets SIGKILL, and what it started goes on: a script that was asked for, a
server that does not notice the end of its stdin. So there is one more process beside a kernel that starts any. It sleeps
until this process has ended, and finds the families in a file without a name that both have open: who lives costs one
write, and wakes nobody. Its program is `survivors`.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from agentos.resources.process import survivors
from agentos.resources.process.reasons import code_text
from agentos.resources.process.survivors import RECORD
from agentos.resources.process.tags import Tag, born_with, new_tag, put, shed

_log = logging.getLogger(__name__)
_END_S = 5.0
"""How long is waited for the end of a warden that is killed, which takes it milliseconds."""


class Warden:
    """Runs while somebody holds it, or a family lives. One serves all event loops and threads of this process."""

    def __init__(self) -> None:
        self._lock, self._births = threading.Lock(), threading.Lock()
        self._holders = 0
        self._places: dict[int, tuple[int, int]] = {}
        """Of the records, and whom they tell of, by tag."""
        self._free: list[int] = []
        self._table: BinaryIO | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of its process, while that is to run."""
        return self._process.pid if self._process is not None else None

    def hold(self) -> None:
        """Has it ready before the first family begins, and until `release`."""
        with self._lock:
            self._there()
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders = max(0, self._holders - 1)
            self._end_unless_needed()

    @contextmanager
    def birth(self) -> Iterator[Tag]:
        """What is started in the block begins a family: gives its tag, for `follow`. One at a time, in all threads."""
        with self._births, born_with(tag := new_tag()):
            yield tag

    def follow(self, leader: int, tag: Tag) -> Tag:
        """Gives a family the tag that its first process was born with, and records it; works tells whether it carries it.
        Call `forget` when nothing is left of it."""
        tag = put(tag, leader)
        with self._lock:
            self._there()
            place = self._free.pop() if self._free else len(self._places)
            self._places[tag.number] = place, leader
            self._record(place, tag.number, leader)
        return tag

    def forget(self, tag: Tag) -> None:
        with self._lock:
            place, _ = self._places.pop(tag.number, (None, None))
            if place is None:
                return
            self._free.append(place)
            self._record(place, 0, 0)
            self._end_unless_needed()

    def knows(self, number: int) -> bool:
        """Whether it is the tag of a family that lives."""
        return number in self._places

    def _there(self) -> None:
        """Sees to it that the table of families is there, and the process that reads it in the end. What cannot be had now,
        since no descriptor or process is left, is asked for again with the next family."""
        try:
            if self._table is None:
                self._table = _file_without_a_name()
                for number, (place, leader) in self._places.items():
                    self._record(place, number, leader)
            if self._process is not None and (code := self._process.poll()) is not None:
                _log.warning("the warden ended with %s, and is started anew", code_text(code))
                self._process = None
            if self._process is None:
                self._process = _started(self._table)
                shed(self._process.pid)  # it outlives the family of another kernel that this one may belong to
        except OSError as error:
            _log.warning("no warden: families of processes will outlive this one if it is killed: %s", error)

    def leave_to_parent(self) -> None:
        """In a process that was forked from one with a warden: that is the parent's, as its families are."""
        if self._table is not None:
            self._table.close()
        if self._process is not None:
            self._process.returncode = 0  # it is no child of this process, which shall not miss its end
        Warden.__init__(self)

    def _record(self, place: int, tag: int, leader: int) -> None:
        if self._table is None:
            return
        try:
            os.pwrite(self._table.fileno(), RECORD.pack(tag, leader), place * RECORD.size)
        except OSError as error:
            _log.warning(
                "the family of process %d has no record, and outlives a kernel that is killed: %s", leader, error
            )

    def _end_unless_needed(self) -> None:
        if self._holders or self._places:
            return
        if self._process is not None:
            _end(self._process)
        if self._table is not None:
            self._table.close()
        self._process, self._table, self._free = None, None, []


WARDEN = Warden()
os.register_at_fork(after_in_child=WARDEN.leave_to_parent)


def _file_without_a_name() -> BinaryIO:
    """In memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("families"), "r+b", buffering=0)
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))


def _started(table: BinaryIO) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise FileNotFoundError("the interpreter does not know its own path (sys.executable)")
    argv = [sys.executable, "-I", "-S", "-B", str(Path(survivors.__file__)), str(os.getpid())]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=table, stdout=nowhere, stderr=nowhere, cwd="/", env={}, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It holds nothing that it would have to put in order."""
    process.kill()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        _log.error("the warden, process %d, outlives SIGKILL by %g s", process.pid, _END_S)
