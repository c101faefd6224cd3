"""Imported sessions are conversations as any other: verified, decided again, paired, and gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentos
from agentos import AgentSpec
from agentos.errors import ConfigurationError, StoreError
from agentos.events.entry import Registry
from agentos.events.model import Message, ModelReply, ModelRequest, Role
from agentos.history import request_of
from agentos.history.sessions import Imported, import_session, playing, read_session, session_of_conversation
from agentos.history.sessions.model import ModelTurn, UserTurn, model_turns, user_turns
from agentos.history.sessions.playing import NO_QUESTION, NO_RESULT
from agentos.ids import LogId
from agentos.journal import load_log
from agentos.models import ScriptedModel
from agentos.models.pairing import paired
from agentos.persistence.base import Store, Unit, Verdict
from agentos.persistence.memory import MemoryStore
from agentos.testing.clock import ManualClock
from tests.history.session_files import DATA, EMPTY, WHOLE, call, llm, partial, session, tool, user
from tests.history.support import assert_history_holds
from tests.steps import Steps

WRITER = 1
"""The number that a new store gives the first who opens it."""


@pytest.fixture
async def store(store: Store) -> Store:
    """Open, and by whom."""
    assert await store.open("importer") == WRITER
    return store


async def take(store: Store, *turns: Any, agent: str | None = None, **more: Any) -> Imported:
    return await import_session(store, WRITER, session(*turns, **more), agent, clock=ManualClock())


async def messages_of(store: Store, imported: Imported) -> list[Message]:
    """The history that the next request would show."""
    folded = await load_log(store, LogId(imported.conversation), Registry())
    return list(folded.slice.transcript.messages)


def shown(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role.value, message.text or ",".join(one.name for one in message.calls)) for message in messages]


@pytest.mark.parametrize("name", WHOLE)
async def test_a_real_session_says_the_same_as_a_conversation(name: str, store: Store) -> None:
    read = read_session(DATA / name)
    imported = await import_session(store, WRITER, read)
    again = await session_of_conversation(store, imported.conversation)

    await assert_history_holds(store)
    assert imported.new
    assert not imported.notes
    assert [(turn.query, turn.prompt) for turn in user_turns(again)] == [
        (turn.query, turn.prompt) for turn in user_turns(read)
    ]
    assert [[(one.call, one.text) for one in turn.results] for turn in user_turns(again)] == [
        [(one.call, one.text) for one in turn.results] for turn in user_turns(read)
    ]
    assert [_said(turn) for turn in model_turns(again)] == [_said(turn) for turn in model_turns(read)]


def _said(turn: ModelTurn) -> tuple[Any, ...]:
    return turn.text or "", turn.thinking or None, turn.calls, turn.tokens, turn.model, turn.response, turn.created_at


async def test_tables_tell_of_an_imported_session(store: Store) -> None:
    imported = await import_session(store, WRITER, read_session(DATA / "gh-75.session.json"))
    ((agent, state, turns, calls),) = (await store.query("select agent, state, turns, calls from conversations")).rows
    roles = (await store.query("select role, count(*) from messages group by role order by role")).rows
    tools = (await store.query("select tool, status from tool_calls order by id")).rows
    models = (await store.query("select steps, outcome, input_tokens from turns")).rows

    assert (agent, state, turns, calls) == (imported.agent, "idle", 1, 5) == ("imported-2517d663", "idle", 1, 5)
    assert [tuple(row) for row in roles] == [("assistant", 6), ("tool", 5), ("user", 1)]
    assert {status for _, status in tools} == {"done"}
    assert [tuple(row) for row in models] == [(6, "completed", 10719)]


async def test_a_session_without_turns_is_a_conversation_without_turns(store: Store) -> None:
    imported = await import_session(store, WRITER, read_session(DATA / EMPTY))

    await assert_history_holds(store)
    assert (imported.turns, imported.messages, imported.entries) == (0, 0, 1)


async def test_the_same_session_is_the_same_conversation(store: Store) -> None:
    turns = [user("hi"), llm("hello")]
    first = await take(store, *turns)
    again = await take(store, *turns)
    grown = await take(store, *turns, user("more"), llm("of it"))

    assert again == msgspec.structs.replace(first, new=False, messages=0, entries=0)
    assert grown.conversation != first.conversation
    assert len(await store.logs()) == 2
    await assert_history_holds(store)


async def test_a_conversation_stays_with_its_agent(store: Store) -> None:
    first = await take(store, user("hi"), llm("hello"), agent="clerk")

    with pytest.raises(ConfigurationError, match=f"{first.conversation} of agent 'clerk'"):
        await take(store, user("hi"), llm("hello"), agent="other")
    with pytest.raises(ConfigurationError, match="no agent can have the name 'a b'"):
        await take(store, user("ho"), agent="a b")
    assert len(await store.logs()) == 1


async def test_a_call_without_a_result_gets_one_and_is_in_doubt(store: Store) -> None:
    imported = await take(
        store, user("look"), llm(None, call(id_="a"), call(id_="b")), user(None, [call(id_="b"), "seen"])
    )
    statuses = (await store.query("select status from tool_calls order by id")).rows

    await assert_history_holds(store)
    assert shown(await messages_of(store, imported)) == [
        ("user", "look"),
        ("assistant", "look,look"),
        ("tool", NO_RESULT),
        ("tool", "seen"),
    ]
    assert [status for (status,) in statuses] == ["unknown", "done"]


async def test_a_turn_that_was_left_open_is_closed_so_that_nothing_runs(store: Store) -> None:
    for turns in (
        [user("hi")],
        [user("hi"), llm(None, call())],
        [user("hi"), llm(None, call()), user(None, [call(), "x"])],
    ):
        await take(store, *turns)
    rows = (await store.query("select distinct c.state, t.outcome, t.outcome_name from conversations c, turns t")).rows

    await assert_history_holds(store)
    assert await store.open_logs() == []
    assert [tuple(row) for row in rows] == [("idle", "cancelled", "imported")]
    await store.close()
    async with agentos.open(store) as kernel:
        assert await kernel.recover() == []


async def test_a_question_in_the_middle_of_calls_comes_after_their_results(store: Store) -> None:
    imported = await take(
        store, user("look"), llm(None, call()), user("stop!", [call(), "seen"]), llm("stopped"), user("why?"), llm("so")
    )

    await assert_history_holds(store)
    assert shown(await messages_of(store, imported)) == [
        ("user", "look"),
        ("assistant", "look"),
        ("tool", "seen"),
        ("user", "stop!"),
        ("assistant", "stopped"),
        ("user", "why?"),
        ("assistant", "so"),
    ]


async def test_a_session_that_was_cut_at_its_beginning_is_told_as_it_is(store: Store) -> None:
    imported = await take(store, user(None, [call(), "seen"]), llm("done"), llm("and done"))

    await assert_history_holds(store)
    assert shown(await messages_of(store, imported)) == [
        ("user", "Results that came late:\nlook: seen"),
        ("assistant", "done"),
        ("user", NO_QUESTION),
        ("assistant", "and done"),
    ]


async def test_a_result_that_comes_late_is_told_when_it_comes(store: Store) -> None:
    tracked = [{"call": call(), "state": "Running"}]
    imported = await take(
        store,
        user("look"),
        llm(None, call()),
        partial(trackedToolCalls=tracked),
        llm("meanwhile"),
        user("and?", [call(), "seen"]),
        llm("it is there"),
    )

    await assert_history_holds(store)
    assert shown(await messages_of(store, imported))[2:] == [
        ("tool", NO_RESULT),
        ("assistant", "meanwhile"),
        ("user", "and?\n\nResults that came late:\nlook: seen"),
        ("assistant", "it is there"),
    ]


async def test_what_cannot_be_kept_is_said(store: Store) -> None:
    media = {"type": "media", "mimeType": "image/png", "base64Data": "aGVsbG8="}
    strict = tool("look", required=["place"])
    imported = await take(
        store,
        user("look", tools=[strict]),
        llm(None, call()),
        user(None, [call(), media]),
        llm("a"),
        user(None, [call(), "x"]),
    )

    await assert_history_holds(store)
    assert imported.notes == (
        "the schema of look is left out: a recorded call does not fit it",
        "the bytes of an attachment are left out; a line stands in its place",
        "left out, since no call before them waits for them: results of look",
    )


async def test_odd_names_and_arguments_are_kept_readable(store: Store) -> None:
    calls = [call("a b", '{"x": ', "1"), call("é" * 200, [1], "2"), call("u", {"t": "\0\ud800", "n": 2**70}, "3")]
    imported = await take(
        store, user("\0go"), llm("\ud800", *calls), user(None, *([one, "ok"] for one in calls)), llm("")
    )
    again = await session_of_conversation(store, imported.conversation)
    asked = model_turns(again)[0]

    await assert_history_holds(store)
    assert [one.arguments for one in asked.calls] == ['{"x": ', [1], {"t": "\0\ud800", "n": 2**70}]
    assert asked.text == "\ud800"
    assert isinstance(again.turns[0], UserTurn)
    assert again.turns[0].query == "\0go"


async def test_a_tool_with_a_text_that_has_no_bytes_is_kept(store: Store) -> None:
    look, find = tool("look"), tool("find", properties={"\ud800": {"type": "string"}})
    look["contents"]["description"] = "Looks \ud800."
    imported = await take(
        store, user("look", tools=[look, find]), llm(None, call()), user(None, [call(), "x"]), llm("so")
    )

    await assert_history_holds(store)
    told = (await session_of_conversation(store, imported.conversation)).turns[0]
    assert isinstance(told, UserTurn)
    assert [(one.name, one.description) for one in told.tools] == [("find", "Looks."), ("look", "Looks \ud800.")]


async def test_an_answer_costs_no_more_because_others_follow() -> None:
    """Of a session in which nobody asks anything, each answer is a turn by itself."""

    async def steps_of(answers: int) -> int:
        store = MemoryStore()
        writer = await store.open("it")
        with Steps(playing).counted() as steps:
            imported = await import_session(store, writer, session(*[llm("so")] * answers))
        await store.close()
        assert imported.turns == answers
        return steps.count

    assert await steps_of(40) / 40 < 1.5 * await steps_of(10) / 10


async def test_times_are_those_of_the_answers_and_never_go_back(store: Store) -> None:
    created = [1_000, None, 900, 2_000, 10**12]
    turns: list[Any] = [user("a")]
    for n, second in enumerate(created):
        turns += [llm(None, call(id_=str(n)), raw={"created": second}), user(None, [call(id_=str(n)), "x"])]
    clock = ManualClock()
    imported = await import_session(store, WRITER, session(*turns), clock=clock)
    folded = await store.query("select distinct at from entries order by at")
    ((started,),) = (await store.query("select started_at from conversations")).rows

    await assert_history_holds(store)
    assert imported.new
    assert started == min(1_000_000_000, clock.now())
    assert [at for (at,) in folded.rows] == sorted({min(second * 1_000_000, clock.now()) for second in (1_000, 2_000)})


async def test_a_session_without_times_has_the_time_of_its_import(store: Store) -> None:
    clock = ManualClock()
    await import_session(store, WRITER, session(user("a"), llm("b")), clock=clock)

    assert [at for (at,) in (await store.query("select distinct at from entries")).rows] == [clock.now()]


async def test_an_agent_goes_on_with_it(store: Store) -> None:
    read = read_session(DATA / "gh-118.session.json")
    imported = await import_session(store, WRITER, read, "clerk")
    asked: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        asked.append(request)
        return ModelReply(text="gone on")

    await store.close()
    async with agentos.open(store) as kernel:
        await kernel.install(AgentSpec(slug="clerk", system_prompt="Go on."), model=ScriptedModel(reply))
        talk = await kernel.get(imported.conversation)
        outcome = await talk.ask("and then?")
        request = await request_of(store, imported.conversation)

        await assert_history_holds(store)
    assert outcome.text == "gone on"
    assert request.matches
    (messages,) = ([*one.messages] for one in asked)
    assert list(paired(messages)) == messages
    assert [message.text for message in messages if message.role is Role.USER][-1] == "and then?"
    assert sum(len(message.calls) for message in messages) == 8


async def test_without_its_agent_nothing_goes_on(store: Store) -> None:
    await take(store, user("hi"), llm("hello"))
    await store.close()

    async with agentos.open(store) as kernel:
        await kernel.install(AgentSpec(slug="clerk"))
        assert kernel.catalog.agents.keys() == {"clerk"}
        assert await kernel.recover() == []


class Counting(MemoryStore):
    """Notes how many units each append has."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        self.batches.append(len(units))
        return super().append(units)


