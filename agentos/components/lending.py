"""What is known of who has a live resource: nothing of it is stored, and a reopened kernel has none of it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components.base import Component
from agentos.components.resource import Pattern
from agentos.components.tool import Access
from agentos.ids import Micros


class Lending(msgspec.Struct, frozen=True, gc=False):
    """One that holds a resource, or waits for it.

    frames: the ids of the chain down to it, the root conversation first and mostly a call last; empty for the program
    itself. since is in microseconds, UTC.
    """

    frames: tuple[str, ...]
    access: Access
    since: Micros


class ResourceState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Live: something that is open: its kind (process, sqlite, slots, ...), its name, and the path of the scope that gives it
    back. size is how many may have it at once, 0 for no bound."""

    component: ClassVar[str] = "resource_state"
    kind: str
    name: str
    scope: tuple[str, ...]
    pattern: Pattern
    size: int = 0


class Held(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Live: who has the resource, the longest first. A resource that nobody has does not have this component."""

    component: ClassVar[str] = "held"
    holders: tuple[Lending, ...]


class Awaited(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Live: who stands in line for the resource, in order of arrival. Without anybody there is no such component."""

    component: ClassVar[str] = "awaited"
    waiters: tuple[Lending, ...]
