"""Strict replay is able to fail, names what differs, and says what it cannot promise."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agentos.components import ConversationState, Phase, TurnState
from agentos.errors import UnknownConversation
from agentos.events.entry import Draft
from agentos.events.kinds import CallProgress
from agentos.history import Divergence, Identical, Skipped, replay_all, replay_log
from agentos.ids import CONVERSATION, Digest
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore
from agentos.prompting import request_digest
from agentos.systems import SCHEDULE, Schedule, System, system
from agentos.world import Decision, Transcript, View
from tests.history.support import Desk, office


def with_changed(name: str, change: System) -> Schedule:
    """The schedule with another system in the place of one."""
    return Schedule([change if built_in.name == name else built_in for built_in in SCHEDULE.systems])


def built_in(name: str) -> System:
    return next(found for found in SCHEDULE.systems if found.name == name)


async def test_a_changed_line_of_prompting_is_named(store: Store, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_digest(context: Digest, transcript: Transcript) -> Digest:
        once_more = transcript.messages[:1] if transcript.count > 1 else []
        return request_digest(context, transcript.extended(once_more))

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        monkeypatch.setattr(sys.modules["agentos.systems.prompt"], "request_digest", other_digest)
        result = await replay_log(store, clerk.id)

    assert isinstance(result, Divergence)
    assert (result.seq, result.kind, result.field) == (9, "model.requested", "data.request")
    assert set(result.stored) == set(result.produced) == {"data.request"}
    assert not result.other_rules


async def test_an_entry_that_a_system_adds_is_named(store: Store, desk: Desk) -> None:
    @system(over=TurnState, phase=Phase.COMPLETE)
    def complete(view: View, turn: int) -> Decision:
        decision = built_in("complete")(view, turn)
        added = Draft(data=CallProgress(), turn=turn, private=(("data", {"added": True}),))
        return msgspec.structs.replace(decision, drafts=(*decision.drafts, added)) if decision.drafts else decision

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("hello")
        result = await replay_log(store, clerk.id, schedule=with_changed("complete", complete))

    assert isinstance(result, Divergence)
    assert (result.seq, result.kind, result.field) == (6, "turn.finished", "kind")
    assert (result.stored["kind"], result.produced["kind"]) == ("turn.finished", "call.progress")
    assert result.other_rules == (SCHEDULE.digest(),)


async def test_an_entry_that_a_system_leaves_out_is_named(store: Store, desk: Desk) -> None:
    @system(over=TurnState, phase=Phase.SETTLING)
    def settle(view: View, turn: int) -> Decision:
        return Decision.none()

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("hello")
        result = await replay_log(store, clerk.id, schedule=with_changed("settle", settle))

    assert isinstance(result, Divergence)
    assert (result.seq, result.kind, result.field) == (6, "turn.finished", "entry")
    assert result.stored["turn"] == 3
    assert not result.produced


async def test_a_changed_component_is_named_by_its_path(store: Store, desk: Desk) -> None:
    @system(over=TurnState, phase=Phase.SETTLING)
    def settle(view: View, turn: int) -> Decision:
        decision = built_in("settle")(view, turn)
        for draft in decision.drafts:
            draft.changes = tuple(
                (entity, msgspec.structs.replace(value, turns=value.turns + 1))
                if isinstance(value, ConversationState)
                else (entity, value)
                for entity, value in draft.changes
            )
        return decision

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("hello")
        result = await replay_log(store, clerk.id, schedule=with_changed("settle", settle))

    assert isinstance(result, Divergence)
    assert result.stored == {"changes.0.conversation_state.turns": 1}
    assert result.produced == {"changes.0.conversation_state.turns": 2}


async def test_a_turn_that_would_begin_where_none_began_is_named(store: Store, desk: Desk) -> None:
    @system(over=ConversationState)
    def admit(view: View, entity: int) -> Decision:
        """As if nothing was ever paused."""
        decision = built_in("admit")(view, entity)
        if decision is Decision.none() and view.conversation is not None and view.conversation.waiting:
            view.context(view.get(CONVERSATION, type(view.conversation)), 0)  # type: ignore[arg-type]
        return decision

    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.pause()
        await clerk.send("note text=a")
        result = await replay_log(store, clerk.id, schedule=with_changed("admit", admit))

    assert isinstance(result, Divergence)
    assert (result.seq, result.kind, result.field) == (4, "turn.started", "entry")


async def test_other_rules_are_told_and_compared_all_the_same(store: Store, desk: Desk) -> None:
    @system(over=TurnState, phase=Phase.PROMPT, after="recover")
    def watchful(view: View, turn: int) -> Decision:
        return Decision.none()

    async with office(store, desk, systems=[watchful]) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        result = await replay_log(store, clerk.id)

    assert isinstance(result, Identical)
    assert result.entries == 11
    assert result.other_rules == (SCHEDULE.with_systems([watchful]).digest(),)
    assert "other rules" in str(result)


async def test_logs_of_administration_are_skipped_and_said_to_be(store: Store, desk: Desk) -> None:
    async with office(store, desk):
        results = [result async for result in replay_all(store)]

    assert [type(result) for result in results] == [Skipped] * 4  # a toolbox and three agents
    assert "no passes" in str(results[0])


async def test_an_unknown_conversation_is_refused(store: Store, desk: Desk) -> None:
    async with office(store, desk):
        with pytest.raises(UnknownConversation):
            await replay_log(store, "conversation_nowhere")


@pytest.mark.parametrize(
    ("edit", "seq", "field"),
    [
        ("update messages set text = 'note text=b' where seq = 2", 4, "data.request"),
        ("update messages set text = 'noted b' where role = 'tool'", 9, "data.request"),
        ("update entries set head = replace(head, '\"attempt\":1', '\"attempt\":2') where seq = 7", 7, "changes.6"),
        ("update entries set head = '{' where seq = 5", 5, "entry"),
        ("delete from entries where seq = 6", 7, "seq"),
        ("delete from definitions where kind = 'context'", 2, "entry"),
    ],
)
async def test_what_was_edited_is_decided_otherwise(
    tmp_path: Path, desk: Desk, edit: str, seq: int, field: str
) -> None:
    path = tmp_path / "edited.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(edit)
    db.close()
    store = SQLiteStore(str(path))
    result = await replay_log(store, clerk.id)
    await store.close()

    assert isinstance(result, Divergence)
    assert (result.seq, result.field[: len(field)]) == (seq, field)


async def test_an_erased_body_equals_anything_and_is_counted_where_a_decision_rests_on_it(
    tmp_path: Path, desk: Desk
) -> None:
    path = tmp_path / "erased.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("note text=a")
        await clerk.ask("ask_aide task='note text=b'")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update messages set text = null, salt = null")
        db.execute("update payloads set body = null, salt = null")
    db.close()
    store = SQLiteStore(str(path))
    results = [result async for result in replay_all(store) if not isinstance(result, Skipped)]
    await store.close()

    assert all(isinstance(result, Identical) for result in results), results
    assert sum(result.erased for result in results if isinstance(result, Identical)) > 0
