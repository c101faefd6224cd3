"""What a tool says of itself, and the agent's pinned context that offers it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components.base import Word
from agentos.components.call import EffectClass
from agentos.components.turn import TurnLimits
from agentos.ids import AgentId, Digest, Name


class Access(Word):
    """What a tool does to the world outside; a hint for policies, not a guard."""

    READ = "read"
    WRITE = "write"


class Narrowing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a delegation leaves of the child's own tools: patterns of names with `*` and `?`.

    expose: those that the child's model sees; grant: those that its calls may use. One that is None is as the other.
    """

    expose: tuple[Name, ...] | None = None
    grant: tuple[Name, ...] | None = None


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One tool as the model sees it, and as the gate judges it.

    schema is a JSON Schema of the arguments, an object. toolbox names the toolbox that runs it; subagent the slug of the
    agent that a delegation goes to, and then toolbox is None. timeout_s overrides the agent's tool_s.

    Of a delegation: reuse has all those of a conversation go to one child; narrowing limits the child's tools; history
    is how many of the last messages of the asking agent stand before the task, 0 for the task alone.
    """

    name: Name
    description: str
    schema: dict[str, Any]
    effect: EffectClass = EffectClass.ONCE
    access: Access = Access.WRITE
    toolbox: Name | None = None
    subagent: Name | None = None
    reuse: bool = False
    timeout_s: float | None = None
    narrowing: Narrowing | None = None
    history: int = 0


class Verdict(Word):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    HOOK = "hook"


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """allow, ask or deny for tools whose name matches a pattern (`*` and `?`)."""

    tool: str
    verdict: Verdict


class ApprovalMode(Word):
    """What becomes of a call that needs a person: nobody listens (deny), everything is allowed, or the turn parks."""

    DENY = "deny"
    ALLOW = "allow"
    PARK = "park"


class ModelRef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which model answers: the kind of the adapter, the name there, and the adapter's options, none of them secret."""

    kind: str
    name: str = ""
    options: dict[str, Any] = {}


class ToolboxVersion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which version of a toolbox a context was made with: the digest of its toolset, and the count of them so far.

    The body of the digest stands in `definitions`; each version has an entry in the toolbox's log.
    """

    name: Name
    toolset: Digest
    revision: int = 0


class AgentContext(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The resolved configuration that a turn pins by digest; its body stands once in `definitions`.

    tools are those offered to the model and hidden those that are not, each sorted by name; granted are the names that a
    call may use, offered or not. hooks are the names of
    the hook points that user code listens on. rules is the digest of the systems and policies that decide.
    definition and revision name the version of the agent, as its log counts them, and toolboxes those of what it uses,
    sorted by name; a context of an older store does not tell.
    """

    agent: AgentId
    slug: Name
    prompt: tuple[str, ...]
    model: ModelRef
    limits: TurnLimits
    tools: tuple[ToolSpec, ...] = ()
    hidden: tuple[ToolSpec, ...] = ()
    granted: tuple[Name, ...] = ()
    policy: tuple[Rule, ...] = ()
    approval: ApprovalMode = ApprovalMode.DENY
    hooks: tuple[Name, ...] = ()
    depth_max: int = 8
    rules: Digest = Digest("")
    definition: Digest = Digest("")
    revision: int = 0
    toolboxes: tuple[ToolboxVersion, ...] = ()
