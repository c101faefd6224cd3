"""Entry kinds of a call, from its judgement to its end."""

from __future__ import annotations

from typing import ClassVar

from agentos.components import CallStatus, Concern, CycleLink, Outcome, Phase, Resolution, Verdict, Word
from agentos.events.kinds.base import EntryData
from agentos.ids import Name


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
