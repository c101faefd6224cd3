"""The chain of a call, root first, with the name of each frame and how it went."""

from __future__ import annotations

import msgspec

from agentos.history.lineage.chronicle import Chronicle, chronicle_of
from agentos.history.lineage.frames import frames_of
from agentos.history.lineage.versions import Versions
from agentos.ids import Kind, LogId, is_id, log_and_seq
from agentos.lineage import FrameType, LineageFrame
from agentos.persistence.base import Store


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One frame. name is an agent's slug, its version for a turn, or a tool's name; at is since when, in microseconds, UTC.

    ms is None while it is not over, and for a conversation.
    """

    type: FrameType
    id: str
    name: str
    status: str
    at: int
    ms: float | None = None


async def chain_of(store: Store, id_: str) -> tuple[Link, ...]:
    """The chain of a call, turn or conversation. Errors as those of `frames_of`."""
    chronicles: dict[LogId, Chronicle] = {}
    versions = Versions(store)
    links = []
    for frame in await frames_of(store, id_):
        log, seq = (
            (LogId(frame.entity_id), 0) if is_id(frame.entity_id, Kind.CONVERSATION) else log_and_seq(frame.entity_id)
        )
        if log not in chronicles:
            chronicles[log] = await chronicle_of(store, log)
        links.append(await _link(chronicles[log], seq, frame, versions))
    return tuple(links)


def render_chain(links: tuple[Link, ...]) -> list[str]:
    """A line for each frame, one step further in than the one above."""
    return [f"{'  ' * depth}{_line(link)}" for depth, link in enumerate(links)]


async def _link(chronicle: Chronicle, seq: int, frame: LineageFrame, versions: Versions) -> Link:
    name, status, ended_at = chronicle.agent, chronicle.state, None
    if frame.type is FrameType.TURN:
        turn = chronicle.turns[seq]
        name, status, ended_at = await versions.of(turn.context), turn.status, turn.finished_at
    elif frame.type is FrameType.CALL:
        call = chronicle.calls[seq]
        name, status, ended_at = call.tool, call.status, call.finished_at
    ms = (ended_at - frame.at) / 1000 if ended_at is not None else None
    return Link(type=frame.type, id=frame.entity_id, name=name, status=status, at=frame.at, ms=ms)


def _line(link: Link) -> str:
    ms = f", {link.ms:.1f} ms" if link.ms is not None else ""
    return f"{link.name} {link.id}".strip() + f"  {link.status}{ms}"
