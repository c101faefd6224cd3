"""The call tree as data, and as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    agent is the slug of its conversation's agent; at is when it began, in microseconds, UTC.

    So it is with ms: own_ms is without the time in which a turn of a conversation below was open. calls and subagents count
    the calls, and the delegations among them, of its conversation alone, itself included; total_calls and total_subagents
    have those below too.
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
    agent: str = ""
    at: int | None = None
    own_ms: float | None = None
    calls: int = 0
    total_calls: int = 0
    subagents: int = 0
    total_subagents: int = 0
    children: tuple[Node, ...] = ()


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its descendants, and the frames above it, root first.

    cut tells that there is more below than nodes_max.
    """

    root: Node
    above: tuple[LineageFrame, ...] = ()
    cut: bool = False


def render_tree(tree: Tree, *, sums: bool = False) -> str:
    """The tree with box characters: names, status, milliseconds, tokens as input+output. No line break at the end.

    sums: also how many calls and subagents are below, and of all what is of the conversation alone.
    """
    lines = [f"above: {printable(' > '.join(frame.entity_id for frame in tree.above))}"] if tree.above else []
    lines += _lines(tree.root, _sums if sums else _facts)
    if tree.cut:
        lines.append("... and more below than is shown")
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text with control characters and others that a terminal would obey written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _lines(node: Node, facts: Callable[[Node], list[str]]) -> Iterator[str]:
    """Depth first, with a stack of its own, so that no tree is too deep."""
    waiting = [(node, "", "")]
    while waiting:
        node, before, below = waiting.pop()
        yield f"{before}{printable(_title(node))}  {', '.join([printable(node.status), *facts(node)])}"
        last = len(node.children) - 1
        for n in range(last, -1, -1):
            branch, room = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
            waiting.append((node.children[n], below + branch, below + room))


def _facts(node: Node) -> list[str]:
    facts = [_ms(node.ms)] if node.ms is not None else []
    if node.tokens != Tokens():
        facts.append(str(node.tokens))
    if node.total != node.tokens:
        facts.append(f"{node.total} with subagents")
    return facts


def _sums(node: Node) -> list[str]:
    """With all that is below; what is of its conversation alone stands behind it when that is less."""
    facts = []
    if node.ms is not None:
        facts.append(_ms(node.ms) + _own(node.ms, node.own_ms, _ms(node.own_ms or 0.0)))
    if node.total != Tokens():
        own = f"{node.tokens.input}+{node.tokens.output}"
        facts.append(f"{node.total}{_own(node.total, node.tokens, own)}")
    if node.total_calls > (node.kind == "call"):
        facts.append(_count(node.total_calls, "call") + _own(node.total_calls, node.calls, str(node.calls)))
    if node.total_subagents:
        own = str(node.subagents)
        facts.append(_count(node.total_subagents, "subagent") + _own(node.total_subagents, node.subagents, own))
    return facts


def _own(total: object, own: object, shown: str) -> str:
    return f" ({shown} own)" if own != total else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _title(node: Node) -> str:
    if node.kind == "conversation":
        return f"{node.name} {node.id}".strip()
    if node.kind == "call":
        return f"call {node.seq} {node.name}"
    return node.id if node.kind == "step" else f"turn {node.seq} {node.version}".strip()


def _ms(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
