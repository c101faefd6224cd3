"""What follows a pass in which a system raised: its turn is taken to its end, or whoever waits for it is told.

Nobody is left waiting: neither people, nor the calls of other conversations, to which nobody else would tell it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from agentos.errors import AgentosError
from agentos.events.intake import Cancel, Delegate, Erase, Resume, Start
from agentos.ids import CallId, Name
from agentos.kernel.loaded import Loaded
from agentos.kernel.waiters import Waiters, fail_asks
from agentos.systems.ending import RAISED
from agentos.systems.schedule import PassFailure
from agentos.world import View

_log = logging.getLogger(__name__)
BEGINS_TURNS = "admit"
"""The system that does."""
END_TURNS = frozenset({"recover", "settle"})
"""Those without which a turn would not end; of one that another raised in, they see to that."""
KERNEL = Name("kernel")
"""On whose word a task is taken back that no turn could begin for."""


class Raised:
    """wake has the tick look at a conversation again."""

    def __init__(self, waiters: Waiters, wake: Callable[[Loaded], None]) -> None:
        self._waiters, self._wake = waiters, wake

    def follow(self, loaded: Loaded, view: View, failures: Sequence[PassFailure]) -> None:
        """What is undecided after a pass is looked at again as long as passes bring anything, and once where one did not:
        a system that raises there for the second time would do so for ever."""
        if not view.turn:
            self._no_turn(loaded, view, failures)
        elif view.drafts or loaded.struck != loaded.head.row.seq:
            loaded.struck = loaded.head.row.seq
            self._wake(loaded)
        elif hinder := [failure for failure in failures if failure.system in END_TURNS]:
            _log.error("%s: its turn cannot end: system %s raised", view.log, hinder[0].system)
            fail_asks(loaded, hinder[0].error)

    def _no_turn(self, loaded: Loaded, view: View, failures: Sequence[PassFailure]) -> None:
        """What raised in a turn that ended with it is told by that, and does not concern what waits for the next."""
        if view.turned:
            failures = [failure for failure in failures if failure.system == BEGINS_TURNS]
        if failures:
            cause = failures[0].error.error
            self._tell(loaded, view, cause if isinstance(cause, AgentosError) else failures[0].error)
            self._take_back(loaded, view, failures[0].system)
        if view.drafts and loaded.intake:
            self._wake(loaded)  # a pass that was cut short left something undecided

    def _tell(self, loaded: Loaded, view: View, error: Exception) -> None:
        """Those who sent what is not stored, and those who wait for a turn."""
        seen = {id(item) for item in view.intake}
        for item in list(loaded.intake):
            if type(item) is Erase and id(item) not in seen:
                continue  # it came meanwhile, and no turn has to begin for it
            if type(item) is Start or self._waiters.tell(item, error):
                loaded.intake.remove(item)
        self._waiters.begun(loaded, error)
        fail_asks(loaded, error)

    def never_began(self, loaded: Loaded, view: View, system: Name) -> None:
        """What a pass took is dropped, but for tasks of other conversations: they are taken, and taken back."""
        if not any(type(item) is Cancel for item in view.taken):
            loaded.intake[:0] = [item for item in view.taken if type(item) is Delegate]
            self._take_back(loaded, view, system)

    def _take_back(self, loaded: Loaded, view: View, system: Name) -> None:
        """The tasks of other conversations that no turn begins for; their calls end with that."""
        reason = Name(f"{RAISED}{system}")
        cancelled = {item.call for item in loaded.intake if type(item) is Cancel}
        tasks = [call for call in dict.fromkeys(_tasks(loaded, view)) if call not in cancelled]
        loaded.intake += [Cancel(by=KERNEL, reason=reason, call=call) for call in tasks]
        if tasks:
            _log.error("%s: no turn can begin for what was delegated to it: %s", view.log, reason)
            self._wake(loaded)


def _tasks(loaded: Loaded, view: View) -> Iterator[CallId]:
    """Those on their way, and those that wait; but one that was just taken up after a restart may be so before its agent
    is installed, and keeps what it has."""
    yield from (item.call for item in loaded.intake if type(item) is Delegate)
    if view.conversation is not None and not any(type(item) is Resume for item in (*view.taken, *view.intake)):
        yield from (waiting.cause for waiting in view.conversation.waiting if waiting.cause is not None)
