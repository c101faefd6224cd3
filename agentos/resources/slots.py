"""Slots: how many calls each toolbox bears at once, as its sharing says, and how many there may be at all.

A slot is asked for inside a pass, so nothing here waits: a call that finds no room is put in line, and the kernel is told
when its turn has come. The room is then kept for it until it takes or gives it up. A call that others wait for while they
hold slots may wait for ever; `deadlock` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import msgspec

from agentos.components import Access, ToolboxSharing
from agentos.ids import Name
from agentos.resources.borrowing import Caller
from agentos.resources.places import Places
from agentos.resources.room import Order, Room
from agentos.resources.wait_graph import Node, Wait, WaitGraph


class SlotStatistics(msgspec.Struct, frozen=True):
    """One toolbox's room: how many hold it, how many wait, and who, oldest first. size 0 means no bound.

    key: whose it is, when each conversation or agent has a room of its own. reads: those of both who only read.
    """

    toolbox: Name
    sharing: ToolboxSharing
    size: int
    holders: tuple[Caller, ...]
    waiters: tuple[Caller, ...]
    key: str = ""
    reads: tuple[Caller, ...] = ()


class Slots:
    """The slots of all toolboxes of a kernel. granted is called when a waiting call's turn has come."""

    def __init__(self, granted: Callable[[str, int], None], graph: WaitGraph | None = None) -> None:
        self._granted = granted
        self.changed: Callable[[Caller | None], None] | None = None
        """Hears of every call that comes in, stands in line, or is gone; with None, of a toolbox that came or went."""
        self.waited: Callable[[], None] | None = None
        """Is told when a call was put in line."""
        self.order: Callable[[], Order[Caller]] | None = None
        """Makes the order of the line of one room; without it, all are first come, first served."""
        self.at_once: Places[Caller] | None = None
        """The bounds of calls at once, where there are any. They come before the room of a toolbox."""
        self.graph = graph or WaitGraph()
        self.graph.places.append(self)
        self._toolboxes: dict[Name, tuple[ToolboxSharing, int]] = {}
        self._rooms: dict[tuple[Name, str], Room[Caller]] = {}
        self._places: dict[Caller, tuple[Name, str]] = {}
        self._above: dict[Caller, Sequence[Node]] = {}

    def add(self, toolbox: Name, sharing: ToolboxSharing, size: int = 0) -> None:
        self._toolboxes[toolbox] = (sharing, max(1, size))
        if self.changed is not None:
            self.changed(None)

    def remove(self, toolbox: Name) -> None:
        self._toolboxes.pop(toolbox, None)
        if self.changed is not None:
            self.changed(None)

    def toolboxes(self) -> dict[Name, tuple[ToolboxSharing, int]]:
        """The open ones, each with its sharing and size."""
        return dict(self._toolboxes)

    def take(self, toolbox: Name | None, caller: Caller, agent: str, access: Access) -> bool:
        """Whether the call may start now. A no puts it in line once; asking again asks for the same place."""
        known = self._toolboxes.get(toolbox) if toolbox is not None else None
        if known is None or known[0] is ToolboxSharing.STATELESS:
            return True
        assert toolbox is not None
        room = self._room(toolbox, known, caller, agent)
        taken = room.take(caller, access is Access.READ)
        if not taken and self.waited is not None:
            self.waited()
        if self.changed is not None:
            self.changed(caller)
        return taken

    def give_back(self, caller: Caller) -> None:
        """The call is finished, or will not start: its slot or its place in line is free."""
        if self.at_once is not None:
            self.at_once.leave(caller)
        place = self._places.pop(caller, None)
        if place is None:
            return
        self._above.pop(caller, None)
        room = self._rooms[place]
        for came in room.leave(caller):
            self._above.pop(came, None)
            self._granted(*came)
        if not room.holders and not room.line:
            del self._rooms[place]
        if self.changed is not None:
            self.changed(caller)

    def of(self, log: str) -> list[Caller]:
        """The calls of a log that hold a slot or stand in line."""
        found = [caller for caller in self._places if caller[0] == log]
        if self.at_once is not None:
            found += [caller for caller in self.at_once if caller[0] == log and caller not in self._places]
        return found

    def holds(self, caller: Caller) -> bool:
        """Whether a call holds a slot."""
        place = self._places.get(caller)
        return place is not None and caller in self._rooms[place].holders

    def waits_for(self, caller: Caller) -> bool:
        """Whether a call stands in line."""
        place = self._places.get(caller)
        return place is not None and caller in self._rooms[place].line

    def ask_again(self, caller: Caller) -> None:
        """Has the kernel ask anew for a call in line, as if its turn had come."""
        self._granted(*caller)

    def deadlock(self, caller: Caller, above: Sequence[Node]) -> list[Wait]:
        """The cycle of waits that keeps a call in line for ever, its own first; it has left the line then. Empty when it
        will have its turn.

        above is what waits for its end: the calls that asked for it, each taken to end only after it, and their tasks.
        """
        place = self._places.get(caller)
        if place is None or caller not in self._rooms[place].line:
            return []
        self._above[caller] = above
        cycle = self.graph.deadlock(next(self._line(place, [caller])))
        if cycle:
            self.give_back(caller)
        return cycle

    def waits(self) -> Iterable[Wait]:
        """All that stand in line, as the wait graph sees them."""
        for place, room in self._rooms.items():
            yield from self._line(place, room.line)

    def lines_for(self, node: Node) -> Iterable[tuple[Hashable, Iterable[Wait]]]:
        """The line of the room in which a call is."""
        place = self._places.get(node)  # type: ignore[call-overload]
        if place is None:
            return
        room = self._rooms[place]
        if room.line and node in room.holders:
            yield place, self._line(place, room.line)

    def _line(self, place: tuple[Name, str], line: Iterable[Caller]) -> Iterator[Wait]:
        room = self._rooms[place]
        holders = tuple(room.holders)
        for caller in line:
            yield Wait(caller, caller, place[0], holders, holders, room.any_does, self._above.get(caller, ()), place)

    def statistics(self) -> list[SlotStatistics]:
        """Who holds and who waits, by toolbox; rooms that nobody uses are left out."""
        return [
            SlotStatistics(
                toolbox, *self._shown(toolbox), tuple(room.holders), tuple(room.line), key, tuple(_reads(room))
            )
            for (toolbox, key), room in sorted(self._rooms.items())
        ]

    def _shown(self, toolbox: Name) -> tuple[ToolboxSharing, int]:
        return self._toolboxes.get(toolbox, (ToolboxSharing.EXCLUSIVE, 1))

    def _room(self, toolbox: Name, known: tuple[ToolboxSharing, int], caller: Caller, agent: str) -> Room[Caller]:
        sharing, size = known
        key = {ToolboxSharing.PER_CONVERSATION: caller[0], ToolboxSharing.PER_AGENT: agent}.get(sharing, "")
        place = (toolbox, key)
        room = self._rooms.get(place)
        if room is None:
            bound = size if sharing is ToolboxSharing.POOL else 1
            order = self.order() if self.order is not None else None
            room = self._rooms[place] = Room(bound, read_write=sharing is ToolboxSharing.READ_WRITE, order=order)
        self._places[caller] = place
        return room


def _reads(room: Room[Caller]) -> Iterable[Caller]:
    return (caller for callers in (room.holders, room.line) for caller, reads in callers.items() if reads)
