"""One turn from its input to its outcome, as the log tells it."""

from __future__ import annotations

import asyncio

from agentos.components import Outcome
from agentos.events.model import Role
from agentos.kernel import Conversation, RunOutcome
from agentos.toolboxes.base import Finish
from tests.support import Mind, call, calls, entries_of, kinds, lab, results, settled, units, until


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def test_a_turn_with_one_call_is_four_units() -> None:
    mind = Mind(calls(call("add", a=1, b=2)), "three")
    async with lab(mind, [add]) as here:
        conversation = await here.start()
        await conversation.ask("1 + 2?")

        assert await units(conversation) == [
            ["conversation.started"],
            ["input.received", "turn.started", "model.requested"],
            ["model.finished", "call.proposed", "call.started"],
            ["call.finished", "model.requested"],
            ["model.finished", "turn.finished"],
        ]


async def test_a_turn_without_calls_is_two_units() -> None:
    async with lab(Mind("hello")) as here:
        conversation = await here.start()
        await conversation.ask("hi")

        assert (await units(conversation))[1:] == [
            ["input.received", "turn.started", "model.requested"],
            ["model.finished", "turn.finished"],
        ]


async def test_the_outcome_says_what_the_turn_did() -> None:
    mind = Mind(calls(call("add", a=1, b=2), call("add", a=3, b=4)), "3 and 7")
    async with lab(mind, [add]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("both")
        started = (await entries_of(conversation, "turn.started"))[0]

        assert outcome == RunOutcome(
            outcome=Outcome.COMPLETED,
            name=None,
            text="3 and 7",
            error="",
            conversation=conversation.id,
            turn=outcome.turn,
            agent=outcome.agent,
            steps=2,
            calls=2,
            input_tokens=20,
            output_tokens=10,
        )
        assert outcome.agent == "main"
        assert outcome.turn == f"turn_{conversation.id.removeprefix('conversation_')}_{started.seq}"
        assert str(outcome) == "completed"


async def test_the_model_is_shown_the_history_with_each_result_after_its_call() -> None:
    mind = Mind("one", calls(call("add", a=1, b=2)), "three")
    async with lab(mind, [add]) as here:
        conversation = await here.start()
        await conversation.ask("first")
        await conversation.ask("second")

    shown = [(message.role, message.text) for message in mind.shown[-1]]
    assert shown == [
        (Role.USER, "first"),
        (Role.ASSISTANT, "one"),
        (Role.USER, "second"),
        (Role.ASSISTANT, ""),
        (Role.TOOL, "3"),
    ]


async def test_inputs_that_arrive_in_an_open_turn_are_all_taken_by_the_next() -> None:
    door = asyncio.Event()

    async def wait() -> str:
        await door.wait()
        return "waited"

    mind = Mind(calls(call("wait")), "first answer", "second answer")
    async with lab(mind, [wait]) as here:
        conversation = await here.start()
        first = asyncio.create_task(conversation.ask("one"))
        await until(lambda: len(mind.requests) == 1)
        others = [asyncio.create_task(conversation.ask(text)) for text in ("two", "three")]
        await settled(here.kernel)
        seq = await conversation.send("four")
        door.set()
        outcomes = [await first, *await asyncio.gather(*others)]
        started = await entries_of(conversation, "turn.started")

        assert [outcome.text for outcome in outcomes] == ["first answer", "second answer", "second answer"]
        assert outcomes[1] == outcomes[2]
        assert len(started) == 2
        assert [message.text for message in mind.shown[-1]][-3:] == ["two", "three", "four"]
        assert seq < started[1].seq


async def test_the_next_turn_begins_in_the_unit_that_ends_the_one_before() -> None:
    door = asyncio.Event()

    async def slowly(_: object) -> str:
        await door.wait()
        return "done"

    async with lab(Mind(slowly)) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("one"))
        await until(lambda: here.minds["main"].requests)
        later = asyncio.create_task(conversation.ask("two"))
        await settled(here.kernel)
        door.set()
        await asyncio.gather(asked, later)

        assert ["model.finished", "turn.finished", "turn.started", "model.requested"] in await units(conversation)


