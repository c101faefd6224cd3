"""Calls that wait for long at a bound of calls at once are noted, once each, with who has the places there."""

from __future__ import annotations

from agentos.clock import Clock
from agentos.components import Concern
from agentos.resources.borrowing import Borrower, Caller, Note
from agentos.resources.bounds import KIND
from agentos.resources.cycle import link_of
from agentos.resources.lookout import Lookout
from agentos.resources.places import Bound, Places
from agentos.resources.wait_graph import Wait


class LateCalls:
    """A call waits since it was first seen to."""

    def __init__(self, at_once: Places[Caller], clock: Clock, lookout: Lookout) -> None:
        self._at_once, self._clock, self._lookout = at_once, clock, lookout
        self._since: dict[Caller, float] = {}
        self._noted: set[Caller] = set()

    def look(self, before_s: float) -> bool:
        """Notes those that wait since before this time, and says whether any call waits."""
        now, before = self._clock.monotonic(), self._since
        self._since = {caller: before.get(caller, now) for caller in self._at_once if self._at_once.waits(caller)}
        self._noted &= self._since.keys()
        for caller, since in self._since.items():
            if since <= before_s and caller not in self._noted:
                self._noted.add(caller)
                self._note(caller, round(1_000 * (now - since)))
        return bool(self._since)

    def _note(self, caller: Caller, ms: int) -> None:
        bound, holders = self._at_once.waits_at(caller)
        said = _said(bound)
        wait = Wait(caller, caller, said, holders, holders, True, ())
        cycle, by = (link_of(wait, self._lookout.named),), Borrower(caller=caller)
        self._lookout.noted_to(Note(what=Concern.STARVED, resource=said, kind=KIND, by=by, ms=ms, cycle=cycle))


def _said(bound: Bound) -> str:
    """A bound of calls in words, which a name can be."""
    setting = "calls_max" if bound.scope == "program" else f"{bound.scope}_calls_max"
    return f"{setting}:{bound.name}" if bound.name else setting
