"""On whose account something is made: the bounds of processes, handles and bytes that it counts against.

Who spawns a process is handed no account: what a tool runs, and what its helpers run, counts on that of its call, and what
a resource runs on that of its scope. It is in a context variable, which goes on to the tasks and threads that these start.
A kernel without such bounds sets none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from agentos.resources.borrowing import Caller
from agentos.resources.fairness import Party
from agentos.resources.places import Bound
from agentos.resources.threaded import who_waits
from agentos.resources.wait_graph import Node


class What(StrEnum):
    """What is counted."""

    PROCESSES = "processes"
    HANDLES = "handles"
    BYTES = "bytes"


SCOPES = ("conversation", "toolbox", "agent", "tenant", "program")
"""The scopes that have bounds, in the order in which a place goes through them: all go the same way."""


def setting_of(scope: str, what: What) -> str:
    """The name of the setting that bounds this there."""
    word = "resource_bytes_max" if what is What.BYTES else f"{what}_max"
    return word if scope == "program" else f"{scope}_{word}"


class Bearer(Protocol):
    """What counts: see `Ledger`."""

    async def take(self, place: Place, timeout_s: float | None) -> None: ...
    async def check_bytes(self, asked: Asked, wanted: str) -> None: ...
    def refuse(self, place: Place, error: Exception) -> None: ...
    def give_back(self, place: Place) -> None: ...
    def is_wanted(self, place: Place) -> bool: ...


@dataclass(frozen=True, slots=True)
class Account:
    """One scope, a call or that of a resource, with all bounds around it.

    ends: the call with which everything ends that is kept on it, or the id of that turn; None where nobody says when. frames
    are the ids of the chain down to it, caller is the call, if it is one.
    """

    bearer: Bearer
    party: Party
    bounds: Mapping[What, tuple[Bound, ...]]
    ends: Node | None = None
    frames: tuple[str, ...] = ()
    caller: Caller | None = None

    def also_of_toolbox(self, other: Account) -> Account:
        """This one, counting against the toolbox of another too, unless it has one of its own."""
        bounds = dict(self.bounds)
        for what in What:
            own = bounds.get(what, ())
            more = [one for one in other.bounds.get(what, ()) if one.scope == "toolbox"]
            if more and not any(one.scope == "toolbox" for one in own):
                bounds[what] = tuple(sorted((*own, *more), key=lambda one: SCOPES.index(one.scope)))
        return replace(self, bounds=bounds)


@dataclass(frozen=True, slots=True)
class Asked:
    """account: where it counts; asker: who asked for it, which may be a call where that is a scope; tasks: those that wait
    until it is made, beside the one that makes it; handle: the place of the handle that it is made for, if it is."""

    account: Account
    asker: Account
    tasks: tuple[Node, ...] = ()
    handle: Place | None = None


_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


def asked_now() -> Asked | None:
    """How what is made now counts; None where nothing is counted."""
    return _asked.get()


def asked_for(account: Account | None) -> Asked | None:
    """How what is made now counts on an account: asked for by whose ever it is until here. Without one, as all else that is
    made here; None where nothing is counted."""
    before = _asked.get()
    if account is None or before is None:
        return before if account is None else Asked(account, account, (who_waits(),))
    return Asked(account.also_of_toolbox(before.asker), before.asker, (who_waits(), *before.tasks))


def bear(account: Account) -> None:
    """From here on, in this task, what is made counts on this account."""
    _asked.set(Asked(account, account))


@contextmanager
def borne_by(account: Account | None) -> Iterator[None]:
    """What is made in the block counts on this account; with None, nothing changes."""
    with _asking(asked_for(account)):
        yield


@contextmanager
def _asking(asked: Asked | None) -> Iterator[None]:
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def by_its_end(place: Place) -> Iterable[Node]:
    """What is kept comes back with its scope."""
    return () if place.asked.account.ends is None else (place.asked.account.ends,)


def by_its_task(place: Place) -> Iterable[Node]:
    """What is used in one go comes back when its task goes on."""
    return (place.task,)


def by_its_handle(place: Place) -> Iterable[Node]:
    """What is a part of a handle comes back with it."""
    assert place.whole is not None, "it is a part"
    return place.whole.comes_back(place.whole)


@dataclass(eq=False, slots=True)
class Place:
    """One process or one handle that counts, or that waits until it may be.

    wanted: the words for what it is for; comes_back: what it comes back with, each a call, a turn or a task, none where
    nobody says when; spare gives it back at once if nobody uses it, and says whether; bytes_of tells what it takes, None
    where that is not known.
    """

    asked: Asked
    what: What
    wanted: str
    comes_back: Callable[[Place], Iterable[Node]] = by_its_end
    spare: Callable[[], bool] = lambda: False
    bytes_of: Callable[[], Awaitable[int | None]] | None = None
    task: Node = field(default_factory=who_waits)
    since_s: float = 0.0
    """Since when it waits, or is there: monotonic."""
    is_noted: bool = False
    """Whether it was noted that it waits for long."""
    whole: Place | None = None
    """That of the handle which this one is a part of, and goes with."""
    parts: set[Place] = field(default_factory=set)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return self.asked.account.bounds.get(self.what, ())

    @property
    def caller(self) -> Caller | None:
        return self.asked.asker.caller

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for one like it, or like a part of it."""
        return self.asked.account.bearer.is_wanted(self) or any(part.is_wanted for part in self.parts)

    async def take(self, timeout_s: float | None = None) -> Place:
        """Itself, once there is room for it.

        Errors: ResourceLimitReached when waiting would never end; ResourceDeadlock likewise, with the circle;
        ResourceAccessTimeout after timeout_s, seconds.
        """
        await self.asked.account.bearer.take(self, timeout_s)
        if self.whole is not None:
            self.whole.parts.add(self)
        return self

    def give_up(self) -> bool:
        """Whether it comes back at once, since nobody uses it, or the handle that it is a part of."""
        return (self.whole or self).spare()

    def refuse(self, error: Exception) -> None:
        """Has its waiting end with this error, if it waits."""
        self.asked.account.bearer.refuse(self, error)

    def give_back(self) -> None:
        """It is gone. A second time does nothing."""
        if self.whole is not None:
            self.whole.parts.discard(self)
        self.asked.account.bearer.give_back(self)


@contextmanager
def making(place: Place | None) -> Iterator[None]:
    """What is started in the block is part of the handle that has this place, and goes with it."""
    with _asking(None if place is None else replace(place.asked, handle=place)):
        yield


def process_place(program: str, *, kept: bool) -> Place | None:
    """A place for one process, to be taken before it is started and given back when it has ended; None where nothing is
    counted. kept: it stays for as long as its scope, rather than for the length of its run."""
    asked = _asked.get()
    if asked is None:
        return None
    wanted, handle = f"process {program}", asked.handle
    if not kept:
        return Place(asked, What.PROCESSES, wanted, by_its_task)
    return Place(asked, What.PROCESSES, wanted, by_its_end if handle is None else by_its_handle, whole=handle)
