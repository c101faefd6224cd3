"""What the tables and the heads of entries tell of one conversation: its turns, steps and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.errors import UnknownConversation
from agentos.events.entry import decode_head
from agentos.events.model import Finish
from agentos.history.lineage.tree import Tokens
from agentos.ids import CallId, LogId
from agentos.persistence.base import Store
from agentos.world.transcript import ANSWERS

PAGE_ROWS = 2_000
FORKS_MAX = 64

_LOG = (
    "select logs.n, logs.forked_from, logs.upto, logs.parent_call, conversations.agent, conversations.state,"
    " conversations.started_at from logs left join conversations on conversations.n = logs.n where logs.id = ?"
)
_TURNS = (
    "select seq, state, outcome, outcome_name, started_at, finished_at from turns"
    " where n = ? and seq > ? and seq <= ? order by seq limit ?"
)
_CALLS = (
    "select seq, turn, step, tool, status, kind, child, started_at, finished_at, parent, resolution from calls"
    " where n = ? and seq > ? and seq <= ? order by seq limit ?"
)
_HEADS = (
    "select seq, kind, turn, at, head from entries where n = ? and seq > ? and seq <= ?"
    " and kind in ('turn.started', 'model.requested', 'model.finished') order by seq limit ?"
)
_SEQ_MAX = 2**62


class Step(msgspec.Struct):
    """One model call of a turn with its retries: the seq and time of its requests, how the last one ended."""

    index: int
    seq: int
    started_at: int
    status: str = "running"
    finished_at: int | None = None
    tokens: Tokens = Tokens()


class Turn(msgspec.Struct, kw_only=True):
    """One turn, its steps, and the delegating calls that it answers. context is the digest of what it pinned."""

    seq: int
    status: str
    started_at: int
    finished_at: int | None
    causes: tuple[CallId, ...] = ()
    context: str = ""
    steps: list[Step] = []


class Call(msgspec.Struct, kw_only=True):
    """One call. parent is the call that asked for an inner one; it stands before it in the log."""

    seq: int
    turn: int
    step: int
    tool: str
    status: str
    child: LogId | None
    started_at: int | None
    finished_at: int | None
    parent: int | None = None


class Chronicle(msgspec.Struct, kw_only=True):
    """One conversation. parent_call is the call that began it; in a fork there is none."""

    log: LogId
    agent: str
    state: str
    started_at: int
    parent_call: CallId | None
    turns: dict[int, Turn]
    calls: dict[int, Call]


async def chronicle_of(store: Store, log: LogId) -> Chronicle:
    """Reads one conversation, in a fork with what it shares. Raises UnknownConversation."""
    rows = (await store.query(_LOG, (log,))).rows
    if not rows:
        raise UnknownConversation(log)
    n, forked_from, upto, parent_call, agent, state, started_at = rows[0]
    line = [*await _line_above(store, forked_from, upto), (n, _SEQ_MAX)]
    turns = {row[0]: _turn(row, state or "") for row in await _all(store, _TURNS, line)}
    for row in await _all(store, _HEADS, line):
        _add_head(turns, *row)
    return Chronicle(
        log=log,
        agent=agent or "",
        state=state or "unknown",
        started_at=started_at or 0,
        parent_call=parent_call if forked_from is None else None,
        turns=turns,
        calls={row[0]: _call(row) for row in await _all(store, _CALLS, line)},
    )


async def _line_above(store: Store, log: str | None, upto: int) -> list[tuple[int, int]]:
    """The numbers of the logs that a fork shares entries with, oldest first, each with the last seq that counts."""
    line: list[tuple[int, int]] = []
    while log is not None and len(line) < FORKS_MAX:
        rows = (await store.query(_LOG, (log,))).rows
        if not rows:
            break
        n, log, above = rows[0][:3]
        line.append((n, upto))
        upto = min(upto, above)
    return line[::-1]


async def _all(store: Store, sql: str, line: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    """The rows of all stretches of a log; one that an older stretch has too stands as the younger has it, behind."""
    found: list[tuple[Any, ...]] = []
    for n, upto in line:
        after = 0
        while True:
            page = (await store.query(sql, (n, after, upto, PAGE_ROWS))).rows
            found += page
            if len(page) < PAGE_ROWS:
                break
            after = page[-1][0]
    return found


def _turn(row: tuple[Any, ...], conversation_state: str) -> Turn:
    seq, state, outcome, name, started_at, finished_at = row
    status = conversation_state if state == "open" else f"{outcome}({name})" if name else str(outcome)
    return Turn(seq=seq, status=status, started_at=started_at, finished_at=finished_at)


def _call(row: tuple[Any, ...]) -> Call:
    seq, turn, step, tool, status, kind, child, started_at, finished_at, parent, resolution = row
    return Call(
        seq=seq,
        turn=turn,
        step=step,
        tool=tool,
        status=_status(status, kind, resolution),
        child=LogId(child) if child else None,
        started_at=started_at,
        finished_at=finished_at,
        parent=parent if parent is not None and parent < seq else None,
    )


def _status(status: str, kind: str | None, resolution: str | None) -> str:
    """How it ended, and what a person said of it."""
    ended = f"{status}({kind})" if kind else status
    return f"{ended}, resolved as {resolution}" if resolution else ended


def _add_head(turns: dict[int, Turn], seq: int, kind: str, turn: int, at: int, head: str) -> None:
    found = turns.get(turn)
    if found is None:
        return
    if kind == "turn.started":
        config = _config(head)
        found.causes, found.context = tuple(config.get("causes", ())), str(config.get("context", ""))
    elif kind == "model.requested":
        _request(found, seq, at)
    elif found.steps:
        _reply(found.steps[-1], at, decode_head(head).data or {})


def _config(head: str) -> dict[str, Any]:
    """What the turn pinned."""
    return next((value for _, name, value in decode_head(head).changes if name == "turn_config"), {})


def _request(turn: Turn, seq: int, at: int) -> None:
    """A request after one that brought no answer is another try of the same step."""
    step = turn.steps[-1] if turn.steps else None
    if step is None or step.status in _ANSWERED:
        turn.steps.append(Step(len(turn.steps), seq, at))
        return
    step.seq, step.status, step.finished_at = seq, "running", None


def _reply(step: Step, at: int, data: dict[str, Any]) -> None:
    usage = data.get("usage", {})
    step.status = str(data.get("finish", Finish.STOP.value))
    step.finished_at = at
    step.tokens += Tokens(usage.get("input_tokens", 0), usage.get("output_tokens", 0))


_ANSWERED = frozenset(finish.value for finish in ANSWERS)
