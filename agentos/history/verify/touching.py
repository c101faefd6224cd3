"""What a unit changes, from its heads: no entries are made, but for snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import AgentConfig, Component, ToolboxConfig, TurnConfig
from agentos.errors import CodecError
from agentos.events.entry import Draft, Entry, Head, Registry, bare_entry_of, raw_component
from agentos.events.kinds import KINDS, CallResolved, Snapshot, TurnFinished, TurnStarted
from agentos.ids import LogId

_TOLD = frozenset({CallResolved, TurnFinished, TurnStarted})
_NAMING = frozenset({AgentConfig.component, ToolboxConfig.component, TurnConfig.component})
_convert = msgspec.convert


class Changed(msgspec.Struct, gc=False):
    """touched are the components after a unit, by entity. drafts are those of its entries that say more than these, what
    begins, ends or resolves, without their changes. naming are the components that name definitions, with their heads;
    and snapshots change nothing."""

    touched: dict[int, dict[type[Component], Any]] = {}
    drafts: list[Draft] = []
    naming: list[tuple[Component, Head]] = []
    snapshots: list[Entry] = []


def changed_by(log: LogId, heads: Sequence[Head], registry: Registry) -> Changed:
    """All data is read, whether or not it is looked at. Raises CodecError for what cannot be read."""
    changed = Changed()
    for head in heads:
        kind = KINDS.get(head.kind)
        if kind is Snapshot:
            changed.snapshots.append(bare_entry_of(log, head, registry))
            continue
        try:
            _take_components(head, registry.types, changed)
            data = _convert(head.data or {}, kind) if kind is not None else None
        except msgspec.ValidationError as error:
            raise CodecError(f"{head.kind}: {error}") from error
        if data is not None and kind in _TOLD:
            changed.drafts.append(Draft(data=data, turn=head.turn, call=head.call))
    return changed


def _take_components(head: Head, types: dict[str, type[Component]], changed: Changed) -> None:
    touched = changed.touched
    for entity, name, value in head.changes:
        type_ = types.get(name)
        component = _convert(value, type_) if type_ is not None else raw_component(name, value)
        if entity in touched:
            touched[entity][type(component)] = component
        else:
            touched[entity] = {type(component): component}
        if name in _NAMING:
            changed.naming.append((component, head))
