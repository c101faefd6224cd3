"""The simulator's agents and toolboxes: they delegate to each other and to themselves, and share what they work with."""

from __future__ import annotations

from typing import Any

from agentos.components import Phase, ToolboxSharing, TurnState
from agentos.definitions import AgentSpec
from agentos.definitions.spec import SessionPolicy, SubagentUse
from agentos.ids import log_and_seq
from agentos.kernel import Kernel
from agentos.persistence.base import Store
from agentos.systems import system
from agentos.testing.checker import at_once
from agentos.testing.clock import ManualClock
from agentos.testing.dice import DiceModel, DiceToolbox, Ledger
from agentos.testing.faults import FaultPlan
from agentos.testing.faulty_work import FaultyModel, FaultyToolbox
from agentos.world import Decision, View

AGENTS = ("lead", "twin", "hand")
"""Those that people talk to."""

_TOOLBOXES = {
    "desk": (ToolboxSharing.EXCLUSIVE, 0),
    "pairs": (ToolboxSharing.POOL, 2),
    "book": (ToolboxSharing.READ_WRITE, 0),
    "pocket": (ToolboxSharing.PER_CONVERSATION, 0),
    "air": (ToolboxSharing.STATELESS, 0),
}

_LIMITS: dict[str, Any] = {
    "step_limit": 8,
    "call_limit": 16,
    "turn_s": 900.0,
    "tool_s": 30.0,
    "model_s": 40.0,
    "approval_s": 120.0,
    "doubt_s": 90.0,
    "approval": "park",
    "policy": [{"tool": "desk_once", "verdict": "ask"}],
}

_HAND = SubagentUse(slug="hand", session=SessionPolicy.REUSE)
_SPECS = (
    AgentSpec(slug="lead", toolboxes=["desk", "air"], subagents=["twin", _HAND], **_LIMITS),
    AgentSpec(slug="twin", toolboxes=["pairs", "book"], subagents=["twin"], window_messages=12, **_LIMITS),
    AgentSpec(slug="hand", toolboxes=["desk", "pairs", "pocket", "air"], window_messages=5, **_LIMITS),
)


@system(over=TurnState, phase=Phase.CALL, after="gate")
def moody(view: View, turn: int) -> Decision:
    """A user's system that raises now and then, always at the same places."""
    if any(call % 31 == 0 for call in view.get(turn, TurnState).calls):
        raise RuntimeError("not in the mood")
    return Decision.none()


async def enter(kernel: Kernel, store: Store, seed: int, clock: ManualClock, ledger: Ledger, plan: FaultPlan) -> None:
    """Opens the toolboxes and installs the agents in a kernel that was just opened."""

    def stored(call: str, attempt: int) -> bool:
        return _start_is_stored(store, call, attempt)

    def retried(call: str) -> int:
        return _retries_stored(store, call)

    for name, (sharing, size) in _TOOLBOXES.items():
        toolbox = DiceToolbox(
            name, sharing, size, seed=seed, clock=clock, ledger=ledger, stored=stored, retried=retried
        )
        await kernel.add_toolbox(FaultyToolbox(toolbox, plan, clock))
    for spec in _SPECS:
        await kernel.install(spec, model=FaultyModel(DiceModel(seed, clock, ledger), plan, clock))


def _start_is_stored(store: Store, call: str, attempt: int) -> bool:
    log, seq = log_and_seq(call)
    heads = [entry.head for entry in at_once(store.entries(log, seq)) if entry.kind == "call.started"]
    return sum(f'"call":{seq},' in head for head in heads) == attempt


def _retries_stored(store: Store, call: str) -> int:
    log, seq = log_and_seq(call)
    heads = [entry.head for entry in at_once(store.entries(log, seq)) if entry.kind == "call.resolved"]
    return sum(f'"call":{seq},' in head and '"resolution":"retry"' in head for head in heads)
