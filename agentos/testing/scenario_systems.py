"""Systems of users that a scenario may name; a file never names code to import."""

from __future__ import annotations

from agentos.components import Phase, TurnState
from agentos.systems import System
from agentos.systems.schedule import system
from agentos.world import Decision, View

FATAL_WORD = "boom"


@system(over=TurnState, phase=Phase.PROMPT, after="admit")
def raises_on_boom(view: View, _turn: int) -> Decision:
    """A rule with a bug: it breaks on turns whose last message says `boom`."""
    last = view.transcript.messages[-1] if view.transcript.count else None
    if last is not None and FATAL_WORD in last.text:
        raise ValueError(f"nobody thought of {FATAL_WORD}")
    return Decision.none()


SYSTEMS: dict[str, System] = {raises_on_boom.name: raises_on_boom}
