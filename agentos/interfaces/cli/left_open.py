"""What a process that has ended left open in the store, for whoever takes it up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from agentos.interfaces.cli.output import counted
from agentos.kernel.reading import Reading, reading

_TURNS = """
select conversations.id, conversations.state from logs join conversations on conversations.n = logs.n
where logs.owner = ? and conversations.open_turn > 0 order by logs.n
"""
_CALLS = """
select tool_calls.id from tool_calls
    join conversations on conversations.id = tool_calls.conversation
    join logs on logs.n = conversations.n
where logs.owner = ? and tool_calls.status = 'waiting' and exists (
    select 1 from events where events.call_id = tool_calls.id and events.kind = 'approval.requested'
) order by logs.n, tool_calls.id
"""


class LeftOpen(NamedTuple):
    """Conversations with an open turn that waits for somebody or something (parked), or was cut short (cut), the calls that a
    person was asked about, and conversations whose next turn has not begun (waiting), all by their ids."""

    parked: list[str]
    cut: list[str]
    requests: list[str]
    waiting: list[str]

    def as_object(self) -> dict[str, Any]:
        return self._asdict()

    def __str__(self) -> str:
        if not self.parked and not self.cut and not self.waiting:
            return "nothing was left open"
        parts = []
        if self.parked:
            asked = (
                f" ({counted(len(self.requests), 'call')} to be approved: 'agentos answer')" if self.requests else ""
            )
            parts.append(f"{counted(len(self.parked), 'turn')} left parked{asked}")
        if self.cut:
            parts.append(f"{counted(len(self.cut), 'turn')} cut short")
        if self.waiting:
            parts.append(f"{counted(len(self.waiting), 'turn')} not begun")
        return f"{', '.join(parts)}; the next 'agentos up' goes on with what was left, as does 'agentos run --resume'"


async def left_open(url: str, writer: int) -> LeftOpen:
    """Of what the writer with this number owned. Raises StoreError."""
    async with reading(url) as store:
        turns = (await store.query(_TURNS, (writer,))).rows
        calls = (await store.query(_CALLS, (writer,))).rows
        waiting = await _waiting(store, writer, {str(id_) for id_, _ in turns})
    return LeftOpen(
        parked=[str(id_) for id_, state in turns if state == "parked"],
        cut=[str(id_) for id_, state in turns if state != "parked"],
        requests=[str(id_) for (id_,) in calls],
        waiting=waiting,
    )


async def _waiting(store: Reading, writer: int, open_: Collection[str]) -> list[str]:
    """Conversations of a writer that have something for a turn, beside those where one is open."""
    others = [id_ for id_ in await store.store.open_logs() if id_ not in open_]
    rows = [await store.store.log(id_) for id_ in others]
    return [row.id for row in rows if row is not None and row.owner == writer]
