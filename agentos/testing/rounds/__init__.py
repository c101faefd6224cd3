"""Every kind of resource, opened, used and closed again and again, and what stays of it."""

from agentos.testing.rounds.counting import Counted, counted
from agentos.testing.rounds.kinds import KINDS, Kind, Place, place, rounds

__all__ = ["KINDS", "Counted", "Kind", "Place", "counted", "place", "rounds"]
