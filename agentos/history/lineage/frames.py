"""Lineage: the call tree below a conversation, turn or call through all subagents, and the chain of frames above it."""

from __future__ import annotations

from agentos.errors import ConfigurationError, UnknownConversation
from agentos.history.lineage.chronicle import Call, Chronicle, Step, Turn, chronicle_of
from agentos.history.lineage.sums import with_sums
from agentos.history.lineage.tree import Node, Tokens, Tree
from agentos.history.lineage.versions import Versions
from agentos.ids import CallId, Kind, LogId, Micros, call_id, is_id, log_and_seq, turn_id
from agentos.lineage import FrameType, LineageFrame
from agentos.persistence.base import Store

NODES_MAX = 20_000
DEPTH_MAX = 64
"""Conversations from a root down; more is a store that was tampered with."""


async def lineage_of(store: Store, id_: str, *, nodes_max: int = NODES_MAX) -> Tree:
    """The call tree of a conversation, turn or call: conversation, turns, steps, calls, child conversations, and so on.

    Below a call stand the inner calls that its tool made, or its child conversation.
    Under a call its child conversation shows only the turns that answered this call; it may have served others.
    Errors: ConfigurationError for what is no id; UnknownConversation; StoreUnavailable.
    """
    log, seq = _place(id_)
    builder = _Builder(store, nodes_max)
    chronicle = await builder.chronicle(log)
    if not seq:
        root = await builder.conversation(chronicle, None, 0)
        cause = chronicle.parent_call
        return Tree(root=with_sums(root), above=await frames_of(store, cause) if cause else (), cut=builder.cut)
    above = await frames_of(store, id_)
    if seq in chronicle.calls:
        root = await builder.call(chronicle, chronicle.calls[seq], 0)
    elif seq in chronicle.turns:
        root = await builder.turn(chronicle, chronicle.turns[seq], 0)
    else:
        raise ConfigurationError(f"{log} has no turn and no call at seq {seq}")
    return Tree(root=with_sums(root), above=above[:-1], cut=builder.cut)


async def frames_of(store: Store, id_: str) -> tuple[LineageFrame, ...]:
    """The chain of a call, turn or conversation, root first: conversation, turn, call, conversation, turn, call ...

    at says since when: the start of the call, turn or conversation, in microseconds.
    Errors: ConfigurationError for what is no id, or when the chain has no end; UnknownConversation.
    """
    log, seq = _place(id_)
    frames: list[LineageFrame] = []
    for _ in range(DEPTH_MAX):
        chronicle = await chronicle_of(store, log)
        links, cause = _links(chronicle, seq)
        frames[:0] = links
        if cause is None:
            return tuple(frames)
        log, seq = _place(cause)
    raise ConfigurationError(f"the lineage of {id_[:80]} is more than {DEPTH_MAX} conversations deep")


def _links(chronicle: Chronicle, seq: int) -> tuple[list[LineageFrame], CallId | None]:
    """The frames within one conversation down to a turn or call, and the call above that they answer."""
    frames = [LineageFrame(FrameType.CONVERSATION, chronicle.log, Micros(chronicle.started_at))]
    call = chronicle.calls.get(seq)
    turn = chronicle.turns.get(call.turn if call is not None else seq)
    if seq and turn is None:
        raise ConfigurationError(f"{chronicle.log} has no turn and no call at seq {seq}")
    if turn is not None:
        frames.append(LineageFrame(FrameType.TURN, turn_id(chronicle.log, turn.seq), Micros(turn.started_at)))
        for one in _line_of(chronicle, call):
            at = one.started_at if one.started_at is not None else turn.started_at
            frames.append(LineageFrame(FrameType.CALL, call_id(chronicle.log, one.seq), Micros(at)))
        if turn.causes and chronicle.parent_call is not None:
            return frames, turn.causes[0]
    return frames, chronicle.parent_call


def _line_of(chronicle: Chronicle, call: Call | None) -> list[Call]:
    """A call with those that asked for it, the call of the reply first."""
    line: list[Call] = []
    while call is not None:
        line.append(call)
        call = chronicle.calls.get(call.parent) if call.parent is not None else None
    return line[::-1]


