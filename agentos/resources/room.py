"""A room: who is inside at once, who stands in line, and who comes in next. The one place where that is decided.

Nothing here waits. `Slots` asks it inside passes, `Shared` on behalf of tasks; both tell those who came in.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Order(Protocol[K]):
    """Which of those in line comes in next. Without one it is first come, first served.

    joined: somebody stands in line now; entered: came in from there; left: went away instead. Who comes in while nobody
    waits is not told of, and pays nothing for it. next changes nothing by being asked.
    """

    def joined(self, who: K, /) -> None: ...
    def left(self, who: K, /) -> None: ...
    def entered(self, who: K, /) -> None: ...
    def next(self) -> K: ...


class Room(Generic[K]):
    """One bound: its holders and its line, each with whether it only reads.

    size: how many at once. read_write: many that read or one that writes, whatever the size. Nobody overtakes who comes
    next: a writer in line holds up the readers behind it, and readers that stand in line together come in together.
    """

    __slots__ = ("holders", "line", "order", "read_write", "size")

    def __init__(self, size: int, *, read_write: bool = False, order: Order[K] | None = None) -> None:
        self.size = size
        self.read_write = read_write
        self.order = order
        self.holders: dict[K, bool] = {}
        self.line: dict[K, bool] = {}

    def fits(self, reads: bool) -> bool:
        if not self.read_write:
            return len(self.holders) < self.size
        if not self.holders:
            return True
        return reads and all(self.holders.values())

    def enter(self, who: K, reads: bool = False) -> bool:
        """Comes in, if nobody waits and it fits."""
        if self.line or not self.fits(reads):
            return False
        self.holders[who] = reads
        return True

    def take(self, who: K, reads: bool = False) -> bool:
        """Whether it is inside now. A no puts it in line once; asking again asks for the same place."""
        if who in self.holders or (who not in self.line and self.enter(who, reads)):
            return True
        if who not in self.line:
            self.line[who] = reads
            if self.order is not None:
                self.order.joined(who)
        return False

    def leave(self, who: K) -> list[K]:
        """It is gone, from inside or from the line. Returns those that came in for it, in their order."""
        if self.line.pop(who, None) is not None and self.order is not None:
            self.order.left(who)
        self.holders.pop(who, None)
        return self.let_in() if self.line else []

    def let_in(self) -> list[K]:
        """Has those in line come in that fit now; gives them, in their order."""
        came: list[K] = []
        while self.line:
            who = self._next()
            if not self.fits(self.line[who]):
                break
            self.holders[who] = self.line.pop(who)
            if self.order is not None:
                self.order.entered(who)
            came.append(who)
        return came

    def _next(self) -> K:
        return next(iter(self.line)) if self.order is None else self.order.next()

    @property
    def any_does(self) -> bool:
        """Whether the leaving of any one holder lets somebody in. Else all of them have to: those in line wait for the
        holders, however many stand between, for each of these waits for the same."""
        return not self.read_write
