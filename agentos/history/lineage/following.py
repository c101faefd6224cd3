"""Frames as they are stored: turns, steps and calls of a conversation and of all subagents below it, while others work.

It begins with the open turn, or the last one, and ends once what was asked for has ended. A child is read from where a
call that is followed started it; turns of it that answer other calls are left out. Within a log the order is that of its
entries; between logs, that of the clocks of their writers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from agentos.errors import ConfigurationError
from agentos.events.entry import decode_head
from agentos.history.lineage.tree import Tokens
from agentos.history.reading import conversation_row
from agentos.ids import Kind, LogId, call_id, is_id, log_and_seq, turn_id
from agentos.persistence.base import Store

POLL_S = 0.2
PAGE_ENTRIES = 500
LOOK_BACK_ENTRIES = 1_000
DEPTH_MAX = 64

_TOLD = {
    "conversation.started": ("conversation", "started"),
    "turn.started": ("turn", "started"),
    "turn.resumed": ("turn", "resumed"),
    "turn.cancelling": ("turn", "cancelling"),
    "turn.finished": ("turn", ""),
    "model.requested": ("step", "started"),
    "model.finished": ("step", ""),
    "approval.requested": ("call", "waits for approval"),
    "call.started": ("call", "started"),
    "call.doubted": ("call", "in doubt"),
    "call.finished": ("call", ""),
}

KINDS = frozenset({*_TOLD, "call.proposed", "call.nested"})
"""What is told, and what names of calls are learnt from."""

Wait = Callable[[float], Awaitable[None]]

_AGENT = "select agent from conversations where id = ?"


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Something that began, went on or ended. at is in microseconds, UTC.

    agents are the slugs from the root down to its conversation; kind is conversation, turn, step or call; step counts those
    of a turn, from 0, and id is that turn's; name is a call's tool. status is `started`, or what became of it; ms and
    tokens are there at the end. child is the conversation that a call began or goes on with.
    """

    conversation: str
    seq: int
    at: int
    agents: tuple[str, ...]
    kind: str
    id: str
    status: str
    step: int | None = None
    name: str = ""
    ms: float | None = None
    tokens: Tokens = Tokens()
    child: str | None = None


async def frames_as_stored(
    store: Store, id_: str, *, poll_s: float = POLL_S, wait: Wait = asyncio.sleep
) -> AsyncIterator[Frame]:
    """The frames of a conversation, turn or call, stored ones first, until it ends.

    Errors: ConfigurationError for what is no id, or has no turn yet; UnknownConversation; StoreError.
    """
    root = await _root_of(store, id_)
    followed: dict[LogId, _Log] = {root.log: root}
    while True:
        fresh: list[Frame] = []
        for log in _growing(followed):
            async for frame in log.fresh(store, followed):
                fresh.append(frame)
                if frame.child is not None and len(frame.agents) < DEPTH_MAX:
                    child = LogId(frame.child)
                    followed.setdefault(child, _Child(child, frame.agents, root.began_at))
        for frame in sorted(fresh, key=lambda frame: frame.at):
            yield frame
        if root.ended:
            return
        await wait(poll_s)


def _growing(followed: dict[LogId, _Log]) -> Iterator[_Log]:
    """All of them, and those that come meanwhile: a child after the log whose call began it."""
    done = 0
    while done < len(followed):
        logs = list(followed.values())[done:]
        done += len(logs)
        yield from logs


class _Log:
    """A log that is followed. first is the seq of the first entry that counts; agents include its own."""

    def __init__(self, log: LogId, agents: tuple[str, ...], first: int) -> None:
        self.log, self.agents, self.first = log, agents, first
        self._after = first - 1
        self._began: dict[tuple[str, int], int] = {}
        self._tools: dict[int, str] = {}
        self._steps: dict[int, int] = {}

    def takes(self, seq: int, head: Any, followed: dict[LogId, _Log]) -> bool:
        """Whether an entry is told; what it teaches is learnt in any case."""
        raise NotImplementedError

    async def fresh(self, store: Store, followed: dict[LogId, _Log]) -> AsyncIterator[Frame]:
        """What was stored since the last look."""
        while True:
            page = await store.entries(self.log, self._after, limit=PAGE_ENTRIES, kinds=KINDS)
            for stored in page:
                self._after = stored.seq
                head = decode_head(stored.head)
                if self.takes(stored.seq, head, followed):
                    frame = self._frame(stored.seq, head)
                    if frame is not None:
                        yield frame
            if len(page) < PAGE_ENTRIES:
                return

    def _frame(self, seq: int, head: Any) -> Frame | None:
        told = _TOLD.get(head.kind)
        if head.kind in ("call.proposed", "call.nested"):
            self._tools[seq] = _component(head, "call_config").get("tool", "")
        if head.kind == "model.requested":
            self._steps[head.turn] = _component(head, "turn_state").get("step_index", 0)
        if told is None:
            return None
        kind, status = told
        entity = {"conversation": 0, "turn": head.turn, "step": head.turn, "call": head.call}[kind]
        if status == "started":
            self._began.setdefault((kind, entity), head.at)
        ends = head.kind in _ENDS
        began = self._began.pop((kind, entity), None) if ends else None
        return Frame(
            conversation=self.log,
            seq=seq,
            at=head.at,
            agents=self.agents,
            kind=kind,
            id=_id(self.log, kind, entity),
            step=self._steps.get(entity) if kind == "step" else None,
            name=self._tools.get(entity, "") if kind == "call" else "",
            status=_status(head) if ends else status,
            ms=(head.at - began) / 1000 if began is not None else None,
            tokens=_tokens(head),
            child=_component(head, "call_state").get("child") if head.kind == "call.started" else None,
        )


