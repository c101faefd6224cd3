"""Intake: what a conversation has received and not yet decided on. Live data; what a fed entry keeps of it is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from agentos.components import (
    CallStatus,
    Concern,
    CycleLink,
    GivenEnd,
    Narrowing,
    Outcome,
    Resolution,
    Verdict,
    Word,
)
from agentos.events.model import ModelReply
from agentos.ids import AgentId, CallId, ConversationId, Digest, Name


class Start(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Begin the conversation, unless it has begun (create or attach)."""

    agent: AgentId
    slug: Name
    root: ConversationId
    parent: ConversationId | None = None
    parent_call: CallId | None = None
    depth: int = 0
    children_budget: int = 0
    key: Name | None = None
    by: Name = Name("")
    tenant: Name | None = None


class Input(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A message of a user, or the task of a delegating call (cause). ticket names who waits for the storing, 0 nobody."""

    text: str
    key: Name | None = None
    by: Name = Name("")
    cause: CallId | None = None
    ephemeral: bool = False
    ticket: int = 0


class Delegate(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A delegation as it arrives at the child: create or attach, then the task, and what it leaves of the child's tools."""

    start: Start
    text: str
    call: CallId
    narrowing: Narrowing | None = None


class ModelReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """How one model request ended: with a reply, or with the kind of error and what had come so far."""

    turn: int
    base_seq: int
    reply: ModelReply
    error: Name | None = None
    message: str = ""
    retry_after_s: float | None = None


class CallReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """How one attempt of a call ended. text is what the model reads; whole is the uncut result when text is a part."""

    call: int
    attempt: int
    status: CallStatus
    text: str
    kind: Name | None = None
    whole: str | None = None
    finish: bool = False


class ChildEnded(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The end of a child's turn as it arrives at the delegating call. child_head is the child's digest after that
    unit; children_used counts the conversations that this call started, the child itself included."""

    call: CallId
    outcome: Outcome
    text: str
    outcome_name: Name | None = None
    child_head: Name = Name("")
    children_used: int = 0


class HookReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What the hooks of one point said. arguments replaces those of the call when not None; given ends it without a run."""

    call: int
    point: Name
    verdict: Verdict
    by: Name
    arguments: dict[str, Any] | None = None
    reason: str = ""
    given: GivenEnd | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A person's or a port's answer to an approval request, named by its call."""

    call: CallId
    verdict: Verdict
    by: Name = Name("")
    reason: str = ""


class Probed(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What the tool itself knows of a doubted call: done, failed, or unknown."""

    call: int
    status: CallStatus
    text: str


class Resolve(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What a person knows of a call in doubt, or of one that ended with an unknown outcome, once for each attempt.

    tool and asked (it with its arguments, shortened) say which call that is to whoever reads of it later; the store had
    them where the command was given. result is what the call brought, None when the person does not say.
    """

    call: CallId
    attempt: int
    resolution: Resolution
    tool: Name
    asked: str
    by: Name = Name("")
    result: str | None = None
    reason: str = ""


class InnerCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """An attempt of a running call asks for a call of its own. index counts what that attempt has asked for, from 1."""

    call: int
    attempt: int
    index: int
    tool: Name
    arguments: Any


class Progress(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Something that a running call wants kept."""

    call: int
    data: Any


class Cancel(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """End the open turn. call limits it to the turn that took that delegation."""

    by: Name = Name("user")
    reason: Name = Name("interrupt")
    call: CallId | None = None


class WakeReason(Word):
    RETRY = "retry"
    DEADLINE = "deadline"
    APPROVAL = "approval"
    GRACE = "grace"
    DOUBT = "doubt"


class Wake(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A time that was waited for has come. turn guards against a wake-up that comes late."""

    reason: WakeReason
    turn: int
    call: int = 0


class Given(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """How a call ends in a fork in which it was open: with the result that somebody gives in the place of what it brought
    (replaced), or as it ended in the log that the fork comes from."""

    call: int
    text: str
    replaced: bool = True
    status: CallStatus = CallStatus.DONE
    kind: Name | None = None


class Branch(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What is a fork's own from its first unit on: its root, which is itself; its agent, which may be another one; and what
    the open turn pins from there on, None when none is open."""

    root: ConversationId
    agent: AgentId
    slug: Name
    context: Digest | None = None
    given: tuple[Given, ...] = ()


class Resume(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The effects of the open turn are gone: after a crash (n counts), or since this is a fork. With a branch, the fork
    begins here, and its open turn goes on when somebody runs it."""

    n: int = 1
    fork: bool = False
    branch: Branch | None = None


class Control(Word):
    PAUSE = "pause"
    UNPAUSE = "unpause"
    CLOSE = "close"


class ControlItem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Pause, unpause or close the conversation."""

    control: Control
    by: Name = Name("user")


class Erase(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Erase every private value of the log's own entries, of which there are so many (bodies) up to seq upto, its end. Where
    the log has gone on since, or a turn is open, it calls for nothing. ticket names who waits for it, 0 nobody."""

    upto: int
    bodies: int
    reason: Name
    by: Name = Name("user")
    ticket: int = 0


class ResourceNote(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """Something of a resource is worth an entry: who of this conversation holds it or waits for it (call), what of it, how
    long so far (ms), and the waits of a deadlock. of is the kind of the resource."""

    call: int
    what: Concern
    resource: Name
    of: Name
    ms: int = 0
    cycle: tuple[CycleLink, ...] = ()


class SlotFree(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A toolbox has room for this waiting call. Not recorded: call.started is."""

    call: int


Item = (
    Start
    | Input
    | Delegate
    | ModelReport
    | CallReport
    | ChildEnded
    | HookReport
    | Answer
    | Probed
    | Resolve
    | InnerCall
    | Progress
    | Cancel
    | Wake
    | Resume
    | ControlItem
    | Erase
    | ResourceNote
    | SlotFree
)

POSTED: dict[str, type[msgspec.Struct]] = {
    "delegate": Delegate,
    "child_ended": ChildEnded,
    "cancel": Cancel,
    "answer": Answer,
    "input": Input,
    "control": ControlItem,
    "resolve": Resolve,
    "erase": Erase,
}
"""The items that may travel through `inbox`, by their kind there."""

POST_KIND: dict[type[msgspec.Struct], str] = {type_: kind for kind, type_ in POSTED.items()}
