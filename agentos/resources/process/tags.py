"""How a family gets its tag: see `survivors` for what that is.

A hard limit cannot be taken back, so this process cannot have it itself for the moment in which the first process of a
family is born: it is put on that from outside, at once. On a busy machine that may run for a while before. So it is born
with the tag as its soft limit, which this process has for that moment, and by which is found what has begun meanwhile,
and been left by its parent.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from agentos.resources.process.survivors import children_of, children_of_thread

_log = logging.getLogger(__name__)
_TAG_MIN, _TAG_MAX = 2**40, 2**62
"""Microseconds: 12 days, and what every system takes."""
_NONE = _TAG_MIN - 1
_LIMIT: int | None = getattr(resource, "RLIMIT_RTTIME", None) if hasattr(resource, "prlimit") else None


class Tag(NamedTuple):
    """What the processes of one family carry, if works; else a name for the family alone."""

    number: int
    works: bool


def new_tag() -> Tag:
    """A number below the limit that this process has itself, which may belong to the family of another kernel; works where
    that leaves room for one that nobody else has."""
    hard = resource.RLIM_INFINITY if _LIMIT is None else resource.getrlimit(_LIMIT)[1]
    most = _TAG_MAX if hard == resource.RLIM_INFINITY else min(hard, _TAG_MAX)
    works = _LIMIT is not None and most >= 2 * _TAG_MIN
    return Tag(_TAG_MIN + secrets.randbelow((most if works else _TAG_MAX) - _TAG_MIN), works)


@contextmanager
def born_with(tag: Tag) -> Iterator[None]:
    """What begins in the block has the tag as its soft limit. Not for two threads at once."""
    if _LIMIT is None or not tag.works:
        yield
        return
    before = resource.getrlimit(_LIMIT)[0]
    _set_own(tag.number)
    try:
        yield
    finally:
        _set_own(before)


def put(tag: Tag, leader: int) -> Tag:
    """On the first process of a family, and on what it has begun already. works: whether the first one has it."""
    if not tag.works or not _limited(leader, tag.number):
        return Tag(tag.number, False)
    _spread(_told(children_of, leader), tag.number)
    me, tried = os.getpid(), set[int]()
    while early := [pid for pid in _told(children_of_thread, me, me) if _was_born_with(pid, tag) and pid not in tried]:
        tried.update(early)
        _spread(early, tag.number)
    return tag


def shed(pid: int) -> None:
    """A process that is of no family."""
    _limited(pid, _NONE)


def _spread(pids: list[int], number: int) -> None:
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if _limited(pid, number):  # before it is asked for its children: those that come later have the tag
            waiting.extend(_told(children_of, pid))


def _was_born_with(pid: int, tag: Tag) -> bool:
    assert _LIMIT is not None, "a tag that works is a limit"
    try:
        soft, hard = resource.prlimit(pid, _LIMIT)
    except OSError:  # gone, or of another user
        return False
    return soft == tag.number != hard


def _limited(pid: int, number: int) -> bool:
    if _LIMIT is None:
        return False
    soft = resource.getrlimit(_LIMIT)[0]
    try:
        resource.prlimit(pid, _LIMIT, (number if soft == resource.RLIM_INFINITY else min(soft, number), number))
    except (OSError, ValueError) as error:  # such as a program that runs as another user
        _log.debug("process %d has no tag: %s", pid, error)
        return False
    return True


def _set_own(soft: int) -> None:
    assert _LIMIT is not None, "a tag that works is a limit"
    try:
        resource.setrlimit(_LIMIT, (soft, resource.getrlimit(_LIMIT)[1]))
    except (OSError, ValueError) as error:
        _log.debug("what begins now has no tag from its birth: %s", error)


def _told(ask: Callable[..., list[int]], *numbers: int) -> list[int]:
    try:
        return ask(*numbers)
    except OSError as error:  # no descriptor is left
        _log.debug("what a first process has begun already may have no tag: %s", error)
        return []
