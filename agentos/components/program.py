"""What is known of the program: the one that hosts all agents of a store."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components.base import Component
from agentos.ids import Name


class Share(msgspec.Struct, frozen=True, omit_defaults=True):
    """The weight of an agent or of a tenant where many wait; one of whom nothing is said has 1."""

    name: Name
    weight: float


class Shares(Component, frozen=True, omit_defaults=True, kw_only=True):
    """The weights that somebody has given, each list sorted by name."""

    component: ClassVar[str] = "shares"
    agents: tuple[Share, ...] = ()
    tenants: tuple[Share, ...] = ()