class _Builder:
    """Builds nodes from the leaves up, within a number of nodes."""

    def __init__(self, store: Store, nodes_max: int) -> None:
        self._store, self._left = store, nodes_max
        self._chronicles: dict[LogId, Chronicle] = {}
        self._inners: dict[LogId, dict[int, list[Call]]] = {}
        self._versions = Versions(store)
        self.cut = False

    async def chronicle(self, log: LogId) -> Chronicle:
        found = self._chronicles.get(log)
        if found is None:
            found = self._chronicles[log] = await chronicle_of(self._store, log)
        return found

    async def conversation(self, chronicle: Chronicle, cause: CallId | None, depth: int) -> Node:
        turns = [turn for turn in chronicle.turns.values() if cause is None or cause in turn.causes]
        nodes = [await self.turn(chronicle, turn, depth) for turn in turns if self._room()]
        ended = [turn.finished_at - turn.started_at for turn in turns if turn.finished_at is not None]
        return Node(
            kind="conversation",
            id=chronicle.log,
            name=chronicle.agent,
            status=chronicle.state,
            agent=chronicle.agent,
            at=chronicle.started_at,
            ms=sum(ended) / 1000 if ended else None,
            tokens=sum((node.tokens for node in nodes), Tokens()),
            total=sum((node.total for node in nodes), Tokens()),
            children=tuple(nodes),
        )

    async def turn(self, chronicle: Chronicle, turn: Turn, depth: int) -> Node:
        calls = [call for call in chronicle.calls.values() if call.turn == turn.seq and call.parent is None]
        nodes = [await self._step(chronicle, turn, step, calls, depth) for step in turn.steps if self._room()]
        return Node(
            kind="turn",
            id=turn_id(chronicle.log, turn.seq),
            seq=turn.seq,
            status=turn.status,
            version=await self._versions.of(turn.context),
            agent=chronicle.agent,
            at=turn.started_at,
            ms=_ms(turn.started_at, turn.finished_at),
            tokens=sum((node.tokens for node in nodes), Tokens()),
            total=sum((node.total for node in nodes), Tokens()),
            children=tuple(nodes),
        )

    async def _step(self, chronicle: Chronicle, turn: Turn, step: Step, calls: list[Call], depth: int) -> Node:
        nodes = [await self.call(chronicle, call, depth) for call in calls if call.step == step.index and self._room()]
        return Node(
            kind="step",
            id=f"step {step.index}",
            seq=step.seq,
            status=step.status,
            agent=chronicle.agent,
            at=step.started_at,
            ms=_ms(step.started_at, step.finished_at),
            tokens=step.tokens,
            total=sum((node.total for node in nodes), step.tokens),
            children=tuple(nodes),
        )

    async def call(self, chronicle: Chronicle, call: Call, depth: int) -> Node:
        id_ = call_id(chronicle.log, call.seq)
        children: tuple[Node, ...] = ()
        if call.child is not None and self._room() and self._not_too_deep(depth):
            children = (await self._child(call.child, id_, depth + 1),)
        elif (inner := self._inner(chronicle).get(call.seq)) and self._not_too_deep(depth):
            children = tuple([await self.call(chronicle, one, depth + 1) for one in inner if self._room()])
        return Node(
            kind="call",
            id=id_,
            seq=call.seq,
            name=call.tool,
            status=call.status,
            agent=chronicle.agent,
            at=call.started_at,
            ms=_ms(call.started_at, call.finished_at),
            total=sum((node.total for node in children), Tokens()),
            children=children,
        )

    def _inner(self, chronicle: Chronicle) -> dict[int, list[Call]]:
        """The inner calls of a conversation by the call that asked for them."""
        found = self._inners.get(chronicle.log)
        if found is None:
            found = self._inners[chronicle.log] = {}
            for call in chronicle.calls.values():
                if call.parent is not None:
                    found.setdefault(call.parent, []).append(call)
        return found

    async def _child(self, log: LogId, cause: CallId, depth: int) -> Node:
        """A child that has not begun is still under way in the inbox."""
        try:
            chronicle = await self.chronicle(log)
        except UnknownConversation:
            return Node(kind="conversation", id=log, status="not begun")
        return await self.conversation(chronicle, cause, depth)

    def _room(self) -> bool:
        self._left -= 1
        self.cut = self.cut or self._left < 0
        return self._left >= 0

    def _not_too_deep(self, depth: int) -> bool:
        self.cut = self.cut or depth >= DEPTH_MAX
        return depth < DEPTH_MAX


def _ms(started_at: int | None, finished_at: int | None) -> float | None:
    return (finished_at - started_at) / 1000 if started_at is not None and finished_at is not None else None


def _place(id_: str) -> tuple[LogId, int]:
    """The log, and the seq of a turn or call in it, 0 for the conversation. Raises ConfigurationError."""
    if is_id(id_, Kind.CONVERSATION):
        return LogId(id_), 0
    try:
        return log_and_seq(id_)
    except ValueError as error:
        raise ConfigurationError(f"{id_[:80]!r} is not the id of a conversation, a turn or a call") from error
