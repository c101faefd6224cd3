"""Systems that scenarios may add to the schedule."""

from __future__ import annotations

from agentos.components import CallConfig, CallState, CallStatus, Phase, TurnState
from agentos.systems import System, system
from agentos.world import Decision, View


@system(over=TurnState, phase=Phase.CALL, after="gate")
def raising(view: View, turn: int) -> Decision:
    """Raises when a call of `explode` is to be started."""
    for call in view.get(turn, TurnState).calls:
        proposed = view.get(call, CallState).status is CallStatus.PROPOSED
        if proposed and view.get(call, CallConfig).tool == "explode":
            raise RuntimeError("this system has a bug")
    return Decision.none()


SYSTEMS: dict[str, System] = {"raising": raising}
