"""What tests of stores write: units of one log, whose made-up entries chain as those of the journal do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from agentos.ids import Kind, LogId, hashed_id
from agentos.persistence.base import EntryRow, InboxRow, LogRow, MessageRow, Store, Unit, Verdict, WakeupRow

AT = 1_796_031_974_123_456
"""When the entry at seq 0 would have been; each is one second after the one before."""
SALT = bytes(range(240, 256))
SECOND = 1_000_000
LOOKS, LOOK_S = 2_000, 0.005
"""How often, and how far apart, a change is looked for that is sure to come."""

_incarnations = count(1)


class LogUnits:
    """Builds one unit after the other, each on the head that the last one leaves; the first one creates the log."""

    def __init__(self, name: str, owner: int, *, epoch: int = 1, fork_of: LogRow | None = None) -> None:
        self.id = LogId(hashed_id(Kind.CONVERSATION, name))
        self.owner, self.epoch = owner, epoch
        self.seq = fork_of.seq if fork_of else 0
        self.digest = fork_of.digest if fork_of else hashlib.sha256(self.id.encode()).digest()
        self.create: LogRow | None = LogRow(
            id=self.id,
            kind="conversation",
            owner=owner,
            epoch=epoch,
            seq=self.seq,
            digest=self.digest,
            root=self.id,
            forked_from=fork_of.id if fork_of else None,
            upto=self.seq,
        )

    def unit(self, *kinds: str, text: str | None = None, role: str = "user", **others: Any) -> Unit:
        """Entries of these kinds, one when none is named; `text` is a message that the first entry brings."""
        first, previous = self.seq + 1, self.digest
        entries = [self._entry(kind, first) for kind in kinds or ("input.received",)]
        messages: Sequence[MessageRow] = [] if text is None else [(first, role, 0, 0, SALT, text)]
        create, self.create = self.create, None
        unit = Unit(
            log=self.id,
            owner=self.owner,
            epoch=self.epoch,
            previous_seq=first - 1,
            previous=previous,
            seq=self.seq,
            digest=self.digest,
            entries=entries,
            payloads=[],
            messages=list(messages),
            create=create,
        )
        for field, value in others.items():
            setattr(unit, field, value)
        return unit

    def conversation(
        self, *, open_turn: int = 0, updated_at: int = AT, state: str = "", parent: str | None = None
    ) -> tuple[Any, ...]:
        """A row of the table `conversations`."""
        state = state or ("running" if open_turn else "idle")
        counters = (1, 2, 3, 100, 200)
        return (self.id, "agent_x", state, 0, parent, self.id, open_turn, *counters, AT, updated_at)

    def owned(self, row: LogRow) -> LogUnits:
        """The same log under the owner and epoch, and on the head, of this row."""
        self.owner, self.epoch, self.seq, self.digest = row.owner, row.epoch, row.seq, row.digest
        return self

    def _entry(self, kind: str, unit: int) -> EntryRow:
        self.seq += 1
        at = AT + self.seq * SECOND
        head = f'{{"at":{at},"kind":"{kind}","seq":{self.seq},"unit":{unit},"writer":{self.owner}}}'
        self.digest = hashlib.sha256(self.digest + head.encode()).digest()
        return self.seq, unit, kind, 0, 0, at, head, self.digest


def post_of(log: str, key: str, body: str = "{}") -> InboxRow:
    """Something for the inbox of a log."""
    return InboxRow(log=log, key=key, kind="input", salt=SALT, body=body)


def turn_row(seq: int) -> tuple[Any, ...]:
    """A row of the table `turns`: one that began at this seq, and is open."""
    return (seq, "open", None, None, 0, 0, 0, 0, AT, None, "context")


def wakeup_of(log: str, reason: str, due_at: int) -> WakeupRow:
    """A time that turn 1 of a log waits for."""
    return WakeupRow(log=log, reason=reason, turn=1, call=0, due_at=due_at)


@asynccontextmanager
async def opened(store_factory: Callable[[], Store]) -> AsyncIterator[tuple[Store, int]]:
    """One more handle on the data, open for the length of a block, with its writer's number."""
    store = store_factory()
    number = await store.open(f"program_{next(_incarnations)}")
    try:
        yield store, number
    finally:
        await store.close()


async def append(store: Store, *units: Unit) -> list[Verdict]:
    """The verdicts, whether the store gave them at once or later."""
    answer = store.append(units)
    return answer if isinstance(answer, list) else await answer


async def changed_soon(store: Store) -> bool:
    """Whether the store tells of a change; the word of another process may still be under way."""
    for _ in range(LOOKS):
        if store.changed():
            return True
        await asyncio.sleep(LOOK_S)
    return False
