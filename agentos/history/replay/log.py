"""Strict replay: decides a log again from what it recorded, and compares unit by unit. No model and no tool is called.

Each unit's intake is rebuilt from its fed entries; slots, contexts and time are answered from the unit. What the
systems then decide has to be what is stored: kind, turn, call, by, cause, data, changes and private bodies, and at the
end of a unit the snapshot, if one was taken. Digests and commitments are left to `verify`. An erased body equals
anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from agentos.events.entry import Registry
from agentos.history.pages import Page, Swept, Units, numbers_of
from agentos.history.reading import Contexts, conversation_row, stored_pages
from agentos.history.replay.deciding import Deciding, Rules, rules_of
from agentos.history.replay.results import Replayed, Skipped
from agentos.ids import Kind
from agentos.persistence.base import LogRow, Store
from agentos.persistence.scanning import Scannable
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
    rows = await store.logs()
    swept = Swept(store, 1) if isinstance(store, Scannable) else None
    numbers = {log: n for n, log in await numbers_of(store)} if swept is not None else {}
    for row in rows:
        if swept is None or row.forked_from is not None:  # a fork begins with what it shares
            yield await replay_row(store, row, contexts, rules)
        else:
            yield await _replayed(row, _units_of(swept.of(row, numbers[row.id]), row.seq), contexts, rules)


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
    return await _replayed(row, stored_pages(store, row.id, upto=row.seq), contexts, rules)


async def _replayed(row: LogRow, pages: AsyncIterator[Units], contexts: Contexts, rules: Rules) -> Replayed:
    if row.kind != Kind.CONVERSATION.value:
        return Skipped(log=row.id, kind=row.kind)
    deciding = Deciding(row, contexts, rules)
    async for units in pages:
        for stored in units:
            divergence = await deciding.unit(stored)
            if divergence is not None:
                return divergence
    return deciding.identical()


async def _units_of(pages: AsyncIterator[Page], upto: int) -> AsyncIterator[Units]:
    """Those up to a head: a log may have moved on since it was looked at."""
    async for units, *_ in pages:
        yield [unit for unit in units if unit[-1].seq <= upto]
