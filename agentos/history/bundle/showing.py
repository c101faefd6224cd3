"""What spans.json and index.html of a bundle show: the call trees of its conversations, and the facts above them."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.history.bundle.manifest import LogPart, Manifest
from agentos.history.lineage.frames import lineage_of
from agentos.history.lineage.tree import Node, Tree
from agentos.history.past.points import iso_time
from agentos.ids import Kind
from agentos.persistence.base import Store


async def trees_of(
    store: Store, logs: Sequence[LogPart], conversation: str | None, nodes_max: int
) -> tuple[list[Tree], bool]:
    """The tree of a conversation, or those of all roots and forks; and whether there is more than nodes_max of all.

    They are as the store has them when they are read, a little later than the logs.
    """
    roots = [conversation] if conversation is not None else [log.id for log in logs if _is_root(log)]
    trees: list[Tree] = []
    left = nodes_max
    for root in roots:
        if left <= 0:
            return trees, True
        tree = await lineage_of(store, root, nodes_max=left)
        trees.append(tree)
        left -= _count(tree.root)
    return trees, any(tree.cut for tree in trees)


def facts_of(manifest: Manifest) -> dict[str, str]:
    """What stands at the head of the page."""
    logs = manifest.logs
    return {
        "asked for": manifest.asked or "the whole store",
        "made at": iso_time(manifest.made_at),
        "logs": f"{len(logs):,}",
        "entries": f"{sum(log.entries for log in logs):,}",
        "texts": "left out (redacted)" if manifest.redacted else "in the logs of this bundle",
        "digest of the heads": manifest.heads,
        "written by": f"agentos {manifest.agentos}",
    }


def _is_root(log: LogPart) -> bool:
    return log.kind == Kind.CONVERSATION.value and (log.parent_call is None or log.forked_from is not None)


def _count(root: Node) -> int:
    """With a stack of its own, so that no tree is too deep."""
    count, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        count += 1
        waiting += node.children
    return count
