"""The live side that passes and runners may ask: slots, contexts, models, toolboxes, bodies, scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentos.clock import Clock
from agentos.components import (
    Access,
    AgentContext,
    CallConfig,
    CallState,
    ConversationConfig,
    CycleLink,
    ModelRef,
    Narrowing,
    ToolboxSharing,
    TurnConfig,
    TurnState,
)
from agentos.effects.base import Lending
from agentos.errors import UnknownConversation
from agentos.events.effects import RequestModel
from agentos.events.intake import InnerCall, Item
from agentos.events.model import ModelDelta, ModelRequest
from agentos.ids import CONVERSATION, AgentId, Digest, LogId, Name, call_id, log_and_seq, turn_id
from agentos.kernel.admission import Admission
from agentos.kernel.catalog import Catalog
from agentos.kernel.inner import Asked
from agentos.kernel.limiting import Limiting
from agentos.kernel.nesting import parents_of
from agentos.kernel.standstill import Standstill
from agentos.kernel.waiting import Waiting
from agentos.kernel.watch import Watchers
from agentos.lineage import FrameType, Lineage, LineageFrame
from agentos.models.base import ModelClient
from agentos.ports import Hook
from agentos.prompting import build_request, request_digest
from agentos.resources import Level, Scope, Slots
from agentos.resources.borrowing import Caller
from agentos.resources.places import Places
from agentos.resources.threaded import who_waits
from agentos.toolboxes.base import Toolbox
from agentos.world import Slice, View, World


class LiveServices:
    """Implements the oracle of passes and the services of runners over one kernel's World and catalog.

    lending is made after it, and given.
    """

    lending: Lending

    def __init__(
        self,
        world: World,
        catalog: Catalog,
        slots: Slots,
        watchers: Watchers,
        clock: Clock,
        program: Scope,
        report: Callable[[LogId, Item], None],
        ask_inner: Callable[[LogId, InnerCall], Asked],
    ) -> None:
        self._world, self._catalog, self._slots, self._watchers = world, catalog, slots, watchers
        self._program = program
        self.waiting = Waiting(world, slots)
        self.standstill = Standstill(world, self.waiting.asking)
        self.limiting: Limiting | None = None
        self.admission: Admission | None = None
        self.lent = self.closing = self.draining = False
        self.clock = clock
        self._report, self._ask_inner = report, ask_inner

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        """In a kernel that is closing no call begins: it would be stored as started, and never run."""
        if self.closing:
            self._slots.give_back((log, call))
            return False
        if self._slots.at_once is not None and not self._may_be(self._slots.at_once, log, call, config):
            return False
        toolbox = self._catalog.toolboxes.get(config.toolbox) if config.toolbox is not None else None
        if toolbox is None or toolbox.sharing is ToolboxSharing.STATELESS:
            return True
        access = Access.WRITE
        if toolbox.sharing is ToolboxSharing.READ_WRITE:
            access = next((tool.access for tool in toolbox.tools() if tool.name == config.tool), access)
        return self._slots.take(toolbox.name, (log, call), self._slug(log), access)

    def _may_be(self, at_once: Places[Caller], log: LogId, call: int, config: CallConfig) -> bool:
        """Whether the bounds of calls at once let it begin. What is asked for within a running call goes by its place."""
        assert self.limiting is not None, "bounds of calls are those of its limiting"
        free = config.parent is not None or self.limiting.within_running_call(log)
        taken = at_once.take((log, call), free=free)
        if not taken and self._slots.waited is not None:
            self._slots.waited()
        return taken

    def begins(self, view: View) -> bool:
        """In a kernel that is about to close no turn begins but for the call of an open one, which waits for it: inputs that
        people sent stay where they are."""
        if self.draining and not _works_for_a_call(view):
            return False
        return self.admission is None or self.admission.begins(view)

    def deadlock(self, view: View, call: int) -> tuple[CycleLink, ...] | None:
        return self.waiting.deadlock(view, call)

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        return self._catalog.current(agent, depth, narrowings)

    def pinned(self, digest: Digest) -> AgentContext:
        return self._catalog.pinned(digest)

    def report(self, log: LogId, item: Item) -> None:
        self._report(log, item)

    def ask_inner(self, log: LogId, item: InnerCall) -> Asked:
        waiter = self._ask_inner(log, item)
        key = (log, item.call, item.index)
        self.waiting.asking[key] = who_waits()
        waiter.add_done_callback(lambda _: self._asked(*key))
        return waiter

    def _asked(self, log: LogId, call: int, index: int) -> None:
        """Nobody waits for this inner call any more."""
        self.waiting.asking.pop((log, call, index), None)
        self.standstill.left(log, call, index)

    def publish_delta(self, delta: ModelDelta) -> None:
        self._watchers.delta(delta)

    def wants_deltas(self, log: LogId) -> bool:
        return log in self._watchers

    def turn_context(self, log: LogId, turn: int) -> AgentContext:
        config = self._slice(log).get(turn, TurnConfig)
        assert config is not None, "an effect belongs to an open turn"
        return self._catalog.pinned(config.context)

    def request(self, effect: RequestModel) -> ModelRequest:
        slice_ = self._slice(effect.log)
        config, state = slice_.get(effect.turn, TurnConfig), slice_.get(effect.turn, TurnState)
        assert config is not None and state is not None, "an effect belongs to an open turn"
        context = self._catalog.pinned(config.context)
        digest = request_digest(config.context, slice_.transcript)
        return build_request(
            context, digest, slice_.transcript, effect.log, effect.turn, state.step_index, effect.attempt
        )

    def model(self, slug: Name, ref: ModelRef) -> ModelClient:
        return self._catalog.models.of(slug, ref)

    def toolbox(self, name: Name | None) -> Toolbox | None:
        return self._catalog.toolboxes.get(name) if name is not None else None

    def hooks(self) -> list[Hook]:
        return self._catalog.hooks

    def body(self, log: LogId, seq: int, i: int) -> Any:
        return self._slice(log).bodies[seq, i]

    def call(self, log: LogId, call: int) -> tuple[CallConfig, CallState]:
        slice_ = self._slice(log)
        config, state = slice_.get(call, CallConfig), slice_.get(call, CallState)
        assert config is not None and state is not None, "an effect belongs to an open call"
        return config, state

    def lineage(self, log: LogId, turn: int, call: int = 0) -> Lineage:
        """The chain from the root conversation to this call, 0 for the turn itself, as far up as conversations are loaded.

        Above a conversation stands the call that its turn works for, which with `reuse` is not the one that began it.
        """
        frames: list[LineageFrame] = []
        while (slice_ := self._world.slice(log)) is not None:
            config, turn_config = slice_.get(CONVERSATION, ConversationConfig), slice_.get(turn, TurnConfig)
            if config is None or turn_config is None:
                break
            for one in (call, *parents_of(slice_.get, call)) if call else ():
                state = slice_.get(one, CallState)
                started_at = state.started_at if state is not None else None
                frames.append(LineageFrame(FrameType.CALL, call_id(log, one), started_at or turn_config.started_at))
            frames.append(LineageFrame(FrameType.TURN, turn_id(log, turn), turn_config.started_at))
            frames.append(LineageFrame(FrameType.CONVERSATION, log, config.started_at))
            cause = turn_config.causes[0] if turn_config.causes else None
            if cause is None:
                break
            log, call = log_and_seq(cause)
            turn = self._turn_of(log, call)
        return Lineage(tuple(reversed(frames)))

    def call_scope(self, log: LogId, turn: int, call: int) -> Scope:
        return self.scope_around(log, turn, call, Level.CALL)

    def scope_around(self, log: LogId, turn: int, call: int, level: Level) -> Scope:
        """The scope of a call, or a wider one around it, made with those around that. lent stays true once there was any in
        a conversation."""
        if level is Level.PROGRAM:
            return self._program
        scope = self._program.child(Level.AGENT, self._slug(log))
        within = ((Level.CONVERSATION, log), (Level.TURN, turn_id(log, turn)), (Level.CALL, call_id(log, call)))
        for inner, name in within:
            if inner <= level:
                self.lent = True
                scope = scope.child(inner, name)
        return scope

    def scope_of(self, log: LogId, slug: Name, turn: int | None = None) -> Scope | None:
        """The open scope of a conversation or of a turn in it, if anything was lent there."""
        agent = self._program.find(Level.AGENT, slug)
        conversation = agent.find(Level.CONVERSATION, log) if agent is not None else None
        if conversation is None or turn is None:
            return conversation
        return conversation.find(Level.TURN, turn_id(log, turn))

    def _turn_of(self, log: LogId, call: int) -> int:
        slice_ = self._world.slice(log)
        config = slice_.get(call, CallConfig) if slice_ is not None else None
        return config.turn if config is not None else 0

    def _slug(self, log: LogId) -> Name:
        config = self._slice(log).get(CONVERSATION, ConversationConfig)
        return config.slug if config is not None else Name("-")

    def _slice(self, log: LogId) -> Slice:
        slice_ = self._world.slice(log)
        if slice_ is None:
            raise UnknownConversation(log)
        return slice_


def _works_for_a_call(view: View) -> bool:
    """Whether what waits in a conversation was asked for by a call."""
    return view.conversation is not None and any(waiting.cause is not None for waiting in view.conversation.waiting)
