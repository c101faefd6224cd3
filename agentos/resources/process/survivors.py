"""Finds processes in the system's table; run as a program, it ends those that outlive the kernel which started them.

A process can change its session, its group and its environment, and lose its parent. Its resource limits it has from
whoever began it, and a hard limit can be lowered but, without privileges, never raised. So the first process of a family
is given a *tag*: a number of its own as the limit RTTIME, which bounds nothing at that height (it counts microseconds of
real-time scheduling; the least tag is 12 days). All that descends from it carries the tag, dead ones too until they are
reaped.

As a program it is the warden of one kernel (see `warden`), by an interpreter that loads no site: so it imports nothing of
this package. It sleeps until the process that is named by its argument has ended; then it reads its stdin, a file in which
that process kept a record of each family.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TERM_S = 1.0
"""Between SIGTERM and SIGKILL. Who would have waited for something better is dead."""
KILL_S = 10.0
"""How long SIGKILL is sent again."""
RECORD = struct.Struct("<QQ")
"""A tag, and the number of the first process; a tag of 0 stands for none."""
_POLL_S = 0.02
_PARENT_S = 0.5
"""How often it looks whether the kernel lives, where the system does not tell."""
_UNSEEN = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Why a table cannot be looked into now, which says nothing of what stands there."""


class Process(NamedTuple):
    """One process at one time: a pid alone may soon be another's. started is in clock ticks since boot."""

    pid: int
    started: int


class Stat(NamedTuple):
    """state is one letter, Z and X for one that has ended."""

    process: Process
    state: str
    group: int
    session: int


def stat_of(pid: int) -> Stat | None:
    """None when there is no such process any more. Like all that looks, it raises OSError when no descriptor is left."""
    line = _read(f"/proc/{pid}/stat")
    if not line:
        return None
    fields = line[line.rindex(b")") + 2 :].split()
    return Stat(Process(pid, int(fields[19])), fields[0].decode(), int(fields[2]), int(fields[3]))


def children_of(pid: int) -> list[int]:
    """Those that have ended too, until they are reaped; none where the system does not tell."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        if error.errno in _UNSEEN:
            raise
        return []
    return [child for thread in threads for child in children_of_thread(pid, int(thread))]


def children_of_thread(pid: int, thread: int) -> list[int]:
    """Orphans that a process adopts go to its first thread. Where one of them ends meanwhile the system leaves out others:
    so it is asked twice."""
    path = f"/proc/{pid}/task/{thread}/children"
    return [int(child) for child in dict.fromkeys(_read(path).split() + _read(path).split())]


def tag_of(pid: int) -> int | None:
    """The tag that a process cannot shed; None when it has none, or is gone."""
    hard = _rttime_of(pid)[1:2]
    return int(hard[0]) if hard and hard[0].isdigit() else None


def tags_of(pid: int) -> list[int]:
    """That one, and the one that it was born with, which it has alone until the other is put on it."""
    return [int(limit) for limit in _rttime_of(pid) if limit.isdigit()]


def _rttime_of(pid: int) -> list[bytes]:
    """The soft and the hard limit."""
    return _read(f"/proc/{pid}/limits").partition(b"Max realtime timeout")[2].split(None, 2)[:2]


def is_still(process: Process) -> bool:
    """Whether its number is still its own: it lives, or nobody has taken its exit status."""
    stat = stat_of(process.pid)
    return stat is not None and stat.process == process


def send(process: Process, number: signal.Signals) -> None:
    """Signals a process if it still is the one that was seen. Raises PermissionError when it is of another user."""
    try:
        _send_held(process, number)
    except (AttributeError, OSError):  # not on this system, gone, or but one descriptor is left
        if is_still(process):
            os.kill(process.pid, number)


def members(leaders: Mapping[int, int], *, by_session: bool) -> set[Process]:
    """The living ones of all families, whose first processes are given by tag. by_session: whether those too that are in
    the session or group of one of these; once all may have ended, their numbers may be another's."""
    numbers = set(leaders.values()) if by_session else set()
    found = set()
    for pid in _every_pid():
        stat = stat_of(pid)
        if stat is None or stat.state in "ZX" or pid == os.getpid():
            continue
        if stat.session in numbers or stat.group in numbers or tag_of(pid) in leaders:
            found.add(stat.process)
    return found


def end_all(leaders: Mapping[int, int]) -> None:
    """SIGTERM, a moment, and SIGKILL until none is left."""
    if not os.path.isdir("/proc/self"):
        _end_groups(leaders.values())
        return
    left = members(leaders, by_session=True)
    _send_all(left, signal.SIGTERM)
    begun = time.monotonic()
    while left and (waited_s := time.monotonic() - begun) < TERM_S + KILL_S:
        time.sleep(_POLL_S)
        left = {one for one in left if _lives(one)} | members(leaders, by_session=False)
        if waited_s >= TERM_S:
            _send_all(left, signal.SIGKILL)


def _lives(process: Process) -> bool:
    stat = stat_of(process.pid)
    return stat is not None and stat.process == process and stat.state not in "ZX"


def _every_pid() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(path: str) -> bytes:
    """Empty when there is no such process any more, or no such table."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        if error.errno in _UNSEEN:
            raise
        return b""


def _send_held(process: Process, number: signal.Signals) -> None:
    """While it is held, its number cannot become another's between the look and the signal."""
    held = os.pidfd_open(process.pid)
    try:
        if is_still(process):
            signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def _send_all(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            send(process, number)
        except (ProcessLookupError, PermissionError):  # gone, or of another user: nothing that can be done here
            continue


def _end_groups(leaders: Iterable[int]) -> None:
    """Where the system has no table to read, the groups are what is known."""
    for leader in leaders:
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _wait_for_the_end_of(parent: int) -> None:
    try:
        end = os.pidfd_open(parent)
    except (AttributeError, OSError):  # the system has no such thing, or it has ended
        end = None
    while os.getppid() == parent:
        if end is None:
            time.sleep(_PARENT_S)
        elif select.select([end], [], [])[0]:
            return


def _recorded() -> dict[int, int]:
    records = RECORD.iter_unpack(os.pread(0, os.fstat(0).st_size, 0))
    return {tag: leader for tag, leader in records if tag}


def main() -> None:
    """It lives as long as the kernel, whoever asks all processes of a service or a terminal to end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _wait_for_the_end_of(int(sys.argv[1]))
    leaders, begun = _recorded(), time.monotonic()
    while time.monotonic() - begun < KILL_S:
        try:
            end_all(leaders)
            return
        except OSError:  # the system has no descriptor left to look with
            time.sleep(_POLL_S)


if __name__ == "__main__":
    main()
