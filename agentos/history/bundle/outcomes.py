"""How a node of a call tree came out, in one of three words: what spans and the page show of it."""

from __future__ import annotations

import re
from enum import Enum

from agentos.components import OPEN_STATUSES, CallStatus, Outcome
from agentos.events.model import Finish
from agentos.history.lineage.tree import Node

_WORD = re.compile(r"[^(,]*")
_GOOD = {
    "turn": frozenset({Outcome.COMPLETED.value}),
    "step": frozenset({Finish.STOP.value, Finish.TOOL_USE.value, Finish.LENGTH.value}),
    "call": frozenset({CallStatus.DONE.value}),
}
_OPEN = {
    "conversation": frozenset({"running", "parked", "not begun"}),
    "step": frozenset({"running"}),
    "call": frozenset(status.value for status in OPEN_STATUSES),
}


class CameOut(Enum):
    """open: it is not over."""

    WELL = "well"
    BADLY = "badly"
    OPEN = "open"


def came_out(node: Node) -> CameOut:
    """A conversation as such is never bad: its turns are. A turn without an end is open, whatever its conversation is."""
    word = word_of(node)
    if word in _OPEN.get(node.kind, ()) or (node.kind == "turn" and node.ms is None):
        return CameOut.OPEN
    if node.kind == "conversation" or word in _GOOD[node.kind]:
        return CameOut.WELL
    return CameOut.BADLY


def word_of(node: Node) -> str:
    """The status without what stands behind it: `failed` of `failed(raised), resolved as done`."""
    found = _WORD.match(node.status)
    return found[0] if found else node.status
