"""Live things and who may use them: the slots of toolboxes, and scopes that give everything back."""

from agentos.resources.scope import Scope
from agentos.resources.slots import Slots, SlotStatistics

__all__ = ["Scope", "SlotStatistics", "Slots"]
