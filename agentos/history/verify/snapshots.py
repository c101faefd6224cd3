"""Snapshots against the fold: what a snapshot holds is what all entries before it come to.

Whoever reads a log begins at its last snapshot, so one that says something else changes what is read, and every digest
may still fit, when whoever wrote it made those anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from agentos.codec import encode_struct
from agentos.components import Component
from agentos.events.entry import Entry, RawComponent
from agentos.history.report import Finder

Folded = Mapping[int, Mapping[type[Component], Any]]
"""The components of a log by entity, as its entries come to."""


def compare_snapshot(snapshot: Entry, folded: Folded, finder: Finder) -> None:
    """Names every component in which it differs from what its unit comes to; folded is the state after that."""
    stored = {(entity, type(component)): component for entity, component in snapshot.changes}
    expected = {(entity, type_): component for entity, row in folded.items() for type_, component in row.items()}
    if stored == expected:
        return
    for key in [*expected, *(key for key in stored if key not in expected)]:
        was, is_ = stored.get(key), expected.get(key)
        if was != is_:
            finder.differ(snapshot.seq, "entries", "snapshot", _said(key[0], was), _said(key[0], is_))


def _said(entity: int, component: Component | None) -> str | None:
    """A component by its name, its entity, and the digest of what it holds."""
    if component is None:
        return None
    name = component.name if isinstance(component, RawComponent) else component.component
    digest = hashlib.sha256(encode_struct(component)).hexdigest()[:16]
    return f"{name} of {entity or 'the conversation'}, sha256 {digest}"
