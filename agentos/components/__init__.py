"""Pure data attached to entities. `STORED` lists what the log keeps, by its key in stored records."""

from agentos.components.agent import (
    AgentConfig,
    AgentProblem,
    AgentState,
    ToolboxBinding,
    ToolboxConfig,
    ToolboxSharing,
    ToolboxState,
    ToolboxStatus,
)
from agentos.components.base import Component, Word
from agentos.components.call import (
    OPEN_STATUSES,
    CallConfig,
    CallState,
    CallStatus,
    EffectClass,
    Resolution,
    Waiting,
)
from agentos.components.conversation import (
    ContextWindow,
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    WaitingInput,
)
from agentos.components.tool import (
    Access,
    AgentContext,
    ApprovalMode,
    ModelRef,
    Narrowing,
    Rule,
    ToolboxVersion,
    ToolSpec,
    Verdict,
)
from agentos.components.turn import Outcome, Phase, TurnConfig, TurnLimits, TurnState

STORED: tuple[type[Component], ...] = (
    AgentConfig,
    AgentState,
    CallConfig,
    CallState,
    ContextWindow,
    ConversationConfig,
    ConversationState,
    ToolboxConfig,
    TurnConfig,
    TurnState,
)

__all__ = [
    "OPEN_STATUSES",
    "STORED",
    "Access",
    "AgentConfig",
    "AgentContext",
    "AgentProblem",
    "AgentState",
    "ApprovalMode",
    "CallConfig",
    "CallState",
    "CallStatus",
    "Component",
    "ContextWindow",
    "ConversationConfig",
    "ConversationState",
    "ConversationStatus",
    "EffectClass",
    "ModelRef",
    "Narrowing",
    "Outcome",
    "Phase",
    "Resolution",
    "Rule",
    "ToolSpec",
    "ToolboxBinding",
    "ToolboxConfig",
    "ToolboxSharing",
    "ToolboxState",
    "ToolboxStatus",
    "ToolboxVersion",
    "TurnConfig",
    "TurnLimits",
    "TurnState",
    "Verdict",
    "Waiting",
    "WaitingInput",
    "Word",
]
