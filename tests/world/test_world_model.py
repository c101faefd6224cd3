"""The World against a model of dicts: whatever is set, replaced, dropped and unloaded, both tell the same."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentos.components import (
    AgentConfig,
    AgentState,
    CallConfig,
    CallState,
    CallStatus,
    Component,
    ConversationConfig,
    ConversationState,
    ConversationStatus,
    Outcome,
    Phase,
    ToolboxState,
    ToolboxStatus,
    TurnConfig,
    TurnState,
)
from agentos.ids import (
    CONVERSATION,
    Address,
    ConversationId,
    Digest,
    Kind,
    LogId,
    Micros,
    Name,
    Seq,
    agent_id,
    call_id,
    hashed_id,
    turn_id,
)
from agentos.world import Slice, World

LOGS = [LogId(hashed_id(Kind.CONVERSATION, str(n))) for n in range(4)]
THINGS = [str(agent_id("ann")), str(agent_id("bob")), hashed_id(Kind.TOOLBOX, "box")]
WORLDS = st.integers(0, 1)
Row = dict[type[Component], Any]

names = st.sampled_from([Name("a"), Name("b")])
small = st.integers(0, 2)
admin = st.one_of(
    st.builds(AgentConfig, slug=names, definition=st.just(Digest("0" * 64))),
    st.builds(AgentState, revision=small, removed=st.booleans()),
    st.builds(ToolboxState, status=st.sampled_from(ToolboxStatus), tools=small),
)
conversation = st.one_of(
    st.builds(ConversationState, status=st.sampled_from(ConversationStatus), turns=small),
    st.builds(
        ConversationConfig,
        agent=st.just(agent_id("ann")),
        slug=names,
        root=st.just(ConversationId(LOGS[0])),
        started_at=st.just(Micros(1)),
        parent=st.sampled_from([None, *(ConversationId(log) for log in LOGS)]),
    ),
)
call = st.one_of(
    st.builds(CallState, status=st.sampled_from(CallStatus), attempt=small),
    st.builds(
        CallConfig,
        turn=st.just(2),
        step=small,
        ordinal=small,
        tool=names,
        arguments=st.just(Address(Seq(3), 0)),
    ),
)
turn = st.builds(TurnState, phase=st.sampled_from(Phase), step_index=small, outcome=st.sampled_from([None, *Outcome]))
turn_config = TurnConfig(context=Digest("0" * 64), inputs=(1,), started_at=Micros(1))


class Model:
    """What one World should hold."""

    def __init__(self) -> None:
        self.things: dict[str, Row] = {}
        self.logs: dict[LogId, dict[int, Row]] = {}

    def entities(self) -> dict[str, Row]:
        found = dict(self.things)
        for log, rows in self.logs.items():
            for entity, row in rows.items():
                found[_id(log, entity)] = row
        return found


def _id(log: LogId, entity: int) -> str:
    """Odd entities are turns here, even ones calls."""
    if entity == CONVERSATION:
        return log
    return turn_id(log, entity) if entity % 2 else call_id(log, entity)


class Worlds(RuleBasedStateMachine):
    """Two Worlds at once: what is done to one is not seen in the other."""

    @initialize()
    def begin(self) -> None:
        self.worlds = [World(), World()]
        self.models = [Model(), Model()]

    @rule(n=WORLDS, thing=st.sampled_from(THINGS), component=admin)
    def set(self, n: int, thing: str, component: Component) -> None:
        self.worlds[n].set(thing, component)
        self.models[n].things.setdefault(thing, {})[type(component)] = component

    @rule(n=WORLDS, thing=st.sampled_from(THINGS))
    def delete(self, n: int, thing: str) -> None:
        self.worlds[n].delete(thing)
        self.models[n].things.pop(thing, None)

    @rule(n=WORLDS, log=st.sampled_from(LOGS))
    def load_or_unload(self, n: int, log: LogId) -> None:
        if log in self.models[n].logs:
            self.worlds[n].unload(log)
            del self.models[n].logs[log]
        else:
            self.worlds[n].load(log)
            self.models[n].logs[log] = {}

    @precondition(lambda self: any(model.logs for model in self.models))
    @rule(data=st.data(), component=conversation)
    def change_conversation(self, data: st.DataObject, component: Component) -> None:
        self._put(*self._log(data), CONVERSATION, component)

    @precondition(lambda self: any(model.logs for model in self.models))
    @rule(data=st.data(), component=call, entity=st.sampled_from([4, 6]))
    def change_call(self, data: st.DataObject, component: Component, entity: int) -> None:
        self._put(*self._log(data), entity, component)

    @precondition(lambda self: any(model.logs for model in self.models))
    @rule(data=st.data(), state=turn)
    def move_the_open_turn(self, data: st.DataObject, state: TurnState) -> None:
        """A log has one open turn at most; those before it are settled for good."""
        n, log = self._log(data)
        turns = {entity: row[TurnState] for entity, row in self.models[n].logs[log].items() if TurnState in row}
        open_ = [entity for entity, known in turns.items() if known.phase is not Phase.SETTLED]
        entity = open_[0] if open_ else max([*turns, -1]) + 2
        self._put(n, log, entity, state)
        self._put(n, log, entity, turn_config)

    @precondition(lambda self: any(model.logs for model in self.models))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        n, log = self._log(data)
        rows = self.models[n].logs[log]
        entity = data.draw(st.sampled_from([99, *rows]))
        slice_ = self.worlds[n].slice(log)
        assert slice_ is not None
        if entity != CONVERSATION:  # it leaves with its log
            self.worlds[n].drop(slice_, entity)
            rows.pop(entity, None)

    def _log(self, data: st.DataObject) -> tuple[int, LogId]:
        return data.draw(st.sampled_from([(n, log) for n, model in enumerate(self.models) for log in model.logs]))

    def _put(self, n: int, log: LogId, entity: int, component: Component) -> None:
        slice_ = self.worlds[n].slice(log)
        assert isinstance(slice_, Slice)
        self.worlds[n].put_rows(slice_, {entity: {type(component): component}})
        self.models[n].logs[log].setdefault(entity, {})[type(component)] = component

    @invariant()
    def every_component_is_found_by_its_id(self) -> None:
        for world, model in self._pairs():
            expected = model.entities()
            for kind in Kind:
                assert world.entities(kind) == sorted(id_ for id_ in expected if id_.startswith(f"{kind.value}_"))
            for id_, row in expected.items():
                assert world.components(id_) == {type_.component: value for type_, value in row.items()}
                for type_ in (AgentState, CallState, TurnState, ConversationState):
                    assert world.get(id_, type_) == row.get(type_)
            assert world.components("agent_nobody") == {}

    @invariant()
    def find_sees_the_present_values(self) -> None:
        for world, model in self._pairs():
            for type_, where in _QUESTIONS:
                expected = sorted(
                    (id_, row[type_])
                    for id_, row in model.entities().items()
                    if type_ in row and all(_fits(row[type_], name, wanted) for name, wanted in where.items())
                )
                assert world.find(type_, **where) == expected

    @invariant()
    def indexes_say_what_the_components_say(self) -> None:
        for world, model in self._pairs():
            for phase in Phase:
                assert world.in_phase(phase) == sorted(
                    log
                    for log, rows in model.logs.items()
                    if any(row[TurnState].phase is phase for row in rows.values() if TurnState in row)
                )
            for parent in LOGS:
                assert world.children(ConversationId(parent)) == sorted(
                    ConversationId(log)
                    for log, rows in model.logs.items()
                    if getattr(rows.get(CONVERSATION, {}).get(ConversationConfig), "parent", None) == parent
                )

    @invariant()
    def slices_have_the_rows_of_their_logs(self) -> None:
        for world, model in self._pairs():
            assert {slice_.log for slice_ in world.slices()} == set(model.logs)
            for log, rows in model.logs.items():
                slice_ = world.slice(log)
                assert slice_ is not None
                assert slice_.rows == rows

    def _pairs(self) -> list[tuple[World, Model]]:
        return list(zip(getattr(self, "worlds", []), getattr(self, "models", []), strict=True))


_QUESTIONS: list[tuple[type[Any], Mapping[str, object]]] = [
    (CallState, {"status": "failed"}),
    (CallState, {"status": CallStatus.STARTED, "attempt": 1}),
    (TurnState, {}),
    (ConversationConfig, {"slug": "a"}),
    (ToolboxState, {"status": "ready"}),
    (AgentState, {"removed": True}),
]


def _fits(component: Component, name: str, wanted: object) -> bool:
    value = getattr(component, name)
    return value == wanted or (isinstance(value, Enum) and value.value == wanted)


Worlds.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestTwoWorldsAgainstTheirModels = Worlds.TestCase
