"""The entry kinds of a conversation: one table.

Each kind has a data type, whose docstring says what the entry means; `private` names its payloads in order; `fed` tells
whether an entry records one item of intake (replay rebuilds the intake from these) or is decided by a system; `after`
lists the phases that its turn may be moved to by the entry.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from agentos.components import CallStatus, Concern, CycleLink, Outcome, Phase, Resolution, Verdict, Word
from agentos.events.intake import Control, WakeReason
from agentos.events.model import Finish, Usage
from agentos.ids import Digest, Name

NO_PHASE: frozenset[Phase] = frozenset()


class EntryData(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What an entry says beside its component changes."""

    kind: ClassVar[str]
    fed: ClassVar[bool] = False
    private: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[frozenset[Phase]] = NO_PHASE
    writer: ClassVar[str] = ""


class ConversationStarted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation begins. Agent, parent, root, depth and budget stand in its ConversationConfig."""

    kind: ClassVar[str] = "conversation.started"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"
    key: Name | None = None


class InputReceived(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A message was received. In an open turn it waits for the next one. An ephemeral one leaves with its turn."""

    kind: ClassVar[str] = "input.received"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("text",)
    writer: ClassVar[str] = "admit"
    key: Name | None = None
    ephemeral: bool = False


class TurnStarted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A turn takes all waiting inputs. Their seqs, the pinned context and the limits stand in its TurnConfig."""

    kind: ClassVar[str] = "turn.started"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.PROMPT})
    writer: ClassVar[str] = "admit"


class ModelRequested(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A model is asked. request is the digest over the context and every message; messages counts them."""

    kind: ClassVar[str] = "model.requested"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.COMPLETE})
    writer: ClassVar[str] = "prompt"
    request: Digest
    messages: int


class AskedCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call of a reply; its arguments are a payload. id is the provider's, cleaned to a name."""

    tool: Name
    id: Name | None = None


class ModelFinished(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A model request ended. Payloads: text, then thinking, error and opaque if any, then the arguments of each call in
    order. kept_for says which adapters send thinking and opaque back; model, response and finish_word are the provider's."""

    kind: ClassVar[str] = "model.finished"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("text", "thinking", "error", "opaque", "arguments")
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.GATE, Phase.PROMPT, Phase.SETTLING})
    writer: ClassVar[str] = "complete, recover, settle"
    finish: Finish
    usage: Usage = Usage()
    calls: tuple[AskedCall, ...] = ()
    error: Name | None = None
    retry_after_s: float | None = None
    kept_for: Name | None = None
    model: Name | None = None
    response: Name | None = None
    finish_word: Name | None = None


class CallProposed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A call of a reply is judged: allow, deny, ask, or wait for the hooks. It introduces the call."""

    kind: ClassVar[str] = "call.proposed"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.CALL})
    writer: ClassVar[str] = "gate"
    verdict: Verdict


class CallNested(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt of a running call asks for a call of its own, which is judged like one of a reply. It introduces the inner
    call."""

    kind: ClassVar[str] = "call.nested"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("arguments",)
    writer: ClassVar[str] = "call"
    verdict: Verdict
    attempt: int


class HookDecided(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The hooks of a point decided on a call; their changes of the arguments are a payload. given: they have its result,
    with which it ends right behind this entry."""

    kind: ClassVar[str] = "hook.decided"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("arguments", "reason")
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.CALL})
    writer: ClassVar[str] = "gate, call"
    point: Name
    verdict: Verdict
    given: bool = False


class ApprovalRequested(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A person is asked about a call; the request is named by the call's id. The turn parks."""

    kind: ClassVar[str] = "approval.requested"
    writer: ClassVar[str] = "gate, call"
    tool: Name


class ApprovalDecided(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """Somebody answered the request."""

    kind: ClassVar[str] = "approval.decided"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("reason",)
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.CALL})
    writer: ClassVar[str] = "gate, call"
    verdict: Verdict


class CallStarted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A call has its slot and goes to the tool, or to a child conversation, right after this is stored."""

    kind: ClassVar[str] = "call.started"
    writer: ClassVar[str] = "call, recover"


class CallProgress(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A running call asked for something to be kept."""

    kind: ClassVar[str] = "call.progress"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("data",)
    writer: ClassVar[str] = "call"


class CallSource(Word):
    """Where the end of a call comes from: a report of its runner, the end of a child, a probe, a decision, or a hook that
    gave the result. In a fork also: replaced, what whoever forked gave in its place; origin, as it ended in the log that
    the fork comes from."""

    REPORT = "report"
    CHILD = "child"
    PROBE = "probe"
    DECIDED = "decided"
    HOOK = "hook"
    REPLACED = "replaced"
    ORIGIN = "origin"


