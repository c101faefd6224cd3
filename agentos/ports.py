"""Protocols that cross families: what a tool sees of its call, and who is asked outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

import msgspec

from agentos.clock import Clock
from agentos.components import Access, ApprovalMode, CallStatus, GivenEnd, Verdict
from agentos.ids import CallId, ConversationId, Name, TurnId
from agentos.lineage import Lineage


class InnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an inner call ended: done, denied, failed, timed_out, cancelled or unknown; kind says more.

    text is its result, whole even where a model would have been shown a part of it, or why there is none.
    """

    call: CallId
    status: CallStatus
    text: str
    kind: Name | None = None

    @property
    def done(self) -> bool:
        return self.status is CallStatus.DONE


class CallContext(Protocol):
    """One attempt of one call, as its tool sees it.

    key is the same over all attempts: give it to whatever must not happen twice.
    """

    agent: Name
    attempt: int
    timeout_s: float

    @property
    def call_id(self) -> CallId: ...
    @property
    def turn(self) -> TurnId: ...
    @property
    def conversation(self) -> ConversationId: ...
    @property
    def key(self) -> str: ...
    @property
    def clock(self) -> Clock:
        """The time of the kernel, by which a tool dates and waits: in tests and simulations it is not that of the machine."""

    @property
    def lineage(self) -> Lineage:
        """The chain of frames from the root conversation down to this call."""

    async def call(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        """Makes an inner call of any tool that the agent's calls may use, a delegation too, and waits for its end.

        It passes the same gate as a call of the model, so it may be denied, or wait for a person; it counts in the turn's
        calls, and stands in the log below this call. The model does not see it. It ends when this call does, however that
        ends; being cancelled here only stops the waiting.
        Errors: ToolError when this attempt is over, has made too many calls (call_limit), or the arguments are over
        payload_bytes_max; CodecError when they are no JSON data. What becomes of the call itself is no error.
        """

    def call_from_thread(self, tool: str, arguments: dict[str, Any]) -> InnerResult:
        """The same for a sync tool, which runs in a thread. Raises ToolError on the event loop."""

    def borrow(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """A handle of a shared resource for the length of an `async with`: the one of this name that belongs to the call, or
        to a scope around it (its turn, conversation, agent, the program), or to a toolbox that its agent uses. One that the
        tool's own toolbox declares (`@resource`) goes before these, and is made when there is none yet.

        access: read or write, for a resource that tells them apart; timeout_s: how long to wait for it, in seconds.
        Errors: ResourceNotFound, ResourceAccessTimeout, ResourceClosed, ResourceBroken, ResourceUpgradeRefused,
        ResourceDeadlock when it would never come free. One that the tool does not catch ends the call as failed.
        """

    def borrow_from_thread(
        self, name: str, *, access: Access = Access.WRITE, timeout_s: float | None = None
    ) -> AbstractContextManager[Any]:
        """`borrow` for a sync tool, which runs in a thread: `with` it. Raises ToolError on the event loop."""

    def resource(
        self,
        kind: str,
        name: str = "",
        *,
        scope: str | None = None,
        options: Mapping[str, Any] | None = None,
        access: Access = Access.WRITE,
        timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        """The same for a resource that is made when it is first asked for: of a kind that the kernel knows, from these
        options, in a scope around the call: call, turn, conversation, toolbox, agent or program; None is that of its kind.

        It is given back with its scope. Who asks again for the name there has the same one, whatever the options say.
        Errors: as `borrow`; ResourceNotFound for an unknown kind; ResourceScopeInvalid; what making it raises.
        """

    def progress(self, data: Any) -> None:
        """Keeps something of a running call in the log (JSON data)."""

    def defer(self, release: Callable[[], Awaitable[None] | None]) -> None:
        """Has something released when the call ends, however it ends; newest first."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person: its id, the tool and the arguments."""

    call: CallId
    tool: Name
    arguments: Any


class Approval(Protocol):
    """Who answers approval requests within this process; see also `agentos.AllowAll` and `agentos.DenyAll`.

    mode overrules that of the agents and is pinned by each turn: DENY and ALLOW answer at once, PARK parks the turn until
    somebody answers.
    """

    @property
    def mode(self) -> ApprovalMode: ...

    async def decide(self, request: ApprovalRequest) -> Verdict | None:
        """ALLOW or DENY; None leaves the request to others, and the turn stays parked."""


ApprovalHandler = Approval
"""The name of the port in earlier systems."""


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook says: a verdict, arguments in place of the call's own (None leaves them), and why.

    given, with an ALLOW, is how the call ends without being run. A rule that denies the call still does.
    """

    verdict: Verdict = Verdict.ALLOW
    arguments: dict[str, Any] | None = None
    reason: str = ""
    given: GivenEnd | None = None


class Hook(Protocol):
    """User code at a hook point. before_call may deny a call, ask for approval, change its arguments, or give its result."""

    name: Name

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None: ...


class EffectSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something outside begins or has ended: a model request, a call of a tool, hooks, a probe. It holds no payload.

    what: model, call, hook or probe; phase: started or ended. path is the chain of frames from the root conversation down.
    name is the model or the tool. end, ms and the tokens are known at the end: end is the finish of a reply, the status of
    a call or a verdict, and with a colon the kind of an error.
    """

    what: str
    phase: str
    conversation: ConversationId
    turn: TurnId
    path: str
    name: str
    attempt: int = 1
    call: CallId | None = None
    end: str | None = None
    ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Observer(Protocol):
    """Is told of every effect of a kernel, on its loop; it should be quick. One that raises is told of nothing more."""

    def effect(self, seen: EffectSeen) -> None: ...
