"""What a kernel could not end when it closed, by name: calls that ignore their cancellation, threads, live resources."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from agentos.effects import Runner
from agentos.events.effects import Effect, Probe, RequestModel, RunCall
from agentos.ids import call_id, turn_id
from agentos.resources import ResourceRow, Resources
from agentos.toolboxes.base import Toolbox, abandoned_of

_log = logging.getLogger(__name__)


def leftovers(runner: Runner, resources: Resources, toolboxes: Iterable[Toolbox]) -> tuple[str, ...]:
    """A sentence for each, which is logged too. None of them belongs to another kernel of this process."""
    found = (*_running(runner), *_abandoned(toolboxes), *map(_living, resources.rows()))
    for left in found:
        _log.warning("the kernel is closed, and %s", left)
    return found


def _running(runner: Runner) -> Iterator[str]:
    for effect, _ in runner.running():
        yield f"{_named(effect)} still runs; it ignores its cancellation"


def _abandoned(toolboxes: Iterable[Toolbox]) -> Iterator[str]:
    for toolbox in toolboxes:
        for thread in abandoned_of(toolbox):
            yield f"tool {thread.tool} of toolbox {toolbox.name} still runs in a thread that nobody can end"


def _living(row: ResourceRow) -> str:
    pids = ", ".join(str(takes.pid) for takes in row.takes if takes.pid is not None)
    return f"{row.kind} {row.name} of {'/'.join(row.scope)} was not given back" + (f" (pid {pids})" if pids else "")


def _named(effect: Effect) -> str:
    if isinstance(effect, (RunCall, Probe)):
        return f"{call_id(effect.log, effect.call)} ({effect.tool})"
    if isinstance(effect, RequestModel):
        return f"the model request of {turn_id(effect.log, effect.turn)}"
    return f"{type(effect).__name__} of {effect.log}"