class _Root(_Log):
    """What was asked for: all from a turn on, one turn, or one call with its inner calls."""

    def __init__(self, log: LogId, agent: str, first: int, began_at: int, entity: int) -> None:
        super().__init__(log, (agent,), first)
        self.began_at, self.ended = began_at, False
        self._entity = entity
        self._calls = {entity}

    def takes(self, seq: int, head: Any, followed: dict[LogId, _Log]) -> bool:
        if not self._entity:
            self.ended = head.kind == "turn.finished" or (self.ended and head.kind not in _OPENS)
            return True
        if head.kind == "call.nested" and _component(head, "call_config").get("parent") in self._calls:
            self._calls.add(seq)
        if head.turn != self._entity and head.call not in self._calls:
            return False
        ends = head.kind == "turn.finished" or (
            head.call == self._entity and head.kind == "call.finished" and not _is_lost(head)
        )
        self.ended = self.ended or ends
        return True


class _Child(_Log):
    """A conversation below: of its turns, those that answer calls of logs that are followed."""

    def __init__(self, log: LogId, above: tuple[str, ...], since: int) -> None:
        super().__init__(log, above, 1)
        self._above, self._since = above, since
        self._turns: set[int] = set()

    def takes(self, seq: int, head: Any, followed: dict[LogId, _Log]) -> bool:
        if head.kind == "conversation.started":
            self.agents = (*self._above, _component(head, "conversation_config").get("slug", ""))
            return bool(head.at >= self._since)
        if head.kind == "turn.started" and any(
            map(_counts(followed), _component(head, "turn_config").get("causes", ()))
        ):
            self._turns.add(seq)
        return head.turn in self._turns


def _counts(followed: dict[LogId, _Log]) -> Callable[[str], bool]:
    """Whether a call is one that is followed."""

    def counts(call: str) -> bool:
        log, seq = log_and_seq(call)
        return log in followed and seq >= followed[log].first

    return counts


async def _root_of(store: Store, id_: str) -> _Root:
    if is_id(id_, Kind.CONVERSATION):
        log, entity = LogId(id_), 0
    else:
        try:
            log, entity = log_and_seq(id_)
        except ValueError as error:
            raise ConfigurationError(f"{id_[:80]!r} is not the id of a conversation, a turn or a call") from error
    row = await conversation_row(store, log)
    first = entity or await _last_turn(store, log, row.seq)
    stored = await store.entries(log, first - 1, first) if first else []
    if not stored:
        raise ConfigurationError(
            f"{id_} has no turn yet" if not entity else f"{log} has no turn and no call at seq {entity}"
        )
    agents = (await store.query(_AGENT, (log,))).rows
    return _Root(log, agents[0][0] if agents else "", first, decode_head(stored[0].head).at, entity)


async def _last_turn(store: Store, log: LogId, upto: int) -> int:
    """The seq of the last turn that began, 0 for none; looked for from the end, near which it is."""
    while upto > 0:
        after = max(0, upto - LOOK_BACK_ENTRIES)
        found = await store.entries(log, after, upto, kinds=["turn.started"])
        if found:
            return found[-1].seq
        upto = after
    return 0


_ENDS = frozenset({"turn.finished", "model.finished", "call.finished"})
_OPENS = frozenset({"turn.started", "turn.resumed"})


def _component(head: Any, name: str) -> dict[str, Any]:
    """What an entry sets a component to, as plain data."""
    return next((value for _, component, value in head.changes if component == name), {})


def _status(head: Any) -> str:
    data = head.data or {}
    if head.kind == "turn.finished":
        state = _component(head, "turn_state")
        word, more = state.get("outcome", "ended"), state.get("outcome_name")
    elif head.kind == "model.finished":
        word, more = data.get("finish", "stop"), data.get("error")
    else:
        word, more = data.get("status", "done"), data.get("call_kind")
    return f"{word}({more})" if more else str(word)


def _tokens(head: Any) -> Tokens:
    """What a reply took; of a turn, what all its replies did."""
    if head.kind == "model.finished":
        counted = (head.data or {}).get("usage", {})
    elif head.kind == "turn.finished":
        counted = _component(head, "turn_state")
    else:
        return Tokens()
    return Tokens(counted.get("input_tokens", 0), counted.get("output_tokens", 0))


def _is_lost(head: Any) -> bool:
    """An attempt that is followed by another."""
    return bool((head.data or {}).get("status") == "lost")


def _id(log: LogId, kind: str, entity: int) -> str:
    if kind == "conversation":
        return log
    return call_id(log, entity) if kind == "call" else turn_id(log, entity)
