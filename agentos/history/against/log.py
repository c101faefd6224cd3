"""A recorded conversation decided again with another configuration, up to the first thing that departs.

Recorded replies and results are given to the systems as long as every request is the recorded one; no model and no tool is
called. Each unit is decided twice: with what was recorded, which tells whether it can be compared at all, and with the
other configuration, whose own state goes on. What differs only since a turn keeps its limits is no departure: a limit
departs where it is reached. A script is no configuration of requests: its replies are compared with those recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agentos.clock import SystemClock
from agentos.components import AgentContext, ConversationConfig, TurnConfig, TurnState
from agentos.errors import ModelError
from agentos.events.entry import Entry, Registry
from agentos.events.kinds import ModelFinished, ModelRequested
from agentos.events.model import Finish, ModelReply
from agentos.history.against.consequences import following
from agentos.history.against.contrast import decision_changes, reply_changes, request_changes
from agentos.history.against.departure import Change, Compared, Departed, Part, Unchanged
from agentos.history.against.variants import Asked, Variant, Variation
from agentos.history.reading import Contexts, conversation_row, stored_units
from agentos.history.replay.deciding import Deciding, rules_of
from agentos.history.replay.ends import reply_in
from agentos.history.replay.recorded import Unit
from agentos.history.replay.results import Divergence
from agentos.ids import CONVERSATION, Digest, turn_id
from agentos.models.scripted import ScriptedModel
from agentos.persistence.base import Store
from agentos.prompting import build_request, request_digest
from agentos.settings import Settings
from agentos.systems import SCHEDULE, Schedule
from agentos.world.transcript import ANSWERS

_KEPT_LIMITS = re.compile(r"changes\.\d+\.turn_config\.(step_limit|call_limit|deadline_at)")
_UNASKED = frozenset({Finish.LOST, Finish.CANCELLED})
"""Replies that no model gave."""


async def replay_against(
    store: Store,
    conversation: str,
    variant: Variant,
    *,
    schedule: Schedule = SCHEDULE,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> Compared:
    """Decides one conversation again with a variant of its configuration.

    The entries that a fork shares are its parent's, and are compared there.
    Errors: UnknownConversation; ConfigurationError when the store does not tell what the variant needs; StoreDamaged and
    CodecError for a log that cannot be read; StoreUnavailable.
    """
    row = await conversation_row(store, conversation)
    rules, contexts = rules_of(schedule, registry, settings), Contexts(store)
    comparing = _Comparing(Deciding(row, contexts, rules), Deciding(row, contexts, rules), Variation(store, variant))
    async for stored in stored_units(store, row.id, upto=row.seq):
        departed = await comparing.unit(await comparing.recorded.read(stored))
        if departed is not None:
            return await following(store, departed)
    return comparing.unchanged()


class _Hasty(SystemClock):
    """Nobody waits for a model that a script says is slow."""

    async def sleep(self, seconds: float) -> None:
        return None


class _Comparing:
    """One conversation twice: as it was recorded, and under the variant, as long as its decisions can be compared."""

    def __init__(self, recorded: Deciding, other: Deciding, variation: Variation) -> None:
        self.recorded, self._other, self._variation = recorded, other, variation
        self._turns: dict[int, Digest] = {}
        self._requests = self._decisions = self._uncompared = 0
        self._decides = True
        script = variation.variant.script
        self._model = ScriptedModel(dict(script), _Hasty()) if script is not None else None

    async def unit(self, unit: Unit) -> Departed | None:
        """The next unit; what departs in it, when something does."""
        recorded = self.recorded
        if not recorded.is_own(unit):
            await self._learn(unit)
            recorded.go_on(unit, None)
            self._other.go_on(unit, None)
            return None
        divergence, view = recorded.decided(unit)
        self._decides = self._decides and divergence is None and not recorded.rests_on_erased(unit)
        await self._learn(unit)
        departed = await self._first(unit)
        self._uncompared += not self._decides
        self._decisions += self._decides
        recorded.go_on(unit, view)
        return departed

    async def _learn(self, unit: Unit) -> None:
        """What the variant makes of the contexts that turns of this unit pin."""
        config = self.recorded.slice.get(CONVERSATION, ConversationConfig)
        depth = config.depth if config is not None else 0
        asked = [Asked(*one) for one in self.recorded.asked]
        for entry in unit.looked_at:
            for turn, component in entry.changes:
                if isinstance(component, TurnConfig):
                    digest = self._turns[turn] = component.context
                    recorded = await self.recorded.contexts.learn(digest)
                    how = asked.pop(0) if asked and entry.data.kind == "turn.started" else Asked(depth)
                    await self._variation.learn(digest, recorded, how, entry.at)

    async def _first(self, unit: Unit) -> Departed | None:
        """What departs first in the order of the log: a decision, a request, or a reply."""
        found = [self._request(unit), await self._reply(unit)]
        if self._decides:
            found.append(self._decision(unit))
        departed = [one for one in found if one is not None]
        return min(departed, key=lambda one: (one.seq, one.part != "decision")) if departed else None

    def _request(self, unit: Unit) -> Departed | None:
        """The first request of the unit that would say something else. Its messages are those recorded, as all before is."""
        for head in unit.heads:
            if head.kind != ModelRequested.kind:
                continue
            changes = request_changes(*self._sides(head.turn))
            if changes:
                return self._departed(unit, head.seq, "request", changes)
            self._requests += 1
        return None

    async def _reply(self, unit: Unit) -> Departed | None:
        """The reply of the unit, when a script gives another one."""
        entry = next((one for one in unit.looked_at if isinstance(one.data, ModelFinished)), None)
        if self._model is None or entry is None or unit.has_erased:
            return None
        assert isinstance(entry.data, ModelFinished)
        if entry.data.finish in _UNASKED:
            return None
        changes = reply_changes(_said(entry), await self._scripted(self._model, entry.turn))
        return self._departed(unit, entry.seq, "reply", changes) if changes else None

    async def _scripted(self, model: ScriptedModel, turn: int) -> dict[str, Any]:
        """What the script says to the open request, in the form of `_said`."""
        slice_ = self.recorded.slice
        state = slice_.get(turn, TurnState)
        assert state is not None, "a turn that is answered has begun"
        digest = request_digest(self._turns[turn], slice_.transcript)
        context = self.recorded.contexts[self._turns[turn]]
        request = build_request(context, digest, slice_.transcript, slice_.log, turn, state.step_index, state.attempt)
        try:
            return _shown(await model.complete(request, lambda _: None))
        except ModelError as error:
            return {"error": f"{error.kind}: {error}"}

    def _decision(self, unit: Unit) -> Departed | None:
        found = self._other.tolerated(
            unit, self._variation.__getitem__, lambda path: bool(_KEPT_LIMITS.fullmatch(path))
        )
        return self._as_departed(unit, found) if found is not None else None

    def _as_departed(self, unit: Unit, found: Divergence) -> Departed:
        turn = self._turn_at(unit, found.seq)
        recorded, other = self._sides(turn) if turn in self._turns else (None, None)
        changes = decision_changes(found, recorded, other)
        return self._departed(unit, found.seq, "decision", changes, found.kind)

    def _departed(
        self, unit: Unit, seq: int, part: Part, changes: Sequence[Change], kind: str | None = None
    ) -> Departed:
        turn = self._turn_at(unit, seq)
        state = self.recorded.slice.get(turn, TurnState)
        stored = next((one for one in unit.stored if one.seq == seq), None)
        return Departed(
            log=self.recorded.row.id,
            seq=seq,
            turn=turn_id(self.recorded.row.id, turn),
            step=_step(unit, seq, turn, state),
            kind=kind or (stored.kind if stored is not None else ""),
            part=part,
            changes=tuple(changes),
            uncompared=self._uncompared,
            other_rules=tuple(self.recorded.other_rules),
        )

    def _sides(self, turn: int) -> tuple[AgentContext, AgentContext]:
        digest = self._turns[turn]
        return self.recorded.contexts[digest], self._variation[digest]

    def _turn_at(self, unit: Unit, seq: int) -> int:
        """The turn of an entry; of one that only the other side has, that of the entry before."""
        turns = [head.turn for head in unit.heads if head.seq <= seq and head.turn]
        return turns[-1] if turns else max(self._turns, default=0)

    def unchanged(self) -> Unchanged:
        return Unchanged(
            log=self.recorded.row.id,
            requests=self._requests,
            decisions=self._decisions,
            uncompared=self._uncompared,
            other_rules=tuple(self.recorded.other_rules),
        )


def _step(unit: Unit, seq: int, turn: int, state: TurnState | None) -> int:
    """The step of an entry: that of the last state of its turn before it, in the unit or else before it."""
    step = state.step_index if state is not None else 0
    for head in unit.heads:
        for entity, name, value in head.changes if head.seq < seq else ():
            if entity == turn and name == TurnState.component:
                step = value.get("step_index", 0)
    return step


def _said(entry: Entry) -> dict[str, Any]:
    """A recorded reply, as far as a script tells one."""
    data = entry.data
    assert isinstance(data, ModelFinished)
    if data.finish not in ANSWERS and data.error is not None:
        return {"error": f"{data.error}: {dict(entry.private).get('error', '')}"}
    return _shown(reply_in(entry, data))


def _shown(reply: ModelReply) -> dict[str, Any]:
    return {
        "text": reply.text,
        "calls": [{"tool": call.name, "arguments": call.arguments} for call in reply.calls],
        "finish": reply.finish.value,
    }
