"""A tree sifted: the nodes that somebody looks for, and those above them, so that it shows where they stand."""

from __future__ import annotations

import re

import msgspec

from agentos.history.lineage.tree import Node, Tree

_WORD = re.compile(r"[^(,]*")


class Sift(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has to be, all of it; None asks nothing.

    agent: of a conversation of this agent. tool: a call of this tool. status: `failed` also finds `failed(raised)`.
    slow_ms: it took at least so long. min_tokens: so many went in and out at least, with subagents.
    """

    agent: str | None = None
    tool: str | None = None
    status: str | None = None
    slow_ms: float | None = None
    min_tokens: int | None = None

    def takes(self, node: Node) -> bool:
        return (
            (self.agent is None or node.agent == self.agent)
            and (self.tool is None or (node.kind == "call" and node.name == self.tool))
            and (self.status is None or has_status(node.status, self.status))
            and (self.slow_ms is None or (node.ms is not None and node.ms >= self.slow_ms))
            and (self.min_tokens is None or node.total.input + node.total.output >= self.min_tokens)
        )


class Sifted(msgspec.Struct, frozen=True, kw_only=True):
    """The tree that is left, with its root in any case; matches counts the nodes that were looked for, of how many."""

    tree: Tree
    matches: int
    nodes: int


def sifted(tree: Tree, sift: Sift) -> Sifted:
    """Sums stay those of the whole tree."""
    sifting = _Sifting(sift)
    root = sifting.left(tree.root) or msgspec.structs.replace(tree.root, children=())
    return Sifted(tree=msgspec.structs.replace(tree, root=root), matches=sifting.matches, nodes=sifting.nodes)


def has_status(status: str, wanted: str) -> bool:
    """Whether a status is this one, or begins with this word."""
    found = _WORD.match(status)
    return status == wanted or (found is not None and found[0] == wanted)


class _Sifting:
    def __init__(self, sift: Sift) -> None:
        self._sift = sift
        self.matches = self.nodes = 0

    def left(self, node: Node) -> Node | None:
        """The node with what is left below it; None when neither is looked for."""
        self.nodes += 1
        below = tuple(one for child in node.children if (one := self.left(child)) is not None)
        if self._sift.takes(node):
            self.matches += 1
        elif not below:
            return None
        return msgspec.structs.replace(node, children=below)
