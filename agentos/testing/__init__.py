"""What tests of this package and of its users build on: contract suites, and doubles that are told what to do."""

from agentos.testing.clock import ManualClock
from agentos.testing.faults import Fault, FaultPlan, FaultyStore
from agentos.testing.ids import SequentialIds, SequentialSalts

__all__ = ["Fault", "FaultPlan", "FaultyStore", "ManualClock", "SequentialIds", "SequentialSalts"]
