"""Leases: one borrowing each, from asking to giving back. What is lent, and to whom, is decided by what lends."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from agentos.components import Access
from agentos.errors import ResourceBusy
from agentos.resources.borrowing import Borrower
from agentos.resources.threaded import who_waits

H = TypeVar("H")


class Lender(Protocol[H]):
    """What a lease asks of the resource that lends: see `Shared`."""

    def enter(self, lease: Lease[H]) -> bool: ...
    async def wait(self, lease: Lease[H]) -> None: ...
    async def take(self, lease: Lease[H]) -> H: ...
    def take_nowait(self) -> H: ...
    def busy(self) -> ResourceBusy: ...
    def leave(self, lease: Lease[H]) -> None: ...
    def back(self, handle: H, lease: Lease[H]) -> None: ...


class Lease(Generic[H]):
    """One borrowing: an async context manager that is entered once. at: since when it holds, or waits; monotonic seconds."""

    __slots__ = ("_handle", "_shared", "access", "at", "by", "future", "reads", "task", "timeout_s", "until", "warned")

    _handle: H

    def __init__(self, shared: Lender[H], by: Borrower, access: Access, timeout_s: float | None) -> None:
        self._shared, self.by, self.timeout_s = shared, by, timeout_s
        self.access = access if type(access) is Access else Access(access)  # where no types are checked, a text
        self.reads = self.access is Access.READ
        self.at = 0.0
        self.until: float | None = None
        """The monotonic time at which timeout_s is over."""
        self.warned = False
        self.future: asyncio.Future[None] | None = None
        self.task: Hashable = None

    async def __aenter__(self) -> H:
        shared = self._begin()
        if not shared.enter(self):
            await shared.wait(self)
        try:
            self._handle = await shared.take(self)
        except BaseException:
            shared.leave(self)
            raise
        return self._handle

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._shared.back(self._handle, self)

    def enter_now(self) -> H:
        shared = self._begin()
        if not shared.enter(self):
            raise shared.busy()
        try:
            self._handle = shared.take_nowait()
        except BaseException:
            shared.leave(self)
            raise
        return self._handle

    def _begin(self) -> Lender[H]:
        if self.task is not None:
            raise RuntimeError("one borrowing is entered once; ask the resource for another")
        self.task = who_waits()
        return self._shared

    def leave_now(self) -> None:
        self._shared.back(self._handle, self)

    @property
    def waits(self) -> bool:
        """Whether it stands in line, and has not yet been let in, refused or cancelled; one that was leaves the line only
        when its task has run."""
        return self.future is not None and not self.future.done()

    def refuse(self, error: BaseException) -> None:
        """Has its waiting end with this error."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class LeaseNow(Generic[H]):
    """One borrowing that never waits: a context manager that is entered once."""

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease[H]) -> None:
        self._lease = lease

    def __enter__(self) -> H:
        return self._lease.enter_now()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._lease.leave_now()
