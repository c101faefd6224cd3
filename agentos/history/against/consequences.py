"""What follows from a departure: the requests and calls behind it, down through child conversations, and whose result it was.

A call is justified by the reply that asked for it, and a reply by its request. So what departs takes with it every call of
its own step when the request or the reply departs, and every call of all later steps and turns of its conversation, whose
requests hold what came of it. A child conversation that such a call began goes with it, with all its calls.
"""

from __future__ import annotations

import msgspec

from agentos.errors import UnknownConversation
from agentos.history.against.departure import Departed, Followed
from agentos.history.lineage.chronicle import Call, Chronicle, chronicle_of
from agentos.history.lineage.frames import DEPTH_MAX
from agentos.ids import LogId, call_id, log_and_seq, turn_id
from agentos.persistence.base import Store

FOLLOWED_MAX = 10_000
"""Calls that are listed at most."""


async def following(store: Store, departed: Departed) -> Departed:
    """The departure with what follows from it. Raises StoreUnavailable."""
    chronicle = await chronicle_of(store, departed.log)
    listing = _Listing(store)
    await listing.take(chronicle, [call for call in chronicle.calls.values() if _follows(departed, call)], 0)
    turn = chronicle.turns.get(log_and_seq(departed.turn)[1])
    return msgspec.structs.replace(
        departed,
        requests=sum(step.seq > departed.seq for turn in chronicle.turns.values() for step in turn.steps),
        followed=tuple(listing.found),
        conversations=len(listing.conversations),
        answered=(turn.causes or (chronicle.parent_call,))[0] if turn is not None else None,
        cut=listing.cut,
    )


def _follows(departed: Departed, call: Call) -> bool:
    """Whether a call of the same conversation rests on what departs. Of a decision about one call, its siblings do not."""
    if departed.part != "decision":
        return call.seq > departed.seq
    turn = log_and_seq(departed.turn)[1]
    if call.turn == turn and call.step == departed.step:
        return call.seq == departed.seq
    return call.seq > departed.seq


class _Listing:
    """Collects calls, parents before what is below them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.found: list[Followed] = []
        self.conversations: set[LogId] = set()
        self.cut = False

    async def take(self, chronicle: Chronicle, calls: list[Call], depth: int) -> None:
        for call in calls:
            if len(self.found) >= FOLLOWED_MAX or depth > DEPTH_MAX:
                self.cut = True
                return
            self.found.append(_followed(chronicle, call, depth))
            if call.child is not None:
                await self._below(call.child, call_id(chronicle.log, call.seq), depth + 1)

    async def _below(self, child: LogId, cause: str, depth: int) -> None:
        """The calls of those turns of a child that answered this call; it may have served others too."""
        self.conversations.add(child)
        try:
            chronicle = await chronicle_of(self._store, child)
        except UnknownConversation:
            return  # it has not begun
        turns = {turn.seq for turn in chronicle.turns.values() if cause in turn.causes}
        await self.take(chronicle, [call for call in chronicle.calls.values() if call.turn in turns], depth)


def _followed(chronicle: Chronicle, call: Call, depth: int) -> Followed:
    return Followed(
        call=call_id(chronicle.log, call.seq),
        tool=call.tool,
        status=call.status,
        turn=turn_id(chronicle.log, call.turn),
        depth=depth,
        child=call.child,
    )
