"""Lineage: the chain of frames from the root conversation down to one call, through all subagents."""

from __future__ import annotations

from enum import Enum

import msgspec

from agentos.ids import Micros


class FrameType(Enum):
    PROGRAM = "program"
    AGENT = "agent"
    CONVERSATION = "conversation"
    TURN = "turn"
    CALL = "call"


class LineageFrame(msgspec.Struct, frozen=True):
    """One link of the call chain: what it is, which one, and since when (microseconds, UTC)."""

    type: FrameType
    entity_id: str
    at: Micros


class Lineage(msgspec.Struct, frozen=True):
    """A whole chain, root first."""

    frames: tuple[LineageFrame, ...] = ()

    def push(self, frame: LineageFrame) -> Lineage:
        return Lineage((*self.frames, frame))

    @property
    def depth(self) -> int:
        """How many conversations the chain passes through, the root being depth 0."""
        return max(0, sum(frame.type is FrameType.CONVERSATION for frame in self.frames) - 1)

    @property
    def path(self) -> str:
        return "/".join(frame.entity_id for frame in self.frames)
