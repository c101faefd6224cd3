"""What is open and who has it, as data: what `kernel.lsof` gives, and `agentos lsof` shows.

A user of a resource is told by its frames: the ids of the chain down to it, the root conversation first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agentos.components import Access, Pattern
from agentos.ids import Kind, Micros, Name, ResourceId, agent_id, hashed_id
from agentos.resources.borrowing import Takes
from agentos.resources.fairness import WEIGHT

__all__ = ["WEIGHT", "OpenResource", "ResourceUser", "Takes", "concerning", "nearest"]


class ResourceUser(msgspec.Struct, frozen=True, kw_only=True):
    """One that holds or waits: its chain, empty for the program itself, and the agents of the conversations in it, as far as
    they are in memory. since: microseconds, UTC; for_ms: how long by the monotonic clock.

    tenant: on whose account; weight and tenant_weight: by what its agent and its tenant share where many wait.
    """

    access: Access
    since: Micros
    for_ms: float
    frames: tuple[str, ...] = ()
    agents: tuple[Name, ...] = ()
    tenant: Name | None = None
    weight: float = WEIGHT
    tenant_weight: float = WEIGHT


class OpenResource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is open. scope is the path of what gives it back; size 0 means no bound; handles counts those that are
    made; takes is what they take of the machine; toolbox names that whose slots it is."""

    id: ResourceId
    kind: str
    name: str
    scope: tuple[str, ...]
    pattern: Pattern
    size: int = 0
    since: Micros | None = None
    holders: tuple[ResourceUser, ...] = ()
    waiters: tuple[ResourceUser, ...] = ()
    handles: int = 0
    takes: tuple[Takes, ...] = ()
    toolbox: Name | None = None


def nearest(frames: Sequence[str], kind: Kind) -> str | None:
    """The innermost frame of this kind."""
    return next((frame for frame in reversed(frames) if frame.startswith(f"{kind.value}_")), None)


def concerning(resources: Iterable[OpenResource], of: str) -> list[OpenResource]:
    """Those that an entity has or waits for, it or what is below it, each with these users alone; of a toolbox, an agent or
    a resource that is named itself, whole.

    of: an id, or the name of an agent, a toolbox or a resource.
    """
    found = []
    for one in resources:
        if of in (one.id, one.name) or of in one.scope or _is_toolbox(one, of):
            found.append(one)
            continue
        holders, waiters = _those(one.holders, of), _those(one.waiters, of)
        if holders or waiters:
            found.append(msgspec.structs.replace(one, holders=holders, waiters=waiters))
    return found


def _is_toolbox(one: OpenResource, of: str) -> bool:
    return one.toolbox is not None and of == hashed_id(Kind.TOOLBOX, one.toolbox)


def _those(users: tuple[ResourceUser, ...], of: str) -> tuple[ResourceUser, ...]:
    return tuple(user for user in users if of in (*user.frames, *user.agents, *map(agent_id, user.agents)))
