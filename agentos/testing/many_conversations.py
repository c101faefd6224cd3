"""A store of very many conversations, made in seconds: what listing and paging are measured and tested with.

Each conversation is one unit that goes through the store's own `append`, with an entry, a message and a row. Nothing was
decided by a system, so it is a store to list, not one to replay.
"""

from __future__ import annotations

import asyncio

import msgspec

from agentos.ids import Kind, hashed_id
from agentos.persistence.base import Store, Unit, Verdict
from agentos.testing.log_units import AT, SECOND, LogUnits

BATCH_UNITS = 2_000
AGENTS = ("librarian", "clerk", "scribe", "reader")
STATES = ("idle",) * 96 + ("parked", "running", "paused", "closed")
"""Of a hundred conversations."""
RARE_AGENT = "auditor"
RARE_EVERY = 1_000
TENANT = "acme"
CHILD_EVERY = 5


async def add_conversations(
    store: Store, writer: int, count: int, *, first: int = 0, tenant_every: int | None = None
) -> None:
    """Appends so many, numbered from first, through a store that is open under this writer's number.

    Conversation number i began i seconds after AT; the order of updates is another one. Every CHILD_EVERY'th was begun by
    the one before it, and every RARE_EVERY'th is of RARE_AGENT. Every tenant_every'th is on the account of TENANT.
    """
    for begin in range(first, first + count, BATCH_UNITS):
        numbers = range(begin, min(begin + BATCH_UNITS, first + count))
        units = [unit_of(i, writer, TENANT if tenant_every and i % tenant_every == 0 else None) for i in numbers]
        answer = store.append(units)
        verdicts = answer if isinstance(answer, list) else await answer
        assert all(verdict is Verdict.STORED for verdict in verdicts), "the logs are new"
        await asyncio.sleep(0)


def name_of(i: int) -> str:
    """The id of conversation number i."""
    return hashed_id(Kind.CONVERSATION, f"many {i}")


def unit_of(i: int, writer: int, tenant: str | None = None) -> Unit:
    log = LogUnits(f"many {i}", writer)
    parent = name_of(i - 1) if i % CHILD_EVERY == 1 else None
    state = STATES[i * 37 % len(STATES)]
    agent = RARE_AGENT if i % RARE_EVERY == 0 else AGENTS[i % len(AGENTS)]
    updated_at = AT + (i * 7_919 % 1_000_003) * SECOND
    open_turn = 1 if state in ("parked", "running") else None
    row = (log.id, agent, state, int(parent is not None), parent, parent or log.id, open_turn)
    counters = (1 + i % 9, 2 + i % 5, i % 7, 100 * (i % 11), 10 * (i % 13))
    unit = log.unit(text=f"input {i}", conversation=(*row, *counters, AT + i * SECOND, updated_at))
    if tenant is not None and unit.create is not None:
        unit.create = msgspec.structs.replace(unit.create, tenant=tenant)
    return unit
