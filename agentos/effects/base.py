"""What all runners share: the live services they ask, and the handle of one running effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentos.clock import Clock
from agentos.components import AgentContext, CallConfig, CallState, ModelRef
from agentos.effects.deadlines import Deadlines
from agentos.events.effects import AskHook, Effect, Probe, RequestModel, RunCall
from agentos.events.intake import InnerCall, Item
from agentos.events.model import ModelDelta, ModelRequest
from agentos.governance.schema import normalized
from agentos.ids import LogId, Name
from agentos.lineage import Lineage
from agentos.models.base import ModelClient
from agentos.ports import Hook, InnerResult
from agentos.resources import Borrower, Level, ResourceKind, Scope, Shared
from agentos.resources.account import Account
from agentos.resources.borrowing import Caller
from agentos.toolboxes.base import Toolbox


def arguments_of(services: Services, effect: RunCall | AskHook | Probe) -> Any:
    """The arguments of a call as meant, and as its own: tools and hooks may change what they are given."""
    return owned(normalized(services.body(effect.log, effect.arguments.seq, effect.arguments.i)))


def owned(value: Any) -> Any:
    """A copy of JSON data that shares no list or object with it."""
    if isinstance(value, dict):
        return {key: owned(inner) for key, inner in value.items()}
    return [owned(inner) for inner in value] if isinstance(value, list) else value


def words_of(error: BaseException) -> str:
    """What an exception says, whatever its own __str__ does."""
    try:
        return str(error)
    except Exception:
        return "(it has no words)"


class Lending(Protocol):
    """The shared resources that a call may have. level: in the scope of which kind, None for that of the resource's kind.

    Errors: ResourceNotFound; for ensure also ResourceScopeInvalid, and what its factory raises. declared is the kind that
    the call's own toolbox declares under this name, and raises nothing. ended: a call that borrowed has ended, and what it
    still holds is a leak. account_of gives that on which stands what a call makes; None where nothing is counted.
    """

    account_of: Callable[[LogId, int, int], Account] | None

    def borrower(self, log: LogId, turn: int, call: int) -> Borrower: ...
    def ended(self, log: LogId, call: int) -> None: ...
    def find(self, log: LogId, turn: int, call: int, name: str) -> Shared[Any]: ...
    def declared(self, log: LogId, call: int, name: str) -> ResourceKind | None: ...
    def scope_of(self, log: LogId, turn: int, call: int, kind: str | ResourceKind, level: Level | None) -> Scope: ...
    async def ensure(
        self, scope: Scope, kind: str | ResourceKind, name: str, options: Mapping[str, Any]
    ) -> Shared[Any]: ...


class Services(Protocol):
    """What runners need from the kernel; all of it live, none of it stored by them."""

    clock: Clock
    lending: Lending

    def report(self, log: LogId, item: Item) -> None: ...
    def ask_inner(self, log: LogId, item: InnerCall) -> asyncio.Future[InnerResult | None]: ...
    def publish_delta(self, delta: ModelDelta) -> None: ...
    def wants_deltas(self, log: LogId) -> bool: ...
    def turn_context(self, log: LogId, turn: int) -> AgentContext: ...
    def request(self, effect: RequestModel) -> ModelRequest: ...
    def model(self, slug: Name, ref: ModelRef) -> ModelClient: ...
    def toolbox(self, name: Name | None) -> Toolbox | None: ...
    def hooks(self) -> list[Hook]: ...
    def body(self, log: LogId, seq: int, i: int) -> Any: ...
    def call(self, log: LogId, call: int) -> tuple[CallConfig, CallState]: ...
    def lineage(self, log: LogId, turn: int, call: int = 0) -> Lineage: ...
    def call_scope(self, log: LogId, turn: int, call: int) -> Scope: ...


class Running:
    """One running effect. ended says why its task was cancelled: `stopped` or `timeout`; empty when it was not.

    done: its end is known, and nothing may cancel what is left to do before the report. still: what its time stands still
    for, each with the number of the inner call through which it waits for that; None as long as there never was any.
    """

    __slots__ = ("_deadlines", "_left_s", "begun", "done", "effect", "ended", "expires_at", "still", "task")

    def __init__(self, effect: Effect, deadlines: Deadlines) -> None:
        self.effect = effect
        self.ended = ""
        self.begun = self.done = False
        self.task: asyncio.Task[None] | None = None
        self._deadlines = deadlines
        self.expires_at: float | None = None
        self.still: dict[Caller, int] | None = None

    def cancel(self, why: str) -> None:
        """The first reason counts. A task that is cancelled before it begins would never make its report."""
        if self.ended or self.done:
            return
        self.ended = why
        if self.begun and self.task is not None:
            self.task.cancel()

    def begin(self) -> None:
        self.begun = True
        if self.ended and self.task is not None:
            self.task.cancel()

    def limit(self, limit_s: float) -> None:
        """Cancels it as `timeout` when it runs longer than this from now."""
        self._deadlines.add(self, limit_s)

    def stand_still(self, for_: Caller, through: int) -> None:
        """Its time does not go on while this call waits for a person. Its limit is set already."""
        if not self.still:
            self.still = {}
            self._left_s = self._deadlines.stand_still(self)
        self.still[for_] = through

    def go_on(self, for_: Caller) -> None:
        """Its time is not held up by this call any more. Nothing happens when it was not."""
        if not self.still or self.still.pop(for_, None) is None:
            return
        if not self.still and not self.done and self._left_s is not None:
            self._deadlines.go_on(self, self._left_s)

    def was_cancelled(self) -> bool:
        """Whether a CancelledError is ours; then the task goes on, to make its report."""
        if not self.ended:
            return False
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return True
