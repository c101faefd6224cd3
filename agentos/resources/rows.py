"""One resource as a row: what `agentos lsof` shows of it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import Pattern
from agentos.ids import Micros, ResourceId
from agentos.resources.borrowing import Borrowing, Takes
from agentos.resources.scope import Level, Scope
from agentos.resources.shared import Shared


class ResourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One resource as `agentos lsof` shows it. scope: its path, the program first; size 0 means no bound; since:
    microseconds, UTC; takes: what its handles take of the machine."""

    id: ResourceId
    kind: str
    name: str
    scope: tuple[str, ...]
    level: Level
    pattern: Pattern
    size: int
    since: Micros
    handles: int
    idle: int
    holders: tuple[Borrowing, ...]
    waiters: tuple[Borrowing, ...]
    takes: tuple[Takes, ...]
    borrowed: int
    waited_ms: float
    broken: int


def row_of(id_: ResourceId, scope: Scope, since: Micros, shared: Shared[Any]) -> ResourceRow:
    """It as it is now."""
    said = shared.statistics()
    return ResourceRow(
        id=id_,
        kind=said.kind,
        name=said.name,
        scope=scope.path,
        level=scope.level,
        pattern=said.pattern,
        size=said.size,
        since=since,
        handles=said.handles,
        idle=said.idle,
        holders=said.holders,
        waiters=said.waiters,
        takes=tuple(shared.takes()),
        borrowed=said.borrowed,
        waited_ms=said.waited_ms,
        broken=said.broken,
    )
