"""What the log can tell: verify it, decide it again, show a request as it was, and the tree of calls."""

from agentos.history.copying import Copied, Progress, copy_store
from agentos.history.heads import digest_of_heads, heads_digest
from agentos.history.lineage import frames_of, lineage_of
from agentos.history.reading import pinned_by
from agentos.history.replay import replay_all, replay_log
from agentos.history.report import Difference, Report
from agentos.history.request import StepRequest, request_of
from agentos.history.results import Divergence, Identical, Replayed, Skipped
from agentos.history.tree import Node, Tokens, Tree, render_tree
from agentos.history.verify import verify_store
from agentos.history.versions import Versions

__all__ = [
    "Copied",
    "Difference",
    "Divergence",
    "Identical",
    "Node",
    "Progress",
    "Replayed",
    "Report",
    "Skipped",
    "StepRequest",
    "Tokens",
    "Tree",
    "Versions",
    "copy_store",
    "digest_of_heads",
    "frames_of",
    "heads_digest",
    "lineage_of",
    "pinned_by",
    "render_tree",
    "replay_all",
    "replay_log",
    "request_of",
    "verify_store",
]
