"""The steps of a turn, one pure function a file, in the order in which they are asked."""

from agentos.systems.admit import admit
from agentos.systems.call import call
from agentos.systems.complete import complete
from agentos.systems.gate import gate
from agentos.systems.prompt import prompt
from agentos.systems.recover import recover
from agentos.systems.schedule import Schedule, System, run_pass, system
from agentos.systems.settle import settle

SCHEDULE = Schedule((admit, recover, prompt, complete, gate, call, settle))

__all__ = ["SCHEDULE", "Schedule", "System", "run_pass", "system"]
