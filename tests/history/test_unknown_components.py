"""A store whose logs carry components of types that this program does not know."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from agentos.components import Component, ConversationState
from agentos.events import entry, kinds
from agentos.events.entry import Draft, Registry, decode_head
from agentos.events.kinds import KINDS, CallProgress
from agentos.history import Identical, copy_store, heads_digest, replay_log, verify_store
from agentos.ids import CONVERSATION
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
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


async def test_they_and_entries_of_unknown_kinds_are_copied_as_they_are(
    store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"systems": [moody], "components": [Mood, Hue], "settings": Settings(snapshot_entries=5)}
    async with office(store, desk, **options) as kernel:
        clerk = await kernel.start("clerk")
        for text in "abc":
            await clerk.ask(f"note text={text}")
        _forget_kind(monkeypatch, "call.progress")
        copy, again = MemoryStore(), MemoryStore()
        copied = await copy_store(store, copy)
        await copy_store(copy, again)
        sql = "select id, kind, type, body from entities order by id, type"
        rows = (await again.query(sql)).rows

        assert rows == (await store.query(sql)).rows
        assert {"mood", "hue"} <= {row[2] for row in rows}
        assert await again.entries(clerk.id) == await store.entries(clerk.id)
        assert "call.progress" in {entry.kind for entry in await again.entries(clerk.id)}
        assert copied.heads == await heads_digest(again) == await heads_digest(store)
        assert (await verify_store(again)).ok
    for made in (copy, again):
        await made.close()


def _forget_kind(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As a program before it. Another table, not one without it: a kind that is put back would come last in the docs."""
    for module in (entry, kinds):
        monkeypatch.setattr(module, "KINDS", {name: type_ for name, type_ in KINDS.items() if name != kind})
