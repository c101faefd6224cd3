"""What a provider wants back of its replies: kept with the message that it led to, for that provider, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from agentos import codec
from agentos.components import Verdict
from agentos.events.entry import ERASED, Draft, digest_of
from agentos.events.kinds import AskedCall, CallProposed, ModelFinished, TurnFinished
from agentos.events.model import Finish, Message, ModelReply, Role, ToolCall, Usage
from agentos.history import Identical, replay_log, verify_store
from agentos.ids import Name
from agentos.persistence.memory import MemoryStore
from agentos.world import Transcript
from agentos.world.transcript import NOT_RUN, advance, empty
from tests.support import Mind, call, entries_of, lab

SIGNED = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
FAMILY = Name("messages")


def finished(*private: tuple[str, Any], **data: Any) -> Draft:
    data.setdefault("finish", Finish.STOP)
    return Draft(data=ModelFinished(**data), private=private)


def told(*drafts: Draft) -> Transcript:
    transcript = empty()
    for seq, draft in enumerate(drafts, 1):
        transcript = advance(transcript, seq, draft, lambda seq, i: None)
    return transcript


def messages(*drafts: Draft) -> list[Message]:
    return list(told(*drafts).messages)


CALLED = {"finish": Finish.TOOL_USE, "calls": (AskedCall(Name("f")),)}
KEPT = finished(("text", "So"), ("thinking", "hm"), ("opaque", SIGNED), ("arguments", {}), kept_for=FAMILY, **CALLED)


def test_c38_a_message_carries_what_its_provider_wants_back() -> None:
    (message,) = messages(KEPT)

    calls = (ToolCall("f", {}, "c1_0"),)
    assert message == Message(Role.ASSISTANT, "So", calls, thinking="hm", opaque=SIGNED, kept_for="messages")


def test_thinking_that_nobody_wants_back_is_in_no_message() -> None:
    plain = finished(("text", "So"), ("thinking", "hm"))

    assert messages(plain) == [Message(Role.ASSISTANT, "So")]
    assert told(plain).hash == told(finished(("text", "So"))).hash


@pytest.mark.parametrize("finish", [Finish.ERROR, Finish.LOST, Finish.CANCELLED, Finish.EMPTY])
def test_c38_nothing_of_a_reply_that_is_no_answer_is_kept(finish: Finish) -> None:
    assert messages(finished(("text", "So"), ("opaque", SIGNED), finish=finish, kept_for=FAMILY)) == []


def test_c38_thinking_without_what_it_led_to_is_not_kept() -> None:
    assert messages(finished(("text", ""), ("thinking", "hm"), ("opaque", SIGNED), kept_for=FAMILY)) == []


def test_c38_a_turn_that_ends_before_the_call_keeps_both_together() -> None:
    proposed, ended = Draft(data=CallProposed(verdict=Verdict.ALLOW), call=2), Draft(data=TurnFinished())

    asked, result = messages(KEPT, proposed, ended)

    assert (asked.opaque, len(asked.calls)) == (SIGNED, 1)
    assert (result.call_id, result.text) == ("c1_0", NOT_RUN)


@pytest.mark.parametrize("erased", range(4))
def test_c38_of_a_reply_that_is_erased_in_part_nothing_private_goes_back(erased: int) -> None:
    private = [(name, ERASED if n == erased else value) for n, (name, value) in enumerate(KEPT.private)]

    (message,) = messages(finished(*private, kept_for=FAMILY, **CALLED))

    assert (message.thinking, message.opaque, message.kept_for) == ("", None, "")


def test_what_older_stores_hold_keeps_its_bytes() -> None:
    assert codec.encode_struct(Message(Role.USER, "x")) == b'{"role":"user","text":"x"}'
    assert codec.encode_struct(Usage(1, 2, 3)) == b'{"cached_tokens":3,"input_tokens":1,"output_tokens":2}'
    assert codec.encode_struct(ModelFinished(finish=Finish.STOP)) == b'{"finish":"stop"}'
    assert digest_of(ModelReply("x")) == digest_of({"text": "x"})


async def test_a_reply_with_all_that_a_provider_says_is_replayed_and_verified() -> None:
    store = MemoryStore()
    usage = Usage(10, 5, 3, 2, 4)
    rich = ModelReply(
        "So", (call("f"),), Finish.TOOL_USE, usage, "hm", SIGNED, "messages", "model 7 (beta)", "msg_1", "pause turn"
    )
    mind = Mind(rich, "done")

    def f() -> str:
        return "ok"

    async with lab(mind, [f], store=store) as here:
        conversation = await here.start()
        await conversation.ask("go")
        first, _ = await entries_of(conversation, "model.finished")
        replayed = await replay_log(store, conversation.id)
        report = await verify_store(store)

    data: Any = first.data
    assert isinstance(replayed, Identical)
    assert report.ok
    assert (data.usage, data.kept_for, data.response) == (usage, "messages", "msg_1")
    assert data.model.startswith("model_7__beta_-"), "foreign text becomes a name"
    assert data.finish_word.startswith("pause_turn-")
    assert [name for name, _ in first.private] == ["text", "thinking", "opaque", "arguments"]
    assert (mind.shown[1][1].opaque, mind.shown[1][1].kept_for) == (SIGNED, "messages")


async def test_an_empty_reply_keeps_its_thinking_in_the_log_and_gives_nothing_back() -> None:
    mind = Mind(ModelReply(thinking="hm", opaque=SIGNED, kept_for="messages", model="m"), "done")
    async with lab(mind) as here:
        conversation = await here.start()
        await conversation.ask("go")
        first, _ = await entries_of(conversation, "model.finished")

    data: Any = first.data
    assert (data.finish, data.model, data.kept_for) == (Finish.EMPTY, "m", None)
    assert first.private == (("text", ""), ("thinking", "hm"))
    assert [message.role for message in mind.shown[1]] == [Role.USER]


async def test_what_cannot_be_stored_of_a_provider_costs_its_turn_alone() -> None:
    async with lab(Mind(ModelReply("x", opaque={"n": float("nan")}))) as here:
        outcome = await here.ask()

    assert str(outcome) == "failed(model:adapter)"
