"""Finds and ends the processes that a call leaves behind.

A script's own session is one process group, which one signal reaches. A grandchild that made a session of its own is
found in three ways: by its parent, as long as that lives; else among our own children, because on Linux this process
adopts its orphaned descendants while a `Keeper` is open; and there by the mark that every process of a call inherits
in its environment. A descendant that first loses its parent and then its environment is not found.

Adopted processes that end by themselves have to be reaped by us, but a dead process tells nothing of where it came
from. `dead_orphans` takes those for a call's own that began after it, in a session that nobody here made.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

_log = logging.getLogger(__name__)
MARK = "AGENTOS_CALL"
"""The environment variable that marks every process of a call with the call's key."""

leaders: set[int] = set()
"""The first processes of all running calls: our children too, but nobody's orphans."""

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class Process(NamedTuple):
    """One process at one time: a pid alone may soon be another's. started is in clock ticks since boot."""

    pid: int
    started: int


class _Stat(NamedTuple):
    process: Process
    state: str
    group: int
    session: int


class Keeper:
    """While at least one is open, this process adopts orphaned descendants, where the system knows how."""

    _open = 0
    _before = 0

    def __init__(self) -> None:
        if Keeper._open == 0:
            Keeper._before = _subreaper()
            _set_subreaper(1)
        Keeper._open += 1
        self._closed = False

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        Keeper._open -= 1
        if Keeper._open == 0:
            _set_subreaper(Keeper._before)


def left_behind(leader: int, mark: str, seen: Set[Process]) -> set[Process]:
    """Living processes that belong to the call whose first process is leader, but for that process itself.

    seen are those found before, whose signs may be gone by now. Reaps those that have ended and are ours to reap.
    """
    if not _HAS_CHILDREN_FILE:
        return set()
    found: set[Process] = set()
    adopted = (pid for pid in _listed(os.getpid(), os.getpid()) if pid not in leaders and _belongs(pid, leader, mark))
    waiting = [*_children(leader), *adopted, *(process.pid for process in seen if _still(process))]
    while waiting:
        pid = waiting.pop()
        stat = _stat(pid)
        if stat is None or pid == leader or stat.process in found:
            continue
        if stat.state in "ZX":
            reap(pid)
        else:
            found.add(stat.process)
            waiting.extend(_children(pid))
    return found


def dead_orphans(leader: int) -> set[Process]:
    """Dead children of ours that began during a call and outside our session. Not for sure the call's: code of this
    process may have started them in sessions of their own, and be about to take their exit status."""
    began = _stat(leader)
    if began is None or not _HAS_CHILDREN_FILE:
        return set()
    own = os.getsid(0)
    stats = [_stat(pid) for pid in _listed(os.getpid(), os.getpid()) if pid not in leaders]
    return {
        stat.process
        for stat in stats
        if stat is not None
        and stat.state == "Z"
        and stat.session != own
        and stat.process.started >= began.process.started
    }


def living_below() -> set[Process]:
    """All living processes below this one, adopted ones too; empty where the system does not tell."""
    found: set[Process] = set()
    waiting = _children(os.getpid()) if _HAS_CHILDREN_FILE else []
    while waiting:
        stat = _stat(waiting.pop())
        if stat is not None and stat.state not in "ZX" and stat.process not in found:
            found.add(stat.process)
            waiting.extend(_children(stat.process.pid))
    return found


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signals the group that leader began. Call it before leader is reaped, while the number is still its own."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return
    except PermissionError:
        _log.warning("process group %d has members of another user, which cannot be ended", leader)


def signal_process(process: Process, number: signal.Signals, *, but_group: int) -> None:
    """Signals a process if it still is the one that was seen, unless it is in the group, which has its signal."""
    stat = _stat(process.pid)
    if stat is None or stat.process != process or stat.group == but_group:
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        _log.warning("process %d belongs to another user and cannot be ended", process.pid)


def reap_if_still(process: Process) -> None:
    if _still(process):
        reap(process.pid)


def reap(pid: int) -> None:
    """Takes the exit status of an adopted process that has ended; nothing when it is not ours or still lives."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _belongs(pid: int, leader: int, mark: str) -> bool:
    stat = _stat(pid)
    return stat is not None and (leader in (stat.session, stat.group) or _marked(pid, mark))


def _still(process: Process) -> bool:
    stat = _stat(process.pid)
    return stat is not None and stat.process == process


def _marked(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [child for thread in threads for child in _listed(pid, int(thread))]


def _listed(pid: int, thread: int) -> list[int]:
    """Children of one thread. Orphans that a process adopts go to its first thread."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split()]
    except OSError:
        return []


def _stat(pid: int) -> _Stat | None:
    """None when there is no such process any more."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    return _Stat(Process(pid, int(fields[19])), fields[0].decode(), int(fields[2]), int(fields[3]))


def _subreaper() -> int:
    value = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return value.value


def _set_subreaper(value: int) -> None:
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, value, 0, 0, 0):
        _log.warning("orphans of scripts are not adopted: %s", os.strerror(ctypes.get_errno()))
