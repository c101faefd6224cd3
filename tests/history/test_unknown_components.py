"""A store whose logs carry components of types that this program does not know."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from agentos.components import Component, ConversationState
from agentos.events.entry import Draft, Registry, decode_head
from agentos.events.kinds import CallProgress
from agentos.history import Identical, replay_log, verify_store
from agentos.ids import CONVERSATION
from agentos.persistence.base import Store
from agentos.settings import Settings
from agentos.systems import system
from agentos.world import Decision, View
from tests.history.support import Desk, office


class Mood(Component, frozen=True, kw_only=True):
    component: ClassVar[str] = "mood"
    level: int = 0


class Hue(Component, frozen=True, kw_only=True):
    component: ClassVar[str] = "hue"
    level: int = 0


@system(over=ConversationState, after="admit")
def moody(view: View, entity: int) -> Decision:
    """Gives a conversation, with each turn, another mood and hue."""
    state, mood = view.conversation, view.find(CONVERSATION, Mood)
    if state is None or not state.open_turn or (mood is not None and mood.level > state.turns):
        return Decision.none()
    level = state.turns + 1
    changes = ((CONVERSATION, Mood(level=level)), (CONVERSATION, Hue(level=level)))
    return Decision((Draft(data=CallProgress(), changes=changes, private=(("data", level),)),))


async def test_they_survive_snapshots_and_are_verified(store: Store, desk: Desk) -> None:
    options: dict[str, Any] = {"systems": [moody], "components": [Mood, Hue]}
    async with office(store, desk, **options) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        knowing = Registry()
        for type_ in (Mood, Hue):
            knowing.register(type_)
        result = await replay_log(store, clerk.id, schedule=kernel.schedule, registry=knowing)
    async with office(store, desk, settings=Settings(snapshot_entries=5)) as kernel:
        await (await kernel.get(clerk.id)).ask("note text=b")
        snapshots = [entry.head for entry in await store.entries(clerk.id) if entry.kind == "snapshot"]
        reports = [await verify_store(store), await verify_store(store, registry=knowing)]

    assert isinstance(result, Identical), result
    assert snapshots
    carried = {name: value for entity, name, value in decode_head(snapshots[-1]).changes if entity == CONVERSATION}
    assert (carried["mood"], carried["hue"]) == (msgspec.to_builtins(Mood(level=1)), {"level": 1})
    assert all(report.ok for report in reports), [str(d) for report in reports for d in report.differences]
