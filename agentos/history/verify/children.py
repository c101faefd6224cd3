"""What a log says of the logs below it: the end of a delegated call names the head that the child's log had then.

That head is the digest behind the unit in which the child's turn ended. A child that was edited with all its digests made
anew, cut off, exchanged or taken out has no such unit, and this is found without an anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from agentos.events.entry import Head
from agentos.events.kinds import CallFinished, ChildLate, TurnCancelling, TurnFinished
from agentos.history.report import Finder
from agentos.history.verify.tables import COLUMNS, Row
from agentos.persistence.base import Store, StoredEntry

_TELLS = frozenset({CallFinished.kind, ChildLate.kind})
_ENDS = frozenset({TurnFinished.kind, TurnCancelling.kind})
"""With which a child tells its parent: a turn that ends, and a task taken back before any turn took it."""
_LOOKED_AT = _TELLS | _ENDS
_CHILD = COLUMNS["calls"].index("child")


class Tie(msgspec.Struct, frozen=True, gc=False):
    """The entry at seq says that the child of this call had this head, 64 hexadecimal digits."""

    seq: int
    call: int
    head: str


class Family(msgspec.Struct):
    """Of one log: what it says of its children, the child of each call, and the digests with which it told its parent."""

    ties: list[Tie] = []
    children: dict[int, str] = {}
    ends: set[str] = set()

    def take(self, unit: Sequence[StoredEntry], heads: Sequence[Head]) -> None:
        """The next unit, with its heads."""
        for head in heads:
            if head.kind not in _LOOKED_AT:
                continue
            if head.kind in _ENDS:
                self.ends.add(_hex(unit[-1].digest))
            elif isinstance(head.data, dict) and (said := head.data.get("child_head")):
                self.ties.append(Tie(head.seq, head.call, str(said)))

    def end(self, calls: Mapping[Any, Row], *, is_child: bool) -> None:
        """Keeps what is asked for later; calls are the rows of the log's calls."""
        if not is_child:
            self.ends.clear()
        for tie in self.ties:
            row = calls.get(tie.call)
            if row is not None and row[_CHILD]:
                self.children[tie.call] = row[_CHILD]


async def check_children(
    store: Store, families: Mapping[str, Family], seqs: Mapping[str, int], finder_of: Callable[[str], Finder]
) -> None:
    """Each head that a log names is one that its child had. seqs are the heads up to which logs were read.

    A child that went on since it was read may have got the head meanwhile, so it is not judged.
    """
    for log, family in families.items():
        for tie in family.ties:
            child = family.children.get(tie.call)
            if child is None or (child in families and tie.head in families[child].ends):
                continue
            now = await store.log(child)
            if now is None:
                finder_of(log).differ(tie.seq, "entries", "child_head", f"that of {child}", "a log that is there")
            elif child in families and now.seq == seqs[child]:
                finder_of(log).differ(tie.seq, "entries", "child_head", tie.head[:16], f"one that {child} had")


def _hex(digest: object) -> str:
    return digest.hex() if isinstance(digest, bytes) else ""
