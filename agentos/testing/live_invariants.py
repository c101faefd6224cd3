"""What must hold of live things: the World tells of all resources, slots and scopes as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agentos.components import Awaited, Held, ResourceState, ToolboxConfig
from agentos.ids import Kind, LogId, call_id
from agentos.kernel import Kernel
from agentos.resources import Level
from agentos.resources.borrowing import Borrowing, Caller


def live_is_empty(kernel: Kernel) -> list[str]:
    """A kernel that was just opened holds nothing."""
    found = {
        "running effects": len(kernel.runner),
        "slots": len(kernel.slots.statistics()),
        "loaded logs": len(kernel.ticker.loaded),
        "waiting senders": len(kernel.ticker.waiters.tickets),
        "things to give back": kernel.scope.open,
        "conversations in the World": len(kernel.world.entities(Kind.CONVERSATION)),
        "resources in the World": len(kernel.world.entities(Kind.RESOURCE)),
    }
    return [f"a fresh kernel has {n} {what}" for what, n in found.items() if n]


def live_is_true(kernel: Kernel) -> list[str]:
    """The World's components of resources say who has what, and who waits."""
    rows = kernel.resources.rows()
    real = sorted((one.kind, one.name, _names(one.holders), _names(one.waiters)) for one in rows)
    used = kernel.slots.statistics()
    real += sorted(("slots", one.toolbox, _ids(one.holders), _ids(one.waiters)) for one in used)
    told = [
        (state.kind, state.name, _told(kernel.world.get(id_, Held)), _told(kernel.world.get(id_, Awaited)))
        for id_, state in kernel.world.find(ResourceState)
    ]
    free = {config.name for _, config in kernel.world.find(ToolboxConfig, closed=False)} - {one.toolbox for one in used}
    told = [one for one in told if one[0] != "slots" or one[2] or one[3] or one[1] not in free]
    if sorted(told) != sorted(real):
        return [f"the World tells of resources {sorted(told)}, but there are {sorted(real)}"]
    return []


def _names(borrowings: Iterable[Borrowing]) -> list[str]:
    return [one.by.name if one.by.frames else "" for one in borrowings]


def _ids(callers: Iterable[Caller]) -> list[str]:
    return [call_id(*caller) for caller in callers]


def _told(component: Held | Awaited | None) -> list[str]:
    if component is None:
        return []
    lendings = component.holders if isinstance(component, Held) else component.waiters
    return [one.frames[-1] if one.frames else "" for one in lendings]


def scopes_are_owned(kernel: Kernel) -> list[str]:
    """No conversation, turn or call has something to give back once nothing runs in it, but for resources that live as long
    as their conversation. Holds when all is quiet."""
    kept = Counter(row.scope for row in kernel.resources.rows() if row.level is Level.CONVERSATION)
    return [
        f"the scope {'/'.join(scope.path)} is open, but nothing runs in it"
        for agent in kernel.scope.children
        for scope in agent.children
        if scope.open > kept[tuple(scope.path)] and not kernel.runner.busy(LogId(scope.path[-1]))
    ]
