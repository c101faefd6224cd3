"""Slots: how many calls each toolbox bears at once, as its sharing says. First come, first served.

A slot is asked for inside a pass, so nothing here waits: a call that finds no room is put in line, and the kernel is told
when its turn has come. The room is then kept for it until it takes or gives it up. A call that others wait for while they
hold slots may wait for ever; `would_wait_for_ever` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from agentos.components import Access, ToolboxSharing
from agentos.ids import Name

Caller = tuple[str, int]
"""A call: its log and seq."""


class SlotStatistics(msgspec.Struct, frozen=True):
    """One toolbox's room: how many hold it, how many wait, and who, oldest first. size 0 means no bound."""

    toolbox: Name
    sharing: ToolboxSharing
    size: int
    holders: tuple[Caller, ...]
    waiters: tuple[Caller, ...]


class _Room:
    """One bound: its holders and its line, each with whether the caller only reads."""

    __slots__ = ("holders", "line", "read_write", "size")

    def __init__(self, size: int, read_write: bool) -> None:
        self.size = size
        self.read_write = read_write
        self.holders: dict[Caller, bool] = {}
        self.line: dict[Caller, bool] = {}

    def fits(self, reads: bool) -> bool:
        if not self.read_write:
            return len(self.holders) < self.size
        if not self.holders:
            return True
        return reads and all(self.holders.values())

    def blockers(self, caller: Caller) -> tuple[list[Caller], bool]:
        """Whom a call in line waits for, and whether the end of any one of them would do."""
        if self.size > 1:
            return list(self.holders), True
        line = list(self.line)
        return [*self.holders, *line[: line.index(caller)]], False


class Slots:
    """The slots of all toolboxes of a kernel. granted is called when a waiting call's turn has come."""

    def __init__(self, granted: Callable[[str, int], None]) -> None:
        self._granted = granted
        self._toolboxes: dict[Name, tuple[ToolboxSharing, int]] = {}
        self._rooms: dict[tuple[Name, str], _Room] = {}
        self._places: dict[Caller, tuple[Name, str]] = {}
        self._above: dict[Caller, Sequence[Caller]] = {}

    def add(self, toolbox: Name, sharing: ToolboxSharing, size: int = 0) -> None:
        self._toolboxes[toolbox] = (sharing, max(1, size))

    def remove(self, toolbox: Name) -> None:
        self._toolboxes.pop(toolbox, None)

    def take(self, toolbox: Name | None, caller: Caller, agent: str, access: Access) -> bool:
        """Whether the call may start now. A no puts it in line once; asking again asks for the same place."""
        known = self._toolboxes.get(toolbox) if toolbox is not None else None
        if known is None or known[0] is ToolboxSharing.STATELESS:
            return True
        assert toolbox is not None
        room = self._room(toolbox, known, caller, agent)
        if caller in room.holders:
            return True
        reads = access is Access.READ
        if not room.line and room.fits(reads):
            room.holders[caller] = reads
            return True
        room.line.setdefault(caller, reads)
        return False

    def give_back(self, caller: Caller) -> None:
        """The call is finished, or will not start: its slot or its place in line is free."""
        place = self._places.pop(caller, None)
        if place is None:
            return
        self._above.pop(caller, None)
        room = self._rooms[place]
        room.line.pop(caller, None)
        room.holders.pop(caller, None)
        self._advance(room)
        if not room.holders and not room.line:
            del self._rooms[place]

    def of(self, log: str) -> list[Caller]:
        """The calls of a log that hold a slot or stand in line."""
        return [caller for caller in self._places if caller[0] == log]

    def holds(self, caller: Caller) -> bool:
        place = self._places.get(caller)
        return place is not None and caller in self._rooms[place].holders

    def would_wait_for_ever(self, caller: Caller, above: Sequence[Caller]) -> bool:
        """Whether the room that a call in line waits for is held, over whatever others, by calls that wait for it.

        above are the calls that wait for its end: each of them is taken to do nothing else. A yes takes it out of the line.
        """
        place = self._places.get(caller)
        if place is None or caller not in self._rooms[place].line:
            return False
        self._above[caller] = above
        if not any(self.holds(other) for other in above) or self._can_begin(caller):
            return False
        self.give_back(caller)
        return True

    def _can_begin(self, asked: Caller) -> bool:
        """Lets all calls end that wait for nothing, then those that waited for these alone, until nothing changes."""
        blockers = {caller: self._room_of(caller).blockers(caller) for caller in self._in_line()}
        free = False
        while not free:
            stuck = {other for caller in blockers for other in self._above.get(caller, ())}.union(blockers)
            ready = [
                caller
                for caller, (others, any_does) in blockers.items()
                if (any if any_does else all)(other not in stuck for other in others)
            ]
            if not ready:
                return False
            free = asked in ready
            for caller in ready:
                del blockers[caller]
        return True

    def _in_line(self) -> list[Caller]:
        return [caller for room in self._rooms.values() for caller in room.line]

    def _room_of(self, caller: Caller) -> _Room:
        return self._rooms[self._places[caller]]

    def statistics(self) -> list[SlotStatistics]:
        """Who holds and who waits, by toolbox; rooms that nobody uses are left out."""
        return [
            SlotStatistics(toolbox, *self._shown(toolbox), tuple(room.holders), tuple(room.line))
            for (toolbox, _), room in sorted(self._rooms.items())
        ]

    def _shown(self, toolbox: Name) -> tuple[ToolboxSharing, int]:
        return self._toolboxes.get(toolbox, (ToolboxSharing.EXCLUSIVE, 1))

    def _room(self, toolbox: Name, known: tuple[ToolboxSharing, int], caller: Caller, agent: str) -> _Room:
        sharing, size = known
        key = {ToolboxSharing.PER_CONVERSATION: caller[0], ToolboxSharing.PER_AGENT: agent}.get(sharing, "")
        place = (toolbox, key)
        room = self._rooms.get(place)
        if room is None:
            bound = size if sharing is ToolboxSharing.POOL else 1
            room = self._rooms[place] = _Room(bound, sharing is ToolboxSharing.READ_WRITE)
        self._places[caller] = place
        return room

    def _advance(self, room: _Room) -> None:
        while room.line:
            caller, reads = next(iter(room.line.items()))
            if not room.fits(reads):
                return
            del room.line[caller]
            room.holders[caller] = reads
            self._above.pop(caller, None)
            self._granted(*caller)
