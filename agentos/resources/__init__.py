"""Live things and who may use them: scopes that give everything back, shared resources, and the slots of toolboxes."""

from agentos.resources.borrowing import PROGRAM, Borrower, Borrowing, Bounds, Factory, Note, SharedStatistics, Takes
from agentos.resources.lease import Lease
from agentos.resources.registry import ResourceKind, Resources
from agentos.resources.room import Room
from agentos.resources.rows import ResourceRow
from agentos.resources.scope import Level, Scope
from agentos.resources.shared import Shared
from agentos.resources.slots import Slots, SlotStatistics
from agentos.resources.wait_graph import WaitGraph

__all__ = [
    "PROGRAM",
    "Borrower",
    "Borrowing",
    "Bounds",
    "Factory",
    "Lease",
    "Level",
    "Note",
    "ResourceKind",
    "ResourceRow",
    "Resources",
    "Room",
    "Scope",
    "Shared",
    "SharedStatistics",
    "SlotStatistics",
    "Slots",
    "Takes",
    "WaitGraph",
]
