"""The truth of now: entities, components, and what one pass sees of them."""

from agentos.world.transcript import Transcript
from agentos.world.view import Alarm, Decision, IllegalTransition, Oracle, Post, View
from agentos.world.world import APART, Rows, Slice, World

__all__ = [
    "APART",
    "Alarm",
    "Decision",
    "IllegalTransition",
    "Oracle",
    "Post",
    "Rows",
    "Slice",
    "Transcript",
    "View",
    "World",
]
