"""Drafts to units to digests, apply, and the rows that people query."""

from agentos.journal.apply import apply, decode_units, fold, fold_unit
from agentos.journal.loading import Folded, load_log
from agentos.journal.projections import Projection, Times, project, resolutions_of, touched_by
from agentos.journal.seal import Head, Sealed, erases_of, posted_item, seal, seal_drafts, wakeup_row

__all__ = [
    "Folded",
    "Head",
    "Projection",
    "Sealed",
    "Times",
    "apply",
    "decode_units",
    "erases_of",
    "fold",
    "fold_unit",
    "load_log",
    "posted_item",
    "project",
    "resolutions_of",
    "seal",
    "seal_drafts",
    "touched_by",
    "wakeup_row",
]
