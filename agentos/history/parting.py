"""Two conversations side by side, from the first thing on that they do not have in common.

A fork and its parent, and two forks of one conversation, share entries: only what stands behind these is read. Of it counts
what was said and done: inputs, replies, calls, results and ends. How the kernel came to that, as requests that were lost
and times that were waited for, does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import zip_longest
from typing import Any

import msgspec

from agentos.codec import encode_json
from agentos.components import CallStatus, TurnState
from agentos.events.entry import ERASED, Entry, RawComponent, Registry
from agentos.events.kinds import CallFinished, InputReceived, ModelFinished, TurnFinished
from agentos.history.reading import Contexts, conversation_row, decoded, logs_above, stored_units
from agentos.ids import CONVERSATION, LogId
from agentos.journal import Folded, load_log
from agentos.persistence.base import LogRow, Store
from agentos.world.transcript import ANSWERS

OWN = frozenset({"root", "started_at", "parent", "parent_call", "causes"})
"""Fields of components that are another in every conversation, whatever it does."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Something said or done: input, reply, call, result or end; name is that of the tool, or how it ended. seq is its
    entry's, of a call that of the reply which asks for it."""

    what: str
    name: str = ""
    text: str = ""
    seq: int = msgspec.field(default=0)

    def is_as(self, other: Act | None) -> bool:
        return other is not None and (self.what, self.name, self.text) == (other.what, other.name, other.text)


class Side(msgspec.Struct, kw_only=True):
    """One of the two: how it ended, or `open`, and what it took behind the shared entries. ms is from its first entry there
    to its last."""

    conversation: LogId
    outcome: str = ""
    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ms: float = 0.0
    answer: str = ""
    acts: list[Act] = []


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """shared is the seq of the last entry that both have in common, common counts what both said and did alike behind it.

    pairs are the acts from the first on that differ; components the paths at which they differ now, with both values.
    """

    a: Side
    b: Side
    shared: int
    common: int
    pairs: tuple[tuple[Act | None, Act | None], ...]
    components: dict[str, tuple[Any, Any]]

    @property
    def same(self) -> bool:
        return not self.pairs


async def parting_of(store: Store, a: str, b: str, *, registry: Registry | None = None) -> Parting:
    """Where two conversations part. Raises UnknownConversation, CodecError, StoreDamaged, StoreUnavailable."""
    registry = registry or Registry()
    rows = await conversation_row(store, a), await conversation_row(store, b)
    shared = await _shared(store, *rows)
    sides = [await _side(store, row, shared, registry) for row in rows]
    left, right = sides
    pairs = list(zip_longest(left.acts, right.acts))
    common = next((n for n, (one, other) in enumerate(pairs) if one is None or not one.is_as(other)), len(pairs))
    leaves = [await _components(store, row, registry) for row in rows]
    paths = [path for path in {**leaves[0], **leaves[1]} if leaves[0].get(path) != leaves[1].get(path)]
    return Parting(
        a=left,
        b=right,
        shared=shared,
        common=common,
        pairs=tuple(pairs[common:]),
        components={path: (leaves[0].get(path), leaves[1].get(path)) for path in paths},
    )


async def _shared(store: Store, a: LogRow, b: LogRow) -> int:
    """Up to which seq the entries of both are the same ones."""
    shared = 0
    for (log, upto), (other, also_upto) in zip(await _line(store, a), await _line(store, b), strict=False):
        if log != other:
            break
        shared = min(upto, also_upto)
        if upto != also_upto:
            break
    return shared


async def _line(store: Store, row: LogRow) -> list[tuple[LogId, int]]:
    """The logs that make up a log, oldest first, each with the last seq that counts."""
    line = [(row.id, row.seq)]
    upto = row.upto
    async for above in logs_above(store, row):
        line.insert(0, (above.id, min(upto, line[0][1])))
        upto = above.upto
    return line


async def _side(store: Store, row: LogRow, shared: int, registry: Registry) -> Side:
    side = Side(conversation=row.id)
    first = last = 0
    async for entry in _entries(store, row, shared, registry):
        first, last = first or entry.at, entry.at
        _take(side, entry)
    side.ms = (last - first) / 1000
    folded = await load_log(store, row.id, registry)
    state = folded.slice.rows.get(CONVERSATION, {})
    if any(getattr(value, "open_turn", 0) for value in state.values()):
        side.outcome = "open"
    return side


async def _entries(store: Store, row: LogRow, after: int, registry: Registry) -> AsyncIterator[Entry]:
    async for unit in stored_units(store, row.id, after, row.seq):
        for entry in decoded(row.id, unit, registry):
            yield entry


def _take(side: Side, entry: Entry) -> None:
    data = entry.data
    if isinstance(data, InputReceived):
        side.acts.append(Act(what="input", text=_text(entry.private[0][1]), seq=entry.seq))
    elif isinstance(data, ModelFinished):
        side.input_tokens += data.usage.input_tokens
        side.output_tokens += data.usage.output_tokens
        if data.finish in ANSWERS:
            _take_reply(side, entry, data)
    elif isinstance(data, CallFinished) and data.status is not CallStatus.LOST and data.parent is None:
        name = f"{data.status.value}({data.call_kind})" if data.call_kind else data.status.value
        side.acts.append(Act(what="result", name=name, text=_text(entry.private[0][1]), seq=entry.seq))
    elif isinstance(data, TurnFinished):
        side.outcome = _outcome(entry)
        side.acts.append(Act(what="end", name=side.outcome, seq=entry.seq))


def _take_reply(side: Side, entry: Entry, data: ModelFinished) -> None:
    side.steps += 1
    side.answer = _text(dict(entry.private)["text"])
    if side.answer or not data.calls:
        side.acts.append(Act(what="reply", text=side.answer, seq=entry.seq))
    arguments = [value for name, value in entry.private if name == "arguments"]
    for asked, given in zip(data.calls, arguments, strict=True):
        side.calls += 1
        text = "(erased)" if given is ERASED else encode_json(given)
        side.acts.append(Act(what="call", name=asked.tool, text=text, seq=entry.seq))


def _outcome(entry: Entry) -> str:
    state = next(value for _, value in entry.changes if isinstance(value, TurnState))
    name = state.outcome.value if state.outcome is not None else ""
    return f"{name}({state.outcome_name})" if state.outcome_name else name


async def _components(store: Store, row: LogRow, registry: Registry) -> dict[str, Any]:
    """What the conversation and its last turn have, and what that pins, as plain values by path."""
    folded = await load_log(store, row.id, registry)
    leaves: dict[str, Any] = {}
    for entity, name in ((CONVERSATION, "conversation"), (_last_turn(folded), "turn")):
        for type_, value in folded.slice.rows.get(entity, {}).items():
            if not issubclass(type_, RawComponent):
                _flatten(f"{name}.{type_.component}", msgspec.to_builtins(value), leaves)
    contexts = Contexts(store)
    pinned = leaves.get("turn.turn_config.context")
    if pinned is not None:
        context = msgspec.to_builtins(await contexts.learn(pinned))
        for field in ("slug", "model", "prompt", "limits", "tools", "rules"):
            _flatten(f"pinned.{field}", context.get(field), leaves)
    return leaves


def _last_turn(folded: Folded) -> int:
    """The open turn, else the last one that is in memory."""
    return max((entity for entity, row in folded.slice.rows.items() if TurnState in row), default=-1)


def _flatten(path: str, value: Any, leaves: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in OWN:
                _flatten(f"{path}.{key}", inner, leaves)
    else:
        leaves[path] = value


def _text(value: Any) -> str:
    return "(erased)" if value is ERASED else str(value)
