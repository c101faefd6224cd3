"""Strict replay: decides a log again from what it recorded, and compares unit by unit. No model and no tool is called.

Each unit's intake is rebuilt from its fed entries; slots, contexts and time are answered from the unit. What the
systems then decide has to be what is stored: kind, turn, call, by, cause, data, changes and private bodies, and at the
end of a unit the snapshot, if one was taken. Digests and commitments are left to `verify`. An erased body equals
anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agentos.events.entry import Registry
from agentos.history.reading import Contexts, conversation_row, stored_pages
from agentos.history.replay.deciding import Deciding, Rules, rules_of
from agentos.history.replay.results import Replayed, Skipped
from agentos.ids import Kind
from agentos.persistence.base import LogRow, Store
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule


async def replay_all(
    store: Store,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> AsyncGenerator[Replayed, None]:
    """Replays every log, oldest first; see `replay_log`. Logs of administration are skipped, and said to be."""
    rules, contexts = rules_of(schedule, registry, settings), Contexts(store)
    for row in await store.logs():
        yield await replay_row(store, row, contexts, rules)


async def replay_log(
    store: Store,
    log: str,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> Replayed:
    """Decides one log again. A kernel's own systems, components and pass_decisions_max have to be given here too.

    The entries that a fork shares are its parent's, and are replayed there.
    Errors: UnknownConversation, StoreUnavailable.
    """
    row = await conversation_row(store, log)
    return await replay_row(store, row, Contexts(store), rules_of(schedule, registry, settings))


async def replay_row(store: Store, row: LogRow, contexts: Contexts, rules: Rules) -> Replayed:
    """Decides the log of this row again, up to the head that the row names."""
    if row.kind != Kind.CONVERSATION.value:
        return Skipped(log=row.id, kind=row.kind)
    deciding = Deciding(row, contexts, rules)
    async for units in stored_pages(store, row.id, upto=row.seq):
        for stored in units:
            divergence = await deciding.unit(stored)
            if divergence is not None:
                return divergence
    return deciding.identical()
