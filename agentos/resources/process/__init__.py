"""Processes and threads: what a live thing that runs outside of us is made of, and how all of it is ended."""

from agentos.resources.process.descendants import MARK, Keeper
from agentos.resources.process.output import Output
from agentos.resources.process.partial import attach_partial, partial_of
from agentos.resources.process.process import Command, Ended, ProcessLimits, run_process

__all__ = [
    "MARK",
    "Command",
    "Ended",
    "Keeper",
    "Output",
    "ProcessLimits",
    "attach_partial",
    "partial_of",
    "run_process",
]
