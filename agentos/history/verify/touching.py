"""What a unit changes, from its heads: entries are made of those alone whose data a fold looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import AgentConfig, Component, TurnConfig
from agentos.errors import CodecError
from agentos.events.entry import Entry, Head, Registry, bare_entry_of, raw_component
from agentos.events.kinds import KINDS, CallResolved, PayloadErased, Snapshot, TurnFinished, TurnStarted
from agentos.ids import LogId

Touched = dict[int, dict[type[Component], Any]]
"""Components by entity."""

_TOLD = frozenset(kind.kind for kind in (CallResolved, PayloadErased, Snapshot, TurnFinished, TurnStarted))
_PINNING = frozenset({AgentConfig.component, TurnConfig.component})
"""Components that name definitions."""
_convert = msgspec.convert


def touched_in(log: LogId, heads: Sequence[Head], registry: Registry) -> tuple[Touched, list[Entry]]:
    """The components after a unit, and those of its entries that say more than these: what begins, ends or erases, what
    names definitions, and snapshots, which change nothing. All data is read, whether or not it is looked at.

    Errors: CodecError for what cannot be read.
    """
    touched: Touched = {}
    told: list[Entry] = []
    for head in heads:
        kind = KINDS.get(head.kind)
        if kind is None or head.kind in _TOLD:
            told.append(entry := bare_entry_of(log, head, registry))
            for entity, component in entry.changes if kind is not Snapshot else ():
                touched.setdefault(entity, {})[type(component)] = component
        elif _take(head, kind, registry.types, touched):
            told.append(bare_entry_of(log, head, registry))
    return touched, told


def _take(head: Head, kind: type[Any], types: dict[str, type[Component]], touched: Touched) -> bool:
    """Whether it names definitions."""
    pins = False
    try:
        _convert(head.data or {}, kind)
        for entity, name, value in head.changes:
            type_ = types.get(name)
            component = _convert(value, type_) if type_ is not None else raw_component(name, value)
            row = touched.get(entity)
            if row is None:
                touched[entity] = {type(component): component}
            else:
                row[type(component)] = component
            pins = pins or name in _PINNING
    except msgspec.ValidationError as error:
        raise CodecError(f"{head.kind}: {error}") from error
    return pins
