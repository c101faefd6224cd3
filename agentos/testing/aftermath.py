"""What must hold of a store once everything has ended: verified, decided again, and with every lineage whole."""

from __future__ import annotations

from agentos.components import CallState
from agentos.events.entry import Registry
from agentos.history import Identical, Skipped, replay_all, verify_store
from agentos.ids import Kind, LogId, log_and_seq
from agentos.journal import decode_units
from agentos.persistence.base import LogRow, Store
from agentos.systems import SCHEDULE, Schedule


async def problems_of(store: Store, *, schedule: Schedule = SCHEDULE, registry: Registry | None = None) -> list[str]:
    """One sentence for each; none when verify is content, strict replay is identical and no lineage is broken."""
    report = await verify_store(store, registry=registry)
    found = [f"verify: {difference}" for difference in report.differences]
    results = [result async for result in replay_all(store, schedule=schedule, registry=registry)]
    found += [f"replay: {result}" for result in results if not isinstance(result, (Identical, Skipped))]
    return found + await broken_lineages(store, registry)


async def broken_lineages(store: Store, registry: Registry | None = None) -> list[str]:
    """Each conversation that says it is a child hangs below a call that says so too, under the same root."""
    rows = {row.id: row for row in await store.logs(Kind.CONVERSATION.value)}
    children = {id_: await _children_of(store, id_, registry or Registry()) for id_ in rows}
    return [
        f"{row.id} says that {row.parent_call} started it: {why}"
        for row in rows.values()
        if row.parent_call is not None and (why := _break_above(row, rows, children)) is not None
    ]


def _break_above(row: LogRow, rows: dict[LogId, LogRow], children: dict[LogId, dict[int, str | None]]) -> str | None:
    parent, call = log_and_seq(str(row.parent_call))
    if parent not in rows:
        return "there is no such conversation"
    if rows[parent].root != row.root:
        return f"their roots differ, {rows[parent].root} and {row.root}"
    return None if children[parent].get(call) == row.id else f"that call started {children[parent].get(call)}"


async def _children_of(store: Store, log: LogId, registry: Registry) -> dict[int, str | None]:
    """The child of each call of a log that was started there."""
    return {
        entity: component.child
        for unit in decode_units(log, await store.entries(log), registry)
        for entry in unit
        for entity, component in entry.changes
        if isinstance(component, CallState) and component.attempt
    }
