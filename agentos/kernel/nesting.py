"""Which calls stand above a call: those that asked for it, and through delegations those of the conversations above."""

from __future__ import annotations

from collections.abc import Iterator

from agentos.components import CallConfig, TurnConfig
from agentos.ids import LogId, log_and_seq
from agentos.journal.projections import Find
from agentos.resources.slots import Caller
from agentos.world import View, World


def parents_of(find: Find, call: int) -> Iterator[int]:
    """The calls of the same turn that asked for an inner call, the nearest first; none for a call of a reply."""
    while (config := find(call, CallConfig)) is not None and config.parent is not None and config.parent < call:
        call = config.parent
        yield call


def callers_above(world: World, view: View, call: int) -> Iterator[Caller]:
    """Every call that waits for this one, as far as conversations are loaded. The view is of the call's own log, which
    may be ahead of the World."""
    find: Find = view.find
    waiting: list[tuple[LogId, Find, int, int]] = [(view.log, find, view.turn, call)]
    seen: set[LogId] = set()
    while waiting:
        log, find, turn, call = waiting.pop()
        yield from ((log, parent) for parent in parents_of(find, call))
        config = find(turn, TurnConfig)
        if config is None or log in seen:
            continue
        seen.add(log)
        for cause in config.causes:
            log_above, call_above = log_and_seq(cause)
            slice_ = world.slice(log_above)
            above = slice_.get(call_above, CallConfig) if slice_ is not None else None
            if slice_ is not None and above is not None:
                yield log_above, call_above
                waiting.append((log_above, slice_.get, above.turn, call_above))
