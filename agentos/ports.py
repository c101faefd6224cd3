"""Protocols that cross families: what a tool sees of its call, and who is asked outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from agentos.components import ApprovalMode, Verdict
from agentos.ids import CallId, ConversationId, Name, TurnId
from agentos.lineage import Lineage


class CallContext(Protocol):
    """One attempt of one call, as its tool sees it.

    key is the same over all attempts: give it to whatever must not happen twice.
    """

    agent: Name
    attempt: int
    timeout_s: float

    @property
    def call(self) -> CallId: ...
    @property
    def turn(self) -> TurnId: ...
    @property
    def conversation(self) -> ConversationId: ...
    @property
    def key(self) -> str: ...
    @property
    def lineage(self) -> Lineage:
        """The chain of frames from the root conversation down to this call."""

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
    """What a hook says: a verdict, arguments in place of the call's own (None leaves them), and why."""

    verdict: Verdict = Verdict.ALLOW
    arguments: dict[str, Any] | None = None
    reason: str = ""


class Hook(Protocol):
    """User code at a hook point. before_call may deny a call, ask for approval, or change its arguments."""

    name: Name

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None: ...
