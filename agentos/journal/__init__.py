"""Drafts to units to digests, apply, and the rows that people query."""

from agentos.journal.apply import apply, decode_units, fold, fold_unit
from agentos.journal.projections import Projection, Times, project, touched_by
from agentos.journal.seal import Head, Sealed, posted_item, seal, seal_drafts, wakeup_row

__all__ = [
    "Head",
    "Projection",
    "Sealed",
    "Times",
    "apply",
    "decode_units",
    "fold",
    "fold_unit",
    "posted_item",
    "project",
    "seal",
    "seal_drafts",
    "touched_by",
    "wakeup_row",
]
