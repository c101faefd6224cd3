"""A conversation decided again with another configuration: what departs first is named, with what follows from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentos.components import EffectClass, Phase, ToolSpec, TurnState
from agentos.definitions import AgentSpec
from agentos.errors import ConfigurationError
from agentos.events.entry import Draft
from agentos.events.kinds import CallProgress
from agentos.events.model import ModelReply, ModelRequest
from agentos.history import Compared, Departed, Unchanged, Variant, lineage_of, replay_against
from agentos.ids import CallId, Name
from agentos.models.script import script_of
from agentos.persistence.base import Store
from agentos.systems import SCHEDULE, Schedule, System, system
from agentos.world import Decision, View
from tests.history.support import Desk, office

TASK = "ask_aide task='note text=deep'\nnote text=a"
CLERK: dict[str, Any] = {
    "slug": "clerk",
    "toolboxes": ["desk"],
    "subagents": [{"slug": "helper", "session": "reuse"}, "aide"],
    "system_prompt": "Keep order.",
}


def clerk(**changes: Any) -> Variant:
    """The agent of the office, with something otherwise."""
    return Variant(name="another clerk", agent=AgentSpec.model_validate({**CLERK, **changes}))


async def asked(store: Store, desk: Desk, *texts: str, **options: Any) -> str:
    """A conversation of the clerk's with these turns."""
    async with office(store, desk, **options) as kernel:
        conversation = await kernel.start("clerk")
        for text in texts:
            await conversation.ask(text)
    await store.open("a reader")
    return conversation.id


def departed(found: Compared) -> Departed:
    assert isinstance(found, Departed), found
    return found


async def test_the_same_configuration_changes_nothing(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK, "note text=b")
    found = await replay_against(store, log, clerk())

    assert isinstance(found, Unchanged)
    assert (found.requests, found.uncompared, found.other_rules) == (4, 0, ())
    assert found.decisions > 6


async def test_a_line_of_the_prompt_departs_at_the_first_request(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK, "note text=b")
    found = departed(await replay_against(store, log, clerk(system_prompt="Keep order.\nBe quick.")))

    assert (found.log, found.seq, found.kind, found.part, found.step) == (log, 4, "model.requested", "request", 0)
    assert [(change.path, change.lines) for change in found.changes] == [("prompt", (" Keep order.", "+Be quick."))]
    assert found.requests == 3


async def test_the_calls_that_follow_are_named_through_child_conversations(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK, "note text=b")
    found = departed(await replay_against(store, log, Variant(name="a prompt", prompt=("Other.",))))

    assert [(one.tool, one.depth) for one in found.followed] == [("ask_aide", 0), ("note", 1), ("note", 0), ("note", 0)]
    assert found.conversations == 1
    assert not found.cut
    child = found.followed[0].child
    assert child is not None
    assert found.followed[1].call.startswith(f"call_{child.partition('_')[2]}_")
    for one in found.followed:
        assert (await lineage_of(store, one.call)).root.name == one.tool


async def test_the_call_that_took_the_result_of_a_child_is_named(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK)
    child = next(row.id for row in await store.logs("conversation") if row.id != log)
    found = departed(await replay_against(store, child, Variant(name="a prompt", prompt=("Other.",))))

    assert found.answered is not None
    assert found.answered.startswith(f"call_{log.partition('_')[2]}_")


async def test_no_tool_and_no_model_is_called(store: Store, desk: Desk) -> None:
    asked_of: list[int] = []

    def reply(request: ModelRequest) -> ModelReply:
        asked_of.append(request.step_index)
        return ModelReply(text="hello")

    log = await asked(store, desk, "hello", reply=reply)
    before = (list(asked_of), list(desk.notes))
    await replay_against(store, log, clerk(model="direct"))

    assert (asked_of, desk.notes) == before


async def test_tools_that_are_taken_away_added_and_told_otherwise_stand_side_by_side(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK)
    told = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [
        ToolSpec(name=Name("note"), description="Keeps a text for long.", schema=told),
        ToolSpec(name=Name("shred"), description="Loses a text.", schema=told),
    ]
    found = departed(await replay_against(store, log, Variant(name="tools", tools={Name("desk"): tools})))
    changes = {change.path: change for change in found.changes}

    assert found.part == "request"
    assert changes["tools.note.description"].recorded == "Keeps a text."
    assert changes["tools.note.description"].other == "Keeps a text for long."
    assert changes["tools.shred"].recorded is None
    assert changes["tools.wait"].other is None
    assert changes["tools.peek"].recorded["description"].startswith("Waits")


