"""The time of a running call stands still while it waits for an inner call that waits for a person.

A person may think for days; the limit of a call is about what its tool does. Waiting counts from the moment at which the
question is stored until its answer is, on every call above that waits for the end of this one, through delegations too.
What a tool does besides, without waiting, is not stopped meanwhile: `approval_s` and `doubt_s` bound that time. Live: a
call that runs again after a restart has all of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentos.components import CallConfig, CallState, TurnConfig, TurnState
from agentos.effects.base import Running
from agentos.ids import LogId, log_and_seq
from agentos.journal.projections import Find, waits_for_person
from agentos.kernel.nesting import Asking, queued
from agentos.resources.borrowing import Caller
from agentos.world import View, World


class Standstill:
    """asking holds the tasks that wait for inner calls; running_call gives the attempt of a call that runs now."""

    def __init__(self, world: World, asking: Asking) -> None:
        self._world, self._asking = world, asking
        self._standing: dict[Caller, list[Running]] = {}
        self.running_call: Callable[[LogId, int], Running | None] = lambda log, call: None

    def waits(self, view: View, call: int) -> None:
        """A call waits for a person, or somebody waits for the end of it who did not before."""
        waiting = (view.log, call)
        for running, through in self._above(view.log, view.find, view.turn, call):
            running.stand_still(waiting, through)
            self._standing.setdefault(waiting, []).append(running)

    def joined(self, view: View) -> None:
        """An input has come for the open turn of a conversation to end: whoever sent it waits for what its calls wait for."""
        state = view.find(view.turn, TurnState)
        for call in state.calls + state.inner if state is not None else ():
            call_state = view.find(call, CallState)
            if call_state is not None and waits_for_person(call_state):
                self.waits(view, call)

    def goes_on(self, log: LogId, call: int) -> None:
        """A call waits for nobody any more: it was answered, or has ended."""
        for running in self._standing.pop((log, call), ()):
            running.go_on((log, call))

    def left(self, log: LogId, call: int, index: int) -> None:
        """A running call waits no more for the inner call of this number, which may wait on."""
        running = self.running_call(log, call)
        if running is None or not running.still:
            return
        waiting = [caller for caller, through in running.still.items() if through == index]
        slice_ = self._world.slice(log)
        config = slice_.get(call, CallConfig) if slice_ is not None else None
        above = list(self._above(log, slice_.get, config.turn, call)) if slice_ is not None and config else []
        for caller in waiting:
            for one in (running, *(other for other, _ in above)):
                one.go_on(caller)

    def lost(self, log: LogId) -> None:
        """Another writer goes on with a conversation: what is answered there is not heard of here."""
        for waiting in [caller for caller in self._standing if caller[0] == log]:
            self.goes_on(log, waiting[1])

    def _above(self, log: LogId, find: Find, turn: int, call: int) -> Iterator[tuple[Running, int]]:
        """The running calls that wait for the end of this one, each with the number of the inner call that it waits for.

        Who asked for an inner call and does not wait for it is passed by, with all above: they wait for what it does.
        """
        below: list[tuple[LogId, Find, int, int]] = [(log, find, turn, call)]
        seen: set[LogId] = set()
        while below:
            log, find, turn, call = below.pop()
            while (config := find(call, CallConfig)) is not None and config.parent is not None:
                running = self.running_call(LogId(log), config.parent)
                if running is None or (log, config.parent, config.ordinal) not in self._asking:
                    break
                yield running, config.ordinal
                call = config.parent
            else:
                if log not in seen:
                    seen.add(log)
                    below += self._delegations(find, turn)

    def _delegations(self, find: Find, turn: int) -> Iterator[tuple[LogId, Find, int, int]]:
        """The calls of other conversations that a turn works for, or that wait for it to end."""
        config = find(turn, TurnConfig)
        for cause in (*config.causes, *queued(find)) if config is not None else ():
            log, call = log_and_seq(cause)
            slice_ = self._world.slice(log)
            found = slice_.get(call, CallConfig) if slice_ is not None else None
            if slice_ is not None and found is not None:
                yield log, slice_.get, found.turn, call