class Refusing(MemoryStore):
    """Leaves every unit out, as when another writer was quicker."""

    def append(self, units: Sequence[Unit]) -> list[Verdict]:
        return [Verdict.CONFLICT for _ in units]


async def test_all_units_are_one_append_or_none_is_there() -> None:
    store, counting = Refusing(), Counting()
    await store.open("importer")
    await counting.open("importer")
    with pytest.raises(StoreError, match="is conflict: somebody else imports it just now"):
        await take(store, user("hi"), llm("hello"))

    assert await store.logs() == []

    await import_session(counting, WRITER, read_session(DATA / "gh-157.session.json"))
    assert counting.batches == [14]


ids = st.sampled_from(["a", "b", ""])
calls = st.builds(lambda id_, name: call(name, "{}", id_), ids, st.sampled_from(["look", "go"]))
pairs = st.builds(lambda one, text: [one, text], calls, st.sampled_from(["x", "", "y"]))
queries = st.sampled_from([None, None, "", "hi", {"text": "see", "media": [{"mimeType": "a/b", "base64Data": "aa"}]}])
user_turn = st.builds(lambda query, results: user(query, *results), queries, st.lists(pairs, max_size=3))
llm_turn = st.builds(
    lambda text, asked: llm(text, *asked), st.sampled_from([None, "", "so"]), st.lists(calls, max_size=3)
)
partial_turn = st.builds(
    lambda query, done, open_: partial(query, completedResponses=done, pendingCalls=open_),
    queries,
    st.lists(pairs, max_size=2),
    st.lists(calls, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(user_turn | llm_turn | partial_turn, max_size=9))
def test_whatever_the_order_of_turns_the_log_holds_and_every_call_has_its_result(turns: list[Any]) -> None:
    async def check() -> None:
        store = MemoryStore()
        await store.open("importer")
        read = session(*turns)
        imported = await import_session(store, WRITER, read, clock=ManualClock())
        await assert_history_holds(store)
        messages = await messages_of(store, imported)

        assert list(paired(messages)) == messages
        assert await store.open_logs() == []
        answered = [turn for turn in read.turns if isinstance(turn, ModelTurn)]
        asked = [one.name for turn in answered for one in turn.calls]
        assert [one.name for message in messages for one in message.calls] == asked
        results = [message.text for message in messages if message.role is Role.TOOL]
        assert len(results) == len(asked)
        await store.close()

    asyncio.run(check())
