"""The leak meter: what a piece of work leaves behind in this process, by name."""

from agentos.testing.leaks.meter import Leak, Leaked, LeakMeter, leak_meter
from agentos.testing.leaks.process import held_by_process, own_temporary_folder

__all__ = ["Leak", "LeakMeter", "Leaked", "held_by_process", "leak_meter", "own_temporary_folder"]
