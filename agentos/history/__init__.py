"""What the log can tell: verify it, decide it again, show a request as it was, and the tree of calls.

Importing the package loads none of its parts, so that a command pays for its own part alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "Act",
    "Anchor",
    "AnchorKey",
    "Anchored",
    "Anchors",
    "Change",
    "Checked",
    "Compared",
    "Copied",
    "Departed",
    "Difference",
    "Divergence",
    "Finding",
    "Followed",
    "Found",
    "Hit",
    "Identical",
    "Left",
    "Mended",
    "Node",
    "Only",
    "Parting",
    "Past",
    "Point",
    "Processes",
    "Progress",
    "Proof",
    "Replayed",
    "Report",
    "Search",
    "Side",
    "Skipped",
    "Standing",
    "StepRequest",
    "Tokens",
    "Tree",
    "Unchanged",
    "Variant",
    "Versions",
    "Wanted",
    "anchor_store",
    "check_store",
    "copy_store",
    "digest_of_heads",
    "family_of",
    "frames_of",
    "heads_digest",
    "iso_time",
    "lineage_of",
    "parse_point",
    "parting_of",
    "past_of",
    "pinned_by",
    "processes_of",
    "query_as_of",
    "read_anchors",
    "render_tree",
    "repair_store",
    "replay_against",
    "replay_all",
    "replay_family",
    "replay_log",
    "request_of",
    "search_store",
    "standing_at",
    "verify_store",
]

if TYPE_CHECKING:
    from agentos.history.against.departure import Change, Compared, Departed, Followed, Unchanged
    from agentos.history.against.log import replay_against
    from agentos.history.against.variants import Variant
    from agentos.history.anchors.anchor import Anchor, Anchors
    from agentos.history.anchors.file import read_anchors
    from agentos.history.anchors.keys import AnchorKey
    from agentos.history.anchors.write import Anchored, anchor_store
    from agentos.history.copy.store import Copied, Progress, copy_store
    from agentos.history.fsck.mending import Mended
    from agentos.history.fsck.store import Checked, Finding, Left, check_store, repair_store
    from agentos.history.heads import digest_of_heads, heads_digest
    from agentos.history.lineage.frames import frames_of, lineage_of
    from agentos.history.lineage.tree import Node, Tokens, Tree, render_tree
    from agentos.history.lineage.versions import Versions
    from agentos.history.parting import Act, Parting, Side, parting_of
    from agentos.history.past.asof import Past, past_of, query_as_of
    from agentos.history.past.points import Point, iso_time, parse_point
    from agentos.history.past.processes import Processes, processes_of
    from agentos.history.past.reach import Only
    from agentos.history.past.request import StepRequest, request_of
    from agentos.history.past.standing import Standing, standing_at
    from agentos.history.reading import pinned_by
    from agentos.history.replay.family import family_of, replay_family
    from agentos.history.replay.log import replay_all, replay_log
    from agentos.history.replay.results import Divergence, Identical, Replayed, Skipped
    from agentos.history.report import Difference, Proof, Report
    from agentos.history.search.hits import Hit
    from agentos.history.search.search import Found, Search, Wanted, search_store
    from agentos.history.verify.store import verify_store
else:
    # Hidden from the type checker, which would take any name for a good one beside a __getattr__.
    _HOMES = {
        "Act": "parting",
        "Anchor": "anchors.anchor",
        "AnchorKey": "anchors.keys",
        "Anchored": "anchors.write",
        "Anchors": "anchors.anchor",
        "Change": "against.departure",
        "Checked": "fsck.store",
        "Compared": "against.departure",
        "Copied": "copy.store",
        "Departed": "against.departure",
        "Difference": "report",
        "Divergence": "replay.results",
        "Finding": "fsck.store",
        "Followed": "against.departure",
        "Found": "search.search",
        "Hit": "search.hits",
        "Identical": "replay.results",
        "Left": "fsck.store",
        "Mended": "fsck.mending",
        "Node": "lineage.tree",
        "Only": "past.reach",
        "Parting": "parting",
        "Past": "past.asof",
        "Point": "past.points",
        "Processes": "past.processes",
        "Progress": "copy.store",
        "Proof": "report",
        "Replayed": "replay.results",
        "Report": "report",
        "Search": "search.search",
        "Side": "parting",
        "Skipped": "replay.results",
        "Standing": "past.standing",
        "StepRequest": "past.request",
        "Tokens": "lineage.tree",
        "Tree": "lineage.tree",
        "Unchanged": "against.departure",
        "Variant": "against.variants",
        "Versions": "lineage.versions",
        "Wanted": "search.search",
        "anchor_store": "anchors.write",
        "check_store": "fsck.store",
        "copy_store": "copy.store",
        "digest_of_heads": "heads",
        "family_of": "replay.family",
        "frames_of": "lineage.frames",
        "heads_digest": "heads",
        "iso_time": "past.points",
        "lineage_of": "lineage.frames",
        "parse_point": "past.points",
        "parting_of": "parting",
        "past_of": "past.asof",
        "pinned_by": "reading",
        "processes_of": "past.processes",
        "query_as_of": "past.asof",
        "read_anchors": "anchors.file",
        "render_tree": "lineage.tree",
        "repair_store": "fsck.store",
        "replay_against": "against.log",
        "replay_all": "replay.log",
        "replay_family": "replay.family",
        "replay_log": "replay.log",
        "request_of": "past.request",
        "search_store": "search.search",
        "standing_at": "past.standing",
        "verify_store": "verify.store",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__():
        return __all__
