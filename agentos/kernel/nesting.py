"""Which calls stand above a call: those that asked for it, and through delegations those of the conversations above."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentos.components import CallConfig, ConversationState, TurnConfig
from agentos.ids import CONVERSATION, CallId, LogId, log_and_seq
from agentos.journal.projections import Find
from agentos.resources.wait_graph import Node
from agentos.world import World

Asking = Mapping[tuple[LogId, int, int], Node]
"""The tasks that wait for inner calls, by the log, the call that asked, and the number of its asking."""


def parents_of(find: Find, call: int) -> Iterator[int]:
    """The calls of the same turn that asked for an inner call, the nearest first; none for a call of a reply."""
    while (config := find(call, CallConfig)) is not None and config.parent is not None and config.parent < call:
        call = config.parent
        yield call


def above(world: World, asking: Asking, log: LogId, find: Find, turn: int, call: int) -> Iterator[Node]:
    """Every call that waits for this one, as far as conversations are loaded, and the tasks in which running ones do. find
    and turn are of the call's own log, of which a view may be ahead of the World."""
    waiting: list[tuple[LogId, Find, int, int]] = [(log, find, turn, call)]
    seen: set[LogId] = set()
    while waiting:
        log, find, turn, call = waiting.pop()
        yield from _asked_by(asking, log, find, call)
        config = find(turn, TurnConfig)
        if config is None or log in seen:
            continue
        seen.add(log)
        for cause in (*config.causes, *queued(find)):
            log_above, call_above = log_and_seq(cause)
            slice_ = world.slice(log_above)
            found = slice_.get(call_above, CallConfig) if slice_ is not None else None
            if slice_ is not None and found is not None:
                yield log_above, call_above
                waiting.append((log_above, slice_.get, found.turn, call_above))


def queued(find: Find) -> list[CallId]:
    """The delegations whose tasks wait for the open turn of their child to end."""
    state = find(CONVERSATION, ConversationState)
    return [input_.cause for input_ in state.waiting if input_.cause is not None] if state is not None else []


def _asked_by(asking: Asking, log: LogId, find: Find, call: int) -> Iterator[Node]:
    """The calls of the same turn that asked for it, the nearest first, each behind its task that waits for the end."""
    for parent in parents_of(find, call):
        config = find(call, CallConfig)
        task = asking.get((log, parent, config.ordinal)) if config is not None else None
        if task is not None:
            yield task
        yield log, parent
        call = parent
