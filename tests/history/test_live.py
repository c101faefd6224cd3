"""Live replay: a recorded conversation is run anew in a fork by a real model, and nothing happens that nobody let through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentos.components import ApprovalMode, EffectClass, Verdict
from agentos.errors import ConversationErased, ReplayRefused
from agentos.events.kinds import CallFinished, CallSource
from agentos.governance.approval import DenyAll
from agentos.history import Departed, Identical, Variant, parting_of, replay_against, replay_all
from agentos.history.live.gate import RecordGate, Tools
from agentos.history.live.record import Record, begin_of, record_of
from agentos.history.live.running import Live, run_live
from agentos.ids import LogId
from agentos.persistence.memory import MemoryStore
from agentos.ports import ApprovalRequest
from tests.history.support import assert_history_holds
from tests.support import Lab, Life, Mind, call, calls, crash, hang, lab, results, until

WORDS = calls(call("count", text="a b"), call("count", text="a b"), call("send", to="ann"))


class Desk:
    """Tools that tell what they did. Their answers differ from one process to the next."""

    def __init__(self, day: str) -> None:
        self.day = day
        self.did: list[str] = []

    @property
    def tools(self) -> list[Any]:
        async def count(text: str) -> str:
            """Counts words."""
            self.did.append(f"count {text}")
            return f"{len(self.did)} on {self.day}"

        async def send(to: str) -> str:
            """Sends it."""
            self.did.append(f"send {to}")
            return f"sent on {self.day}"

        async def fail(text: str) -> str:
            """Fails."""
            raise ValueError(f"{text} on {self.day}")

        return [count, send, fail]


PURE = {"count": EffectClass.PURE}


class Past:
    """A conversation of Monday, in a store of its own."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.id = ""

    async def happens(self, mind: Mind, *inputs: str, others: Any = None, **more: Any) -> None:
        async with lab(mind, Desk("Monday").tools, store=self.store, effects=PURE, others=others, **more) as here:
            talk = await here.start()
            for text in inputs:
                await talk.ask(text)
            self.id = talk.id

    @asynccontextmanager
    async def anew(
        self,
        mind: Mind,
        desk: Desk,
        tools: Tools = Tools.NONE,
        *,
        approval: Any = None,
        others: Any = None,
        at: int | None = None,
        turn: int | None = None,
    ) -> AsyncIterator[tuple[Lab, Live, RecordGate]]:
        """A live replay on Tuesday. What the store proved before, it proves afterwards."""
        gate, begin, record = await self.gate(tools, at=at, turn=turn)
        before = await self.store.log(self.id)
        options = {"hooks": [gate], "approval": gate.approval(approval)}
        async with lab(
            mind, desk.tools, store=self.store, effects=PURE, others=others, options=options, first_id=100
        ) as here:
            yield here, await run_live(here.kernel, self.id, begin, record, gate), gate
            assert await self.store.log(self.id) == before
            await assert_history_holds(self.store)

    async def gate(self, tools: Tools, **where: Any) -> tuple[RecordGate, Any, Record]:
        row = await self.store.log(self.id)
        assert row is not None
        begin = await begin_of(self.store, row, **where)
        record = await record_of(self.store, row, begin)
        return RecordGate(record, tools), begin, record


class Asked:
    """A person at a terminal, who says the same to everything."""

    mode = ApprovalMode.PARK

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.requests: list[str] = []

    async def decide(self, request: ApprovalRequest) -> Verdict | None:
        self.requests.append(request.tool)
        return self.verdict


async def test_a_model_that_says_the_same_gets_the_recorded_results_in_order_and_nothing_runs() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine"), "go")
    mind = Mind(WORDS, "fine")
    async with past.anew(mind, desk) as (_, live, gate):
        parting = await parting_of(past.store, past.id, live.fork.id)
        ended = await results(live.fork)

    assert desk.did == []
    assert mind.results == ["1 on Monday", "2 on Monday", "sent on Monday"]
    assert parting.same
    assert not live.open
    assert [ruled.word for ruled in gate.ruled] == ["recorded"] * 3
    assert [status for status, _ in ended] == ["done"] * 3
    assert (live.begin.number, live.fork.upto, live.fork.forked_from) == (1, live.begin.upto, past.id)


async def test_each_recorded_result_is_given_once_and_another_call_is_denied_by_name() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine"), "go")
    again = calls(*(call("send", to=to) for to in ("ann", "ann", "bob")))
    mind = Mind(again, "well")
    async with past.anew(mind, desk) as (_, live, gate):
        parting = await parting_of(past.store, past.id, live.fork.id)

    assert desk.did == []
    denied = "not run: send with these arguments is not in the record; --with-tools runs it"
    assert mind.results == ["sent on Monday", denied, denied]
    assert [ruled.word for ruled in gate.ruled] == ["recorded", "denied", "denied"]
    assert not parting.same


