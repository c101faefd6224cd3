"""What an open kernel holds: scopes, slots, resources, and who has or wants them."""

from __future__ import annotations

from typing import Protocol

from agentos.resources import Borrowing, ResourceRow, Resources, Scope, Slots
from agentos.testing.leaks.process import Seen


class Watched(Protocol):
    """What the meter looks at of a kernel."""

    @property
    def scope(self) -> Scope: ...
    @property
    def slots(self) -> Slots: ...
    @property
    def resources(self) -> Resources: ...


def held_by_kernel(kernel: Watched) -> Seen:
    """Open scopes below the kernel's own, who holds or waits for slots, and every resource with the same of it."""
    seen: Seen = {}
    _scopes(seen, kernel.scope)
    _slots(seen, kernel.slots)
    for row in kernel.resources.rows():
        _resource(seen, row)
    return seen


def _scopes(seen: Seen, scope: Scope) -> None:
    for child in scope.children:
        seen["scope", child] = f"{'/'.join(child.path)}, with {child.open} to give back"
        _scopes(seen, child)


def _slots(seen: Seen, slots: Slots) -> None:
    for slot in slots.statistics():
        for log, call in (*slot.holders, *slot.waiters):
            waits = "waits for" if (log, call) in slot.waiters else "holds"
            seen["slot", (slot.toolbox, log, call)] = f"call {call} of {log} {waits} {slot.toolbox}"


def _resource(seen: Seen, row: ResourceRow) -> None:
    name = f"{row.kind} {row.name} of {'/'.join(row.scope)}"
    seen["resource", row.id] = name
    for does, borrowings in (("holds", row.holders), ("waits for", row.waiters)):
        for borrowing in borrowings:
            seen["resource", (row.id, does, borrowing.by)] = f"{_who(borrowing)} {does} {name}"


def _who(borrowing: Borrowing) -> str:
    return "/".join(frame.entity_id for frame in borrowing.by.frames) or borrowing.by.name