async def test_another_model_departs_with_its_fields(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK)
    variant = clerk(model={"kind": "direct", "name": "other", "options": {"temperature": 0}})
    found = departed(await replay_against(store, log, variant))

    changes = {change.path: (change.recorded, change.other) for change in found.changes}
    assert changes["model.name"][1] == "other"
    assert changes["model.options.temperature"] == (None, 0)


async def test_a_lower_limit_departs_where_it_is_reached(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a", TASK)
    found = departed(await replay_against(store, log, clerk(step_limit=1)))
    changes = {change.path: (change.recorded, change.other) for change in found.changes}

    assert found.part == "decision"
    assert found.step == 0
    assert changes["limits.step_limit"] == (50, 1)
    assert found.kind == "call.finished"
    assert [one.tool for one in found.followed] == [
        "ask_aide",
        "note",
        "note",
    ]  # the turn after it; its own call stands


async def test_a_limit_that_is_not_reached_is_no_departure(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, TASK)
    found = await replay_against(store, log, clerk(step_limit=7, call_limit=9))

    assert isinstance(found, Unchanged), found


async def test_a_denied_tool_departs_at_its_call_and_leaves_its_sibling(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a\nnote text=b\nask_aide task='hello'", "note text=c")
    found = departed(await replay_against(store, log, clerk(policy=[{"tool": "ask_aide", "verdict": "deny"}])))
    changes = {change.path: (change.recorded, change.other) for change in found.changes}

    assert (found.kind, found.part) == ("call.proposed", "decision")
    assert changes["data.verdict"] == ("allow", "deny")
    assert changes["policy"][1] == [{"tool": "ask_aide", "verdict": "deny"}]
    assert [one.tool for one in found.followed] == ["ask_aide", "note"]
    assert found.followed[0].call == CallId(f"call_{log.partition('_')[2]}_{found.seq}")


async def test_another_effect_of_a_tool_is_a_decision(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a")
    found = departed(await replay_against(store, log, clerk(effects={"note": EffectClass.PURE.value})))

    assert found.part == "decision"
    assert ("tools.note.effect", "once", "pure") in {(c.path, c.recorded, c.other) for c in found.changes}


async def test_a_script_that_says_something_else_departs_at_that_reply(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a")
    steps = [{"calls": [{"tool": "note", "arguments": {"text": "a"}}]}, {"text": "something else"}]
    found = departed(await replay_against(store, log, Variant(name="a script", script=script_of(steps))))

    assert (found.kind, found.part, found.step) == ("model.finished", "reply", 1)
    assert [change.path for change in found.changes] == ["text"]
    assert "+something else" in found.changes[0].lines
    assert found.followed == ()


async def test_a_script_with_another_call_is_told_with_what_it_was(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a")
    steps = [{"calls": [{"tool": "peek", "arguments": {"text": "a"}}], "delay_s": 3_600}]
    found = departed(await replay_against(store, log, Variant(name="a script", script=script_of(steps))))

    assert (found.part, found.step) == ("reply", 0)
    (change,) = [change for change in found.changes if change.path == "calls"]
    assert change.recorded == [{"tool": "note", "arguments": {"text": "a"}}]
    assert change.other == [{"tool": "peek", "arguments": {"text": "a"}}]
    assert [one.tool for one in found.followed] == ["note"]


async def test_under_other_rules_only_requests_are_compared(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a")
    same = await replay_against(store, log, clerk(), schedule=WORDY)
    denied = await replay_against(store, log, clerk(policy=[{"tool": "note", "verdict": "deny"}]), schedule=WORDY)
    other = departed(await replay_against(store, log, clerk(system_prompt="Other."), schedule=WORDY))

    assert isinstance(same, Unchanged)
    assert same.requests == 2
    assert same.uncompared > 0
    assert len(same.other_rules) == 1
    assert isinstance(denied, Unchanged)
    assert "cannot be compared" in str(denied)
    assert other.part == "request"
    assert other.other_rules == same.other_rules


async def test_what_the_store_does_not_tell_is_asked_for(store: Store, desk: Desk) -> None:
    log = await asked(store, desk, "note text=a")

    with pytest.raises(ConfigurationError, match=r"toolbox garden offers.*--against TOOLS\.json"):
        await replay_against(store, log, clerk(toolboxes=["desk", "garden"]))


def _wordy() -> Schedule:
    built_in = next(found for found in SCHEDULE.systems if found.name == "complete")

    @system(over=TurnState, phase=Phase.COMPLETE)
    def complete(view: View, turn: int) -> Decision:
        decision = built_in(view, turn)
        added = Draft(data=CallProgress(), turn=turn, private=(("data", {"added": True}),))
        return msgspec.structs.replace(decision, drafts=(*decision.drafts, added)) if decision.drafts else decision

    systems: list[System] = [complete if found.name == "complete" else found for found in SCHEDULE.systems]
    return Schedule(systems)


WORDY = _wordy()