async def test_what_failed_in_the_record_fails_again_with_the_same_words() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(calls(call("fail", text="no"), call("count", wrong=1)), "so"), "go")
    mind = Mind(calls(call("fail", text="no"), call("count", wrong=1)), "so")
    async with past.anew(mind, desk) as (_, live, gate):
        parting = await parting_of(past.store, past.id, live.fork.id)

    assert "no on Monday" in mind.results[0]
    assert "arguments of count are wrong" in mind.results[1]
    assert parting.same
    assert [ruled.tool for ruled in gate.ruled] == ["fail"]


@pytest.mark.parametrize(
    ("tools", "verdict", "did", "words"),
    [
        (Tools.PURE, None, ["count c"], ["run", "denied"]),
        (Tools.ALL, None, ["count c", "send bob"], ["run", "run"]),
        (Tools.ASK, Verdict.ALLOW, ["count c", "send bob"], ["run", "asked"]),
        (Tools.ASK, Verdict.DENY, ["count c"], ["run", "asked"]),
    ],
)
async def test_with_tools_what_is_pure_runs_and_the_rest_needs_a_word(
    tools: Tools, verdict: Verdict | None, did: list[str], words: list[str]
) -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine"), "go")
    asked = Asked(verdict) if verdict is not None else None
    mind = Mind(calls(call("count", text="c"), call("send", to="bob")), "well")
    async with past.anew(mind, desk, tools, approval=asked) as (_, live, gate):
        outcome = live.outcomes[0]

    assert desk.did == did
    assert [ruled.word for ruled in gate.ruled] == words
    assert asked is None or asked.requests == ["send"]
    assert outcome.completed


async def test_the_inputs_of_later_turns_are_sent_again_in_turn() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(*"abc"), "one", "two", "three")
    mind = Mind(*"xyz")
    async with past.anew(mind, desk, turn=2) as (_, live, _gate):
        parting = await parting_of(past.store, past.id, live.fork.id)

    assert [outcome.text for outcome in live.outcomes] == ["x", "y"]
    assert [message.text for message in mind.shown[-1]] == ["one", "a", "two", "x", "three"]
    assert [(left.text, right.text) for left, right in parting.pairs if left and right and left.what == "reply"] == [
        ("b", "x"),
        ("c", "y"),
    ]


async def test_inputs_that_one_turn_took_together_are_taken_together_again() -> None:
    past, desk = Past(), Desk("Tuesday")
    async with lab(Mind(lambda _request: hang()), Desk("Monday").tools, store=past.store, effects=PURE) as here:
        talk = await here.start()
        past.id = talk.id
        await talk.send("one")
        await until(lambda: here.minds["main"].requests)
        await talk.send("two")
        await talk.send("three")
        await talk.interrupt()
        await until(lambda: len(here.minds["main"].requests) == 2 and talk.state == "idle")
    mind = Mind(*"xy")
    async with past.anew(mind, desk) as (_, live, _gate):
        shown = [message.text for message in mind.shown[-1]]

    assert [outcome.text for outcome in live.outcomes] == ["x", "y"]
    assert shown == ["one", "x", "two", "three"]


async def test_a_delegation_is_a_call_like_others_and_its_child_is_gated_too() -> None:
    past, desk = Past(), Desk("Tuesday")
    ask = calls(call("ask_aide", task="count"))
    spec: dict[str, Any] = {"subagents": ["aide"]}
    aide: Mapping[str, Any] = {"effects": PURE}
    await past.happens(Mind(ask, "so"), "go", others={"aide": (Mind("counted"), aide)}, **spec)
    gate, begin, record = await past.gate(Tools.NONE)
    async with lab(
        Mind(calls(call("ask_aide", task="count"), call("ask_aide", task="sing")), "so"),
        desk.tools,
        store=past.store,
        effects=PURE,
        others={"aide": (Mind(), aide)},
        options={"hooks": [gate], "approval": DenyAll()},
        first_id=100,
        **spec,
    ) as here:
        await run_live(here.kernel, past.id, begin, record, gate)
        given = here.minds["main"].results
        aide_was_asked = here.minds["aide"].requests
        await assert_history_holds(past.store)
    gate, begin, record = await past.gate(Tools.ALL)
    async with lab(
        Mind(calls(call("ask_aide", task="sing")), "so"),
        desk.tools,
        store=past.store,
        effects=PURE,
        others={"aide": (Mind(calls(call("send", to="bob"))), aide)},
        options={"hooks": [gate], "approval": DenyAll()},
        first_id=200,
        **spec,
    ) as here:
        await run_live(here.kernel, past.id, begin, record, gate)
        await assert_history_holds(past.store)

    assert given == ["counted", "not run: ask_aide with these arguments is not in the record; --with-tools runs it"]
    assert aide_was_asked == []
    assert [ruled.tool for ruled in gate.ruled] == ["ask_aide", "send"]
    assert desk.did == ["send bob"]


