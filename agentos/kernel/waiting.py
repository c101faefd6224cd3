"""Who waits for the end of a call, and whether that makes a wait one for ever: what the wait graph cannot know of turns."""

from __future__ import annotations

from collections.abc import Iterator

from agentos.components import CallConfig, ConversationConfig, CycleCall, CycleLink
from agentos.ids import CONVERSATION, LogId, call_id, turn_id
from agentos.journal.projections import Find
from agentos.kernel.nesting import above
from agentos.resources import Slots
from agentos.resources.borrowing import Caller
from agentos.resources.cycle import call_alone, link_of
from agentos.resources.wait_graph import Node
from agentos.world import View, World


class Waiting:
    """asking holds the tasks that wait for inner calls, by the log, the call that asked, and the number of its asking."""

    def __init__(self, world: World, slots: Slots) -> None:
        self._world, self._slots = world, slots
        self.asking: dict[tuple[LogId, int, int], Node] = {}

    def deadlock(self, view: View, call: int) -> tuple[CycleLink, ...] | None:
        """The cycle that keeps a call without room waiting for ever; it has left the line then. None when there is none."""
        nodes = list(above(self._world, self.asking, view.log, view.find, view.turn, call))
        cycle = self._slots.deadlock((view.log, call), nodes)
        return tuple(link_of(wait, lambda caller: self._named(caller, view)) for wait in cycle) or None

    def above(self, caller: Caller) -> Iterator[Node]:
        """What waits for the end of a call that runs."""
        find = self._find(LogId(caller[0]))
        config = find(caller[1], CallConfig) if find is not None else None
        if find is not None and config is not None:
            yield from above(self._world, self.asking, LogId(caller[0]), find, config.turn, caller[1])

    def named(self, caller: Caller | None) -> CycleCall:
        """A call with its agent and turn."""
        return self._named(caller, None)

    def _named(self, caller: Caller | None, view: View | None) -> CycleCall:
        """A view may be ahead of the World, in its own log."""
        if caller is None:
            return call_alone(caller)
        log, call = LogId(caller[0]), caller[1]
        find = view.find if view is not None and view.log == log else self._find(log)
        conversation = find(CONVERSATION, ConversationConfig) if find is not None else None
        config = find(call, CallConfig) if find is not None else None
        if conversation is None or config is None:
            return call_alone(caller)
        return CycleCall(agent=conversation.slug, turn=turn_id(log, config.turn), call=call_id(log, call))

    def _find(self, log: LogId) -> Find | None:
        slice_ = self._world.slice(log)
        return slice_.get if slice_ is not None else None