async def test_calls_of_one_reply_run_at_once_and_their_results_stand_in_call_order() -> None:
    doors = {name: asyncio.Event() for name in "abc"}
    inside: list[str] = []

    async def enter(name: str) -> str:
        inside.append(name)
        await doors[name].wait()
        return f"result of {name}"

    mind = Mind(calls(*(call("enter", name=name) for name in "abc")))
    async with lab(mind, [enter]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("all"))
        await until(lambda: len(inside) == 3)
        for n, name in enumerate("cab", 1):
            doors[name].set()
            await until(lambda n=n: _ended(conversation, n))
        await asked

        assert [text for _, text in await results(conversation)] == ["result of c", "result of a", "result of b"]
        assert mind.results == ["result of a", "result of b", "result of c"]


async def test_a_result_is_stored_as_soon_as_its_call_ends() -> None:
    door = asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        await door.wait()
        return "slow"

    async with lab(Mind(calls(call("slow"), call("quick"))), [quick, slow]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("both"))
        await until(lambda: _ended(conversation, 1))
        before = await results(conversation)
        door.set()
        await asked

        assert before == [("done", "quick")]


async def test_a_finish_value_ends_the_turn_without_another_request() -> None:
    async def submit(answer: str) -> Finish:
        return Finish({"answer": answer})

    mind = Mind(calls(call("submit", answer="42")))
    async with lab(mind, [submit]) as here:
        outcome = await here.ask()

    assert outcome.completed
    assert outcome.text == '{"answer": "42"}'
    assert (outcome.steps, len(mind.requests)) == (1, 1)


async def test_a_finish_value_ends_nothing_while_another_call_of_the_step_does_not_finish() -> None:
    async def submit() -> Finish:
        return Finish("early")

    async def look() -> str:
        return "seen"

    mind = Mind(calls(call("submit"), call("look")), "in the end")
    async with lab(mind, [submit, look]) as here:
        outcome = await here.ask()

    assert outcome.text == "in the end"
    assert mind.results == ["early", "seen"]


async def test_a_send_returns_the_seq_of_its_stored_input() -> None:
    async with lab(Mind("one", "two")) as here:
        conversation = await here.start()
        seq = await conversation.send("hello")
        (entry,) = await entries_of(conversation, "input.received")

        assert entry.seq == seq
        assert entry.private == (("text", "hello"),)


async def test_a_cancelled_ask_stops_the_waiting_and_not_the_turn() -> None:
    door = asyncio.Event()

    async def slowly(_: object) -> str:
        await door.wait()
        return "all the same"

    async with lab(Mind(slowly)) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: here.minds["main"].requests)
        asked.cancel()
        await asyncio.wait([asked])
        door.set()
        await until(lambda: conversation.state == "idle")

        assert asked.cancelled()
        assert (await kinds(conversation))[-1] == "turn.finished"


async def test_the_outcome_of_an_open_turn_may_be_waited_for_by_others_than_its_asker() -> None:
    door = asyncio.Event()

    async def slowly(_: object) -> str:
        await door.wait()
        return "for all of us"

    async with lab(Mind(slowly)) as here:
        conversation = await here.start()
        nothing_open = await here.kernel.outcome(conversation.id)
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: here.minds["main"].requests)
        first = asyncio.create_task(here.kernel.outcome(conversation.id))
        await settled(here.kernel)
        first.cancel()
        asked.cancel()
        await asyncio.wait([asked, first])
        others = [asyncio.create_task(here.kernel.outcome(conversation.id)) for _ in range(2)]
        await settled(here.kernel)
        door.set()

        assert nothing_open is None
        assert [getattr(outcome, "text", None) for outcome in await asyncio.gather(*others)] == ["for all of us"] * 2


async def test_the_last_settled_turn_stays_in_the_world_until_the_next_begins() -> None:
    async with lab(Mind("one", "two")) as here:
        conversation = await here.start()
        first = await conversation.ask("1")
        after_first = here.kernel.world.components(first.turn)
        second = await conversation.ask("2")

        assert set(after_first) == {"turn_config", "turn_state"}
        assert here.kernel.world.components(first.turn) == {}
        assert set(here.kernel.world.components(second.turn)) == {"turn_config", "turn_state"}


async def _ended(conversation: Conversation, n: int) -> bool:
    return len(await results(conversation)) == n