async def test_it_begins_at_the_last_model_request_by_a_seq() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(calls(call("count", text="a")), calls(call("send", to="ann")), "end"), "go")
    entries = await past.store.entries(past.id)
    requests = [entry.seq for entry in entries if entry.kind == "model.requested"]
    mind = Mind(calls(call("count", text="a")), "other")
    async with past.anew(mind, desk, at=requests[1] + 1) as (_, live, gate):
        begin = live.begin

    assert (begin.request, begin.number) == (requests[1], 1)
    assert [ruled.word for ruled in gate.ruled] == ["denied"]
    assert len(mind.shown[0]) == 3


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"turn": 2}, "no model was asked in turn 2; it has 1 turn"),
        ({"at": 1}, "up to entry 1"),
        ({"at": 99}, "no entry 99"),
    ],
)
async def test_where_no_model_was_asked_nothing_begins(where: dict[str, int], reason: str) -> None:
    past = Past()
    await past.happens(Mind("a"), "go")

    with pytest.raises(ReplayRefused, match=reason):
        await past.gate(Tools.NONE, **where)


async def test_a_fork_that_is_left_behind_by_a_crash_keeps_its_gate_closed() -> None:
    life, past, desk = Life(), Past(), Desk("Tuesday")
    past.store = life.store
    await past.happens(Mind(WORDS, "fine"), "go")
    gate, begin, record = await past.gate(Tools.ALL)
    mind = Mind(lambda _request: hang())
    options = {"hooks": [gate], "approval": DenyAll()}
    async with life.open(mind, desk.tools, effects=PURE, options=options) as here:
        running = asyncio.ensure_future(run_live(here.kernel, past.id, begin, record, gate))
        await until(lambda: mind.requests)
        ((fork,),) = (await here.kernel.query("select id from conversations where id <> ?", (past.id,))).rows
        crash(here)
    running.cancel()
    async with life.open(Mind(calls(call("send", to="bob"))), desk.tools, effects=PURE) as here:
        life.id = str(fork)
        talk, _ = await life.recovered(here)
        ended = await results(talk)

    assert desk.did == []
    assert ended == [("denied(hook)", "not run: hook record guards this turn, and is not here")]


async def test_the_heads_of_all_other_logs_stay_as_they_were() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine"), "go")
    rows = {row.id: row for row in await past.store.logs() if row.kind == "conversation"}
    async with past.anew(Mind(WORDS, "fine"), desk) as (_, live, _gate):
        after = {row.id: row for row in await past.store.logs() if row.kind == "conversation"}

    assert set(after) - set(rows) == {LogId(live.fork.id)}
    assert {id_: after[id_] for id_ in rows} == rows


async def test_a_live_fork_says_whose_word_each_end_is_and_departs_like_any_log() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine"), "go")
    async with past.anew(Mind(WORDS, "fine"), desk) as (_, live, _gate):
        ends = [entry for entry in await live.fork.history() if isinstance(entry.data, CallFinished)]
        against = await replay_against(past.store, live.fork.id, Variant(name="x", prompt=("Other.",)))

    assert [(end.by, end.data.source) for end in ends if isinstance(end.data, CallFinished)] == [
        ("record", CallSource.HOOK)
    ] * 3
    assert isinstance(against, Departed)
    assert (
        against.seq == live.begin.upto + 5
    )  # the request that is made anew, behind four that begin the fork and take it up


async def test_what_is_erased_is_not_run_anew_and_an_erased_live_fork_is_still_decided_the_same() -> None:
    past, desk = Past(), Desk("Tuesday")
    await past.happens(Mind(WORDS, "fine", "two"), "go", "again")
    async with past.anew(Mind(WORDS, "fine", "two"), desk) as (_, live, _gate):
        pass
    async with lab(Mind(), desk.tools, store=past.store, effects=PURE, first_id=300) as here:
        await here.kernel.erase(past.id, forks=True)
    found = {one.log: one async for one in replay_all(past.store) if isinstance(one, Identical)}
    gate, begin, record = await past.gate(Tools.NONE)
    async with lab(Mind(), desk.tools, store=past.store, options={"hooks": [gate]}, first_id=400) as here:
        with pytest.raises(ReplayRefused, match="is erased, and cannot be sent again"):
            await run_live(here.kernel, past.id, begin, record, gate)
        before = await past.gate(Tools.NONE, turn=2)
        with pytest.raises(ConversationErased):
            await run_live(here.kernel, past.id, before[1], before[2], before[0])

    assert found[LogId(live.fork.id)].erased > 0
    assert set(found) == {past.id, live.fork.id}
