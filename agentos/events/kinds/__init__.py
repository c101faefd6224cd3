"""The entry kinds of all logs: one table.

Each kind has a data type, whose docstring says what the entry means; `private` names its payloads in order; `fed` tells
whether an entry records one item of intake (replay rebuilds the intake from these) or is decided by a system; `after`
lists the phases that its turn may be moved to by the entry.
"""

from __future__ import annotations

from typing import Any

from agentos.events.kinds.administration import (
    AgentInstalled,
    AgentRemoved,
    SharesChanged,
    Snapshot,
    ToolboxChanged,
    ToolboxClosed,
    ToolboxOpened,
)
from agentos.events.kinds.base import EntryData
from agentos.events.kinds.calls import (
    ApprovalDecided,
    ApprovalRequested,
    CallDoubted,
    CallFinished,
    CallNested,
    CallProgress,
    CallProposed,
    CallResolved,
    CallSource,
    CallStarted,
    HookDecided,
    ResourceNoted,
)
from agentos.events.kinds.conversations import (
    CONTROLS,
    ChildLate,
    ConversationClosed,
    ConversationForked,
    ConversationPaused,
    ConversationStarted,
    ConversationUnpaused,
    InputReceived,
    PayloadErased,
)
from agentos.events.kinds.turns import (
    AskedCall,
    ModelFinished,
    ModelRequested,
    TurnCancelling,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    WakeFired,
)

__all__ = [
    "CONTROLS",
    "JSON_PAYLOADS",
    "KINDS",
    "MESSAGE_ROLES",
    "AgentInstalled",
    "AgentRemoved",
    "ApprovalDecided",
    "ApprovalRequested",
    "AskedCall",
    "CallDoubted",
    "CallFinished",
    "CallNested",
    "CallProgress",
    "CallProposed",
    "CallResolved",
    "CallSource",
    "CallStarted",
    "ChildLate",
    "ConversationClosed",
    "ConversationForked",
    "ConversationPaused",
    "ConversationStarted",
    "ConversationUnpaused",
    "EntryData",
    "HookDecided",
    "InputReceived",
    "ModelFinished",
    "ModelRequested",
    "PayloadErased",
    "ResourceNoted",
    "SharesChanged",
    "Snapshot",
    "ToolboxChanged",
    "ToolboxClosed",
    "ToolboxOpened",
    "TurnCancelling",
    "TurnFinished",
    "TurnResumed",
    "TurnStarted",
    "WakeFired",
    "role_of",
]

KINDS: dict[str, type[EntryData]] = {
    type_.kind: type_
    for type_ in (
        ConversationStarted,
        InputReceived,
        TurnStarted,
        ModelRequested,
        ModelFinished,
        CallProposed,
        CallNested,
        HookDecided,
        ApprovalRequested,
        ApprovalDecided,
        CallStarted,
        CallProgress,
        CallFinished,
        CallDoubted,
        CallResolved,
        TurnCancelling,
        WakeFired,
        TurnResumed,
        ConversationForked,
        TurnFinished,
        ConversationPaused,
        ConversationUnpaused,
        ConversationClosed,
        ChildLate,
        PayloadErased,
        ResourceNoted,
        Snapshot,
        AgentInstalled,
        AgentRemoved,
        ToolboxOpened,
        ToolboxChanged,
        ToolboxClosed,
        SharesChanged,
    )
}

JSON_PAYLOADS = frozenset({"arguments", "data", "opaque"})
"""Payload names whose bodies are JSON; the bodies of all others are text."""

MESSAGE_ROLES = {InputReceived.kind: "user", ModelFinished.kind: "assistant", CallFinished.kind: "tool"}
"""Kinds whose first payload is a message, and its role; it stands in the table `messages`, as `role_of` says."""


def role_of(kind: str, data: EntryData | dict[str, Any] | None) -> str | None:
    """The role of the message that an entry's first payload is, None when it is none: as the result of an inner call,
    which only the tool that asked for it reads. data may be plain, as it stands in a head."""
    role = MESSAGE_ROLES.get(kind)
    if role != "tool":
        return role
    parent = data.get("parent") if isinstance(data, dict) else getattr(data, "parent", None)
    return role if parent is None else None
