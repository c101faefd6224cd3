"""What outlives a kernel that is killed: a process of our own that waits for our end, and ends all families that are left.

Nothing can be done any more by a process that gets SIGKILL, and what it started goes on: a script that was asked for, a
server that does not notice the end of its stdin. So there is one more process beside a kernel that starts any. It sleeps
until this process has ended, and finds the families in a file without a name that both have open: who lives costs one
write, and wakes nobody. Its program is `survivors`.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from agentos.resources.process import survivors
from agentos.resources.process.survivors import RECORD, children_of

_log = logging.getLogger(__name__)
_TAG_MIN, _TAG_MAX = 2**40, 2**62
"""Microseconds: 12 days, and what every system takes."""
_LIMIT: int | None = getattr(resource, "RLIMIT_RTTIME", None)


class Tag(NamedTuple):
    """What the processes of one family carry, if works; else a name for the family alone."""

    number: int
    works: bool


class Warden:
    """Runs while somebody holds it, or a family lives. One serves all event loops and threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._holders = 0
        self._places: dict[int, int] = {}
        """Of the records, by tag."""
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
            self._leave_to_parent()
            self._holders = max(0, self._holders - 1)
            self._end_unless_needed()

    def follow(self, leader: int) -> Tag:
        """Gives a family its tag, and records it. Call `forget` when nothing is left of it."""
        number = _new_tag()
        works = _put(number, leader)
        with self._lock:
            self._there()
            place = self._free.pop() if self._free else len(self._places)
            self._places[number] = place
            self._record(place, number, leader)
        return Tag(number, works)

    def forget(self, tag: Tag) -> None:
        with self._lock:
            self._leave_to_parent()
            place = self._places.pop(tag.number, None)
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
        self._leave_to_parent()
        try:
            if self._table is None:
                self._table = _file_without_a_name()
            if self._process is None or self._process.poll() is not None:
                self._process = _started(self._table)
        except OSError as error:
            _log.warning("no warden: families of processes will outlive this one if it is killed: %s", error)

    def _leave_to_parent(self) -> None:
        """In a process that was forked from one with a warden: that is the parent's, as its families are."""
        if self._owner != os.getpid():
            self._owner, self._holders, self._places, self._free = os.getpid(), 0, {}, []
            self._table = self._process = None

    def _record(self, place: int, tag: int, leader: int) -> None:
        if self._table is not None:
            os.pwrite(self._table.fileno(), RECORD.pack(tag, leader), place * RECORD.size)

    def _end_unless_needed(self) -> None:
        if self._holders or self._places:
            return
        if self._process is not None:  # it holds nothing that it would have to put in order
            self._process.kill()
            self._process.wait()
        if self._table is not None:
            self._table.close()
        self._process, self._table, self._free = None, None, []


WARDEN = Warden()


def _file_without_a_name() -> BinaryIO:
    """In memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("families"), "r+b", buffering=0)
    return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))


def _started(table: BinaryIO) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", "-B", str(Path(survivors.__file__)), str(os.getpid())]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=table, stdout=nowhere, stderr=nowhere, cwd="/", env={}, start_new_session=True)


def _new_tag() -> int:
    """Below the limit that this process has itself: it may belong to the family of another kernel."""
    most = _TAG_MAX
    if _LIMIT is not None and (hard := resource.getrlimit(_LIMIT)[1]) != resource.RLIM_INFINITY:
        most = max(_TAG_MIN + 1, min(hard, most))
    return _TAG_MIN + secrets.randbelow(most - _TAG_MIN)


def _put(tag: int, leader: int) -> bool:
    """On a first process, and on what it may have begun already; whether that is so."""
    if _LIMIT is None or not hasattr(resource, "prlimit"):
        return False
    try:
        resource.prlimit(leader, _LIMIT, (tag, tag))
        for child in children_of(leader):
            resource.prlimit(child, _LIMIT, (tag, tag))
    except (OSError, ValueError) as error:  # such as a program that runs as another user
        _log.debug("process %d has no tag: %s", leader, error)
        return False
    return True
