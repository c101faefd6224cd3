"""What is said of borrowing: who borrows, who holds, who waits, and what a resource takes of the machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from agentos.components import Access, Concern, CycleLink, Pattern
from agentos.ids import Micros
from agentos.lineage import FrameType, LineageFrame

H = TypeVar("H")

Caller = tuple[str, int]
"""A call: its log and seq."""


class Borrower(msgspec.Struct, frozen=True):
    """Who borrows: the chain of frames down to it, root first, empty for the program itself; and the call, if it is one."""

    frames: tuple[LineageFrame, ...] = ()
    caller: Caller | None = None

    @property
    def name(self) -> str:
        """The id of the last frame: a call, a turn, a conversation."""
        return self.frames[-1].entity_id if self.frames else "program"

    def nearest(self, type_: FrameType) -> str | None:
        """The id of the innermost frame of this type."""
        return next((frame.entity_id for frame in reversed(self.frames) if frame.type is type_), None)


PROGRAM = Borrower()
"""The program itself, outside all turns."""


class Borrowing(msgspec.Struct, frozen=True):
    """One that holds or waits. since: microseconds, UTC; for_ms: how long by the monotonic clock."""

    by: Borrower
    access: Access
    since: Micros
    for_ms: float


class Takes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a handle takes of the machine, each None where there is nothing of the sort."""

    pid: int | None = None
    path: str | None = None
    bytes: int | None = None


class SharedStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One resource now. size 0 means no bound; handles counts those that are made, idle those that nobody has.

    borrowed counts all times it was lent, waited_ms what all borrowers waited, broken the handles that were found broken.
    """

    name: str
    kind: str
    pattern: Pattern
    size: int
    handles: int
    idle: int
    holders: tuple[Borrowing, ...]
    waiters: tuple[Borrowing, ...]
    borrowed: int
    waited_ms: float
    broken: int


@dataclass(frozen=True, slots=True)
class Factory(Generic[H]):
    """How handles are made and given back.

    make gives a new handle; it is cancelled with the borrower that it is made for, and leaves nothing behind then.
    close gives it back. check says whether it is still sound, and is asked each time before it is lent; raising is a no.
    takes says what it takes of the machine. measure says how many bytes that is where one has to look first, and may take
    its time; it is asked where bytes are bounded, before more is made.
    """

    make: Callable[[], Awaitable[H]]
    close: Callable[[H], Awaitable[None] | None] | None = None
    check: Callable[[H], Awaitable[bool] | bool] | None = None
    takes: Callable[[H], Takes] | None = None
    measure: Callable[[H], Awaitable[int]] | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one resource.

    make_s, check_s, close_s: what one making, one look and one giving back of a handle may take, in seconds; tries_max:
    how many handles are made or looked at for one borrower; idle_s: how long a handle of a pool is kept that nobody has,
    None for as long as the pool; drain_s: how long a resource that closes waits for those who hold it; line_max: how many
    may wait.
    """

    make_s: float = 30.0
    check_s: float = 5.0
    close_s: float = 5.0
    tries_max: int = 3
    idle_s: float | None = 60.0
    drain_s: float = 5.0
    line_max: int = 100_000


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth an entry in the log of the conversation that holds or waits. ms: held or waited so far."""

    what: Concern
    resource: str
    kind: str
    by: Borrower
    ms: int = 0
    cycle: tuple[CycleLink, ...] = ()
