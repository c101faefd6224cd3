"""Finds and ends the processes that a call leaves behind.

A script's own session is one process group, which one signal reaches. A grandchild that made a session of its own is
found by its parent, as long as that lives; else among our own children, because on Linux this process adopts its orphaned
descendants while a `Keeper` is open. There it is known by the tag that its family was given (see `survivors`), whatever
it did to its session and environment. Where tags do not work, by its session, and by the mark that every process of a
call inherits in its environment: then one that loses all of these is not found.

Adopted processes that end by themselves have to be reaped by us. A dead one keeps its tag; where tags do not work it tells
nothing of where it came from, and `dead_orphans` takes those for a call's own that began after it, in a session that
nobody here made.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

from agentos.resources.process.survivors import (
    Process,
    children_of,
    children_of_thread,
    is_still,
    send,
    stat_of,
    tags_of,
)
from agentos.resources.process.tags import Tag
from agentos.resources.process.warden import WARDEN

_log = logging.getLogger(__name__)
MARK = "AGENTOS_CALL"
"""The environment variable that marks every process of a call with the call's key."""

leaders: set[int] = set()
"""The first processes of all running calls: our children too, but nobody's orphans."""

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
os.register_at_fork(after_in_child=leaders.clear)
_HAS_CHILDREN_FILE = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class Kin(NamedTuple):
    """What the processes of one family have in common: their first process, their tag, and the value of MARK."""

    leader: int
    tag: Tag
    mark: str


class Keeper:
    """While at least one is open, this process adopts orphaned descendants, where the system knows how, and its `Warden`
    is there."""

    _lock = threading.Lock()
    _open: ClassVar[set[Keeper]] = set()
    _before = 0

    def __init__(self) -> None:
        with Keeper._lock:
            if not Keeper._open:
                Keeper._before = _subreaper()
                _set_subreaper(1)
            Keeper._open.add(self)
        WARDEN.hold()

    def close(self) -> None:
        with Keeper._lock:
            if self not in Keeper._open:
                return
            Keeper._open.discard(self)
            if not Keeper._open:
                _set_subreaper(Keeper._before)
        WARDEN.release()

    @classmethod
    def leave_to_parent(cls) -> None:
        """A process that is forked adopts nothing, and those that are open are the parent's."""
        cls._lock, cls._open = threading.Lock(), set()


os.register_at_fork(after_in_child=Keeper.leave_to_parent)


def left_behind(kin: Kin, seen: Set[Process]) -> set[Process]:
    """Living processes of a family, but for its first one.

    seen are those found before, whose signs may be gone by now. Reaps those that have ended and are ours to reap.
    """
    if not _HAS_CHILDREN_FILE:
        return set()
    found: set[Process] = set()
    adopted: set[int] = set()
    waiting = [*children_of(kin.leader), *(process.pid for process in seen if is_still(process))]
    while True:
        _walk(waiting, kin.leader, found)
        # Ours come last, and again: one whose parent has just ended is not among that one's children any more.
        waiting = [pid for pid in _own_children() if pid not in adopted and _belongs(pid, kin)]
        if not waiting:
            return found
        adopted.update(waiting)


def _walk(waiting: list[int], leader: int, found: set[Process]) -> None:
    """Finds the living ones of these and all below them, but for the leader; reaps the others, where they are ours."""
    while waiting:
        pid = waiting.pop()
        stat = stat_of(pid)
        if stat is None or pid == leader or stat.process in found:
            continue
        if stat.state in "ZX":
            reap(pid)
        else:
            found.add(stat.process)
            waiting.extend(children_of(pid))


def dead_orphans(kin: Kin) -> set[Process]:
    """Dead children of ours that began during a call and outside our session, where no tag tells whose they are. Not for
    sure the call's: code of this process may have started them in sessions of their own, and be about to take their exit
    status."""
    if kin.tag.works or not _HAS_CHILDREN_FILE:
        return set()
    try:
        return _dead_since(kin.leader)
    except OSError as error:  # no descriptor is left: they are not reaped
        _log.debug("dead orphans of process %d cannot be seen now: %s", kin.leader, error)
        return set()


def _dead_since(leader: int) -> set[Process]:
    began = stat_of(leader)
    if began is None:
        return set()
    own = os.getsid(0)
    stats = [stat_of(pid) for pid in _own_children()]
    return {
        stat.process
        for stat in stats
        if stat is not None
        and stat.state == "Z"
        and stat.session != own
        and stat.process.started >= began.process.started
    }


def living_below() -> set[Process]:
    """All living processes below this one, adopted ones too, but for the warden; empty where the system does not tell."""
    found: set[Process] = set()
    waiting = [pid for pid in children_of(os.getpid()) if pid != WARDEN.pid]
    while waiting:
        stat = stat_of(waiting.pop())
        if stat is not None and stat.state not in "ZX" and stat.process not in found:
            found.add(stat.process)
            waiting.extend(children_of(stat.process.pid))
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
    try:
        stat = stat_of(process.pid)
        if stat is not None and stat.group != but_group:
            send(process, number)
    except ProcessLookupError:
        return
    except PermissionError:
        _log.warning("process %d belongs to another user and cannot be ended", process.pid)
    except OSError as error:  # no descriptor is left to look at it: whoever ends it tries again
        _log.debug("process %d is not signalled now: %s", process.pid, error)


def reap_if_still(process: Process) -> None:
    with suppress(OSError):  # no descriptor is left to look at it
        if is_still(process):
            reap(process.pid)


def reap(pid: int) -> None:
    """Takes the exit status of an adopted process that has ended; nothing when it is not ours or still lives."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _own_children() -> list[int]:
    """Of our first thread, which orphans come to. What begins a family, and the warden, is nobody's orphan."""
    return [pid for pid in children_of_thread(os.getpid(), os.getpid()) if pid not in leaders and pid != WARDEN.pid]


def _belongs(pid: int, kin: Kin) -> bool:
    """The tag says it, either way, for all that has one of ours: an orphan of a family may bear the mark of another."""
    tags = [tag for tag in tags_of(pid) if tag == kin.tag.number or WARDEN.knows(tag)]
    if tags:
        return kin.tag.number in tags
    stat = stat_of(pid)
    return stat is not None and (kin.leader in (stat.session, stat.group) or _marked(pid, kin.mark))


def _marked(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0")


def _subreaper() -> int:
    value = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return value.value


def _set_subreaper(value: int) -> None:
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, value, 0, 0, 0):
        _log.warning("orphans of scripts are not adopted: %s", os.strerror(ctypes.get_errno()))
