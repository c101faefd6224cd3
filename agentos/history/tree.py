"""The call tree as data, and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from agentos.lineage import LineageFrame


class Tokens(msgspec.Struct, frozen=True):
    """What models counted: input and output."""

    input: int = 0
    output: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.input + other.input, self.output + other.output)

    def __str__(self) -> str:
        return f"{self.input}+{self.output} tokens"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, turn, step or call, with what is below it.

    id names it, a step by its turn and number; seq is that of its entry, for a step its last model.requested; name is
    an agent's slug or a tool's name. ms is None while it is not over, or never began; that of a conversation is the sum
    of its turns. tokens are its own, of its conversation alone; total has those of all conversations below it too.
    version, of a turn, names the version of the agent that it ran with, and those of toolboxes that have had several.
    """

    kind: str
    id: str
    status: str
    seq: int = 0
    name: str = ""
    ms: float | None = None
    tokens: Tokens = Tokens()
    total: Tokens = Tokens()
    version: str = ""
    children: tuple[Node, ...] = ()


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its descendants, and the frames above it, root first.

    cut tells that there is more below than nodes_max.
    """

    root: Node
    above: tuple[LineageFrame, ...] = ()
    cut: bool = False


def render_tree(tree: Tree) -> str:
    """The tree with box characters: names, status, milliseconds, tokens as input+output. No line break at the end."""
    lines = [f"above: {printable(' > '.join(frame.entity_id for frame in tree.above))}"] if tree.above else []
    lines += _lines(tree.root)
    if tree.cut:
        lines.append("... and more below than is shown")
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text with control characters and others that a terminal would obey written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _lines(node: Node) -> Iterator[str]:
    """Depth first, with a stack of its own, so that no tree is too deep."""
    waiting = [(node, "", "")]
    while waiting:
        node, before, below = waiting.pop()
        yield before + _line(node)
        last = len(node.children) - 1
        for n in range(last, -1, -1):
            branch, room = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            waiting.append((node.children[n], below + branch, below + room))


def _line(node: Node) -> str:
    facts = [printable(node.status)]
    if node.ms is not None:
        facts.append(_ms(node.ms))
    if node.tokens != Tokens():
        facts.append(str(node.tokens))
    if node.total != node.tokens:
        facts.append(f"{node.total} with subagents")
    return f"{printable(_title(node))}  {', '.join(facts)}"


def _title(node: Node) -> str:
    if node.kind == "conversation":
        return f"{node.name} {node.id}".strip()
    if node.kind == "call":
        return f"call {node.seq} {node.name}"
    return node.id if node.kind == "step" else f"turn {node.seq} {node.version}".strip()


def _ms(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
