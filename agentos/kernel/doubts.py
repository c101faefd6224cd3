"""Calls in doubt, as the store tells of them, and the command that says what became of one. It needs no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import Resolution
from agentos.errors import AlreadyResolved, InputRefused, NotInDoubt, UnknownCall
from agentos.events.entry import decode_head
from agentos.events.intake import Resolve
from agentos.events.kinds import CallResolved
from agentos.ids import CallId, LogId, Name, call_id, log_and_seq, name_of
from agentos.persistence.base import Store

ASKED_CHARS = 300
"""How much of its arguments tells a call from others."""
WAITING, UNKNOWN = "waiting", "unknown"
_STOPPED = ("timed_out", "cancelled")

_CALLS = """
select logs.id, calls.seq, conversations.agent, calls.tool, payloads.body, calls.status, calls.effect, calls.attempt,
    calls.child, calls.started_at, calls.finished_at, calls.result_seq,
    (select min(entries.at) from entries
        where entries.n = calls.n and entries.seq > calls.seq and entries.call = calls.seq
            and entries.kind = 'call.doubted'),
    (select max(entries.seq) from entries
        where entries.n = calls.n and entries.seq > calls.seq and entries.call = calls.seq
            and entries.kind = 'call.resolved' and calls.resolution is not null)
from calls
    join logs on logs.n = calls.n
    join conversations on conversations.n = calls.n
    left join payloads
        on payloads.n = calls.n and payloads.seq = calls.arguments_seq and payloads.i = calls.arguments_i
"""
_ONE = f"{_CALLS} where logs.id = ? and calls.seq = ?"
_IN_DOUBT = f"""{_CALLS}
where calls.child is null and calls.started_at is not null and (
    calls.status in ('waiting', 'unknown') or (calls.status in ('timed_out', 'cancelled') and calls.effect = 'once')
)
order by logs.n, calls.seq
"""
_IN_DOUBT_OF = _IN_DOUBT.replace("\norder by", " and logs.id = ?\norder by")


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A call of which nobody knows whether it took effect.

    state is `waiting` while its turn waits to hear of it, `unknown` when it has ended so. arguments is JSON text, None when
    it was erased. Times are in microseconds, UTC; since is when the doubt began.
    """

    call: CallId
    conversation: LogId
    agent: Name
    tool: Name
    arguments: str | None
    state: str
    attempt: int
    started_at: int
    since: int

    @property
    def asked(self) -> str:
        """The tool with its arguments, shortened."""
        arguments = "(erased)" if self.arguments is None else self.arguments
        short = arguments if len(arguments) <= ASKED_CHARS else f"{arguments[:ASKED_CHARS]}…"
        return f"{self.tool} {short}"


async def doubts_of(store: Store, conversation: str | None = None) -> list[Doubt]:
    """The calls in doubt, and those that ended as unknown and that nobody has resolved, of one conversation or of all."""
    rows = (await (store.query(_IN_DOUBT) if conversation is None else store.query(_IN_DOUBT_OF, (conversation,)))).rows
    return [_doubt(row) for row in rows if not _is_resolved(row)]


async def doubt_of(store: Store, call: str) -> Doubt:
    """The doubt about one call. Raises UnknownCall; NotInDoubt, or AlreadyResolved, which says what is known of it."""
    try:
        log, seq = log_and_seq(call)
    except ValueError as error:
        raise UnknownCall(call[:80]) from error
    rows = (await store.query(_ONE, (log, seq))).rows
    if not rows:
        raise await _no_row(store, call, log, seq)
    row = rows[0]
    _, _, _, _, _, status, effect, _, child, started_at, *_ = row
    if child is not None:
        raise NotInDoubt(call, f"it is a delegation, and {child} tells what became of it")
    stopped = status in _STOPPED and effect == "once"
    if status not in (WAITING, UNKNOWN) and not stopped:
        raise await _not_in_doubt(store, row, call)
    if started_at is None:
        raise NotInDoubt(call, f"it is {status} and was never started")
    if _is_resolved(row):
        raise await _already(store, row, call)
    return _doubt(row)


async def resolve_item(
    store: Store,
    call: str,
    resolution: Resolution,
    *,
    result: str | None = None,
    reason: str = "",
    by: str = "user",
    bytes_max: int,
) -> tuple[LogId, str, Resolve]:
    """The log, inbox key and item that say what became of a call in doubt.

    Errors: those of `doubt_of`; InputRefused for a result that does not go with the resolution, or too long a text.
    """
    if result is not None and resolution is not Resolution.DONE:
        raise InputRefused(f"a result goes with 'done', not with {resolution.value!r}; say why with a reason")
    size = len((result or "").encode("utf-8", "surrogatepass")) + len(reason.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        raise InputRefused(f"result and reason have {size} bytes, over input_bytes_max ({bytes_max})")
    doubt = await doubt_of(store, call)
    item = Resolve(
        call=doubt.call,
        attempt=doubt.attempt,
        resolution=resolution,
        tool=doubt.tool,
        asked=doubt.asked,
        by=name_of(by),
        result=result,
        reason=reason,
    )
    return doubt.conversation, f"resolve:{doubt.call}:{doubt.attempt}", item


def _doubt(row: Sequence[Any]) -> Doubt:
    log, seq, agent, tool, arguments, status, _, attempt, _, started_at, finished_at, _, doubted_at, _ = row
    waits = status == WAITING
    return Doubt(
        call=call_id(log, seq),
        conversation=LogId(log),
        agent=Name(agent),
        tool=Name(tool),
        arguments=arguments,
        state=WAITING if waits else UNKNOWN,
        attempt=attempt,
        started_at=started_at,
        since=doubted_at if doubted_at is not None else finished_at or started_at,
    )


def _is_resolved(row: Sequence[Any]) -> bool:
    """Whether somebody has told what became of a call that had ended; before that, a person may have had it tried again."""
    result_seq, resolved_seq = row[11], row[13]
    return result_seq is not None and resolved_seq is not None and resolved_seq > result_seq


async def _not_in_doubt(store: Store, row: Sequence[Any], call: str) -> NotInDoubt:
    status, resolved_seq = row[5], row[13]
    if resolved_seq is not None and status in ("done", "failed"):
        return await _already(store, row, call)
    if status == "started":
        return NotInDoubt(
            call, "it runs; if its process died, 'agentos run --resume' finds that out, and puts the call in doubt"
        )
    return NotInDoubt(call, f"it is {status}")


async def _already(store: Store, row: Sequence[Any], call: str) -> AlreadyResolved:
    """Who resolved it, and as what, from the entry."""
    seq = row[13]
    for stored in await store.entries(row[0], seq - 1, seq, kinds={CallResolved.kind}):
        head = decode_head(stored.head)
        return AlreadyResolved(call, str(head.data["resolution"]), head.by)
    return AlreadyResolved(call)


async def _no_row(store: Store, call: str, log: str, seq: int) -> UnknownCall:
    """A fork has the calls of its parent as its own, but only the parent's own can be resolved."""
    row = await store.log(log)
    if row is not None and row.forked_from is not None and seq <= row.upto:
        return UnknownCall(call, f"{log} is a fork and shares it: resolve {call_id(row.forked_from, seq)}")
    return UnknownCall(call)
