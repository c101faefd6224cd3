"""What is known of a conversation."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components.base import Component, Word
from agentos.components.tool import Narrowing
from agentos.ids import AgentId, CallId, ConversationId, Micros, Name


class ConversationStatus(Word):
    """What is stored; `running` and `parked` are told from the open turn."""

    OPEN = "open"
    PAUSED = "paused"
    CLOSED = "closed"


class ConversationConfig(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Whose conversation it is and where it hangs in the tree of delegations.

    depth is 0 for a root. children_budget is how many conversations may still be started below this one, itself not
    counted; a delegation spends from the parent's budget what it grants.
    """

    component: ClassVar[str] = "conversation_config"
    agent: AgentId
    slug: Name
    root: ConversationId
    started_at: Micros
    parent: ConversationId | None = None
    parent_call: CallId | None = None
    depth: int = 0
    children_budget: int = 0
    tenant: Name | None = None


class WaitingInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """One received input that no turn has taken yet: the seq of its entry, and the call that waits for the answer.

    narrowing is what that delegation leaves of the tools of the turn that takes it.
    """

    seq: int
    cause: CallId | None = None
    ephemeral: bool = False
    narrowing: Narrowing | None = None


class ContextWindow(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Where the model's view of the conversation begins: at the turn of that seq. Absent while it sees everything."""

    component: ClassVar[str] = "context_window"
    first_turn: int


class ConversationState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Where the conversation stands.

    open_turn is the seq of the running turn, 0 when idle; last_turn that of the last settled one. The counters are over
    all settled turns. children_used is what was spent of children_budget. resolutions are the seqs of entries with a note
    for the model of the next turn: what people said of calls that had ended with an unknown outcome. erased_at is when its
    texts were erased, in microseconds, UTC; None while they stand.
    """

    component: ClassVar[str] = "conversation_state"
    status: ConversationStatus = ConversationStatus.OPEN
    open_turn: int = 0
    last_turn: int = 0
    waiting: tuple[WaitingInput, ...] = ()
    turns: int = 0
    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    children_used: int = 0
    resolutions: tuple[int, ...] = ()
    erased_at: Micros | None = None