class CallFinished(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt of a call ended. Payloads: result, and whole when it was cut. A lost attempt is followed by another.
    parent is the call that asked for an inner call: its result goes there, and is no message."""

    kind: ClassVar[str] = "call.finished"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("result", "whole")
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.PROMPT, Phase.SETTLING})
    writer: ClassVar[str] = "gate, call, recover, settle"
    status: CallStatus
    call_kind: Name | None = None
    source: CallSource = CallSource.REPORT
    finish: bool = False
    child_head: Name | None = None
    outcome: Outcome | None = None
    outcome_name: Name | None = None
    children_used: int = 0
    parent: int | None = None


class CallDoubted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A started `once` call whose effects nobody can tell after a crash; it is not run again, but its tool is asked. With
    probed, which is fed: the tool cannot tell, for that reason, and a person is waited for."""

    kind: ClassVar[str] = "call.doubted"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("reason",)
    writer: ClassVar[str] = "recover, call"
    probed: bool = False


class CallResolved(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A person says what became of a call. One in doubt ends by it, or starts again; one that had ended as unknown stays so,
    and the model of the next turn reads the note. asked is the tool with its arguments, shortened."""

    kind: ClassVar[str] = "call.resolved"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("note", "asked", "result", "reason")
    writer: ClassVar[str] = "admit, call"
    resolution: Resolution
    tool: Name
    attempt: int


class TurnCancelling(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The turn is being ended before its time: by a person, a delegating call, a deadline, or a system that raised."""

    kind: ClassVar[str] = "turn.cancelling"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLING})
    writer: ClassVar[str] = "admit, the tick"
    reason: Name
    call: Name | None = None
    decided: bool = False


class WakeFired(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A time that was waited for has come."""

    kind: ClassVar[str] = "wake.fired"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.CALL, Phase.SETTLING})
    writer: ClassVar[str] = "admit, gate, call, settle"
    reason: WakeReason
    call: int = 0


class TurnResumed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A recovery or a fork found the turn open and its effects gone. held, which is so in a fork: the turn waits for whoever
    runs the fork; the context that it pins from here on stands in its TurnConfig."""

    kind: ClassVar[str] = "turn.resumed"
    fed: ClassVar[bool] = True
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLING})
    writer: ClassVar[str] = "recover"
    n: int = 1
    fork: bool = False
    held: bool = False


class ConversationForked(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A fork begins where no turn is open. Its root and its agent stand in its ConversationConfig."""

    kind: ClassVar[str] = "conversation.forked"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "recover"


class TurnFinished(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The turn ended; its outcome and counters stand in its TurnState."""

    kind: ClassVar[str] = "turn.finished"
    after: ClassVar[frozenset[Phase]] = frozenset({Phase.SETTLED})
    writer: ClassVar[str] = "settle"


class ConversationPaused(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation begins no other turn until it is unpaused; an open one goes on to its end."""

    kind: ClassVar[str] = "conversation.paused"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


class ConversationUnpaused(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """Inputs that wait are taken again."""

    kind: ClassVar[str] = "conversation.unpaused"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


class ConversationClosed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The conversation takes no more inputs; its history stays."""

    kind: ClassVar[str] = "conversation.closed"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"


CONTROLS: dict[Control, type[EntryData]] = {
    Control.PAUSE: ConversationPaused,
    Control.UNPAUSE: ConversationUnpaused,
    Control.CLOSE: ConversationClosed,
}


class ChildLate(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A child ended after its call had been finished without it."""

    kind: ClassVar[str] = "child.late"
    fed: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = ("result",)
    writer: ClassVar[str] = "admit"
    child_head: Name
    outcome: Outcome
    outcome_name: Name | None = None
    children_used: int = 0


class PayloadErased(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """The receipt of an erase: the private values of this log's own entries up to seq upto, so many of them (bodies), went
    with this unit, and what waited in the inbox. The conversation is closed by it."""

    kind: ClassVar[str] = "payload.erased"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit"
    upto: int
    bodies: int
    reason: Name


class ResourceNoted(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """A shared resource that a call of this conversation holds or waits for is worth a note: held or waited for long, held
    when it had to close, found broken, or a deadlock, whose waits are the cycle, the refused one first. ms: how long so far;
    of: its kind. decided: the slots of a toolbox, for which the call would wait for ever; it ends right behind this entry."""

    kind: ClassVar[str] = "resource.noted"
    fed: ClassVar[bool] = True
    writer: ClassVar[str] = "admit, call"
    what: Concern
    resource: Name
    of: Name
    ms: int = 0
    cycle: tuple[CycleLink, ...] = ()
    decided: bool = False


class Snapshot(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """Every loaded stored component of the log, as changes; a fold may begin here. Not compared by replay."""

    kind: ClassVar[str] = "snapshot"
    writer: ClassVar[str] = "journal"


class AgentInstalled(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In an agent's log: a definition comes into force."""

    kind: ClassVar[str] = "agent.installed"
    writer: ClassVar[str] = "kernel"


class AgentRemoved(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In an agent's log: it starts no more conversations."""

    kind: ClassVar[str] = "agent.removed"
    writer: ClassVar[str] = "kernel"


class ToolboxOpened(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it offers its tools, for the first time or again. Its ToolboxConfig names the toolset."""

    kind: ClassVar[str] = "toolbox.opened"
    writer: ClassVar[str] = "kernel"


class ToolboxChanged(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it offers another toolset, or the same made of other files."""

    kind: ClassVar[str] = "toolbox.changed"
    writer: ClassVar[str] = "kernel"


class ToolboxClosed(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In a toolbox's log: it was removed. The end of a process writes none."""

    kind: ClassVar[str] = "toolbox.closed"
    writer: ClassVar[str] = "kernel"


class SharesChanged(EntryData, frozen=True, omit_defaults=True, kw_only=True):
    """In the program's log: an agent or a tenant has another weight where many wait. Its Shares are all that are in force."""

    kind: ClassVar[str] = "shares.changed"
    writer: ClassVar[str] = "kernel"


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
