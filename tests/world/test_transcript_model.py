"""The transcript against a model: whatever a log tells, incremental and folded anew are one, and nothing leaks."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentos.components import CallStatus, Component, ContextWindow, TurnConfig, Verdict
from agentos.events.entry import ERASED, Draft
from agentos.events.kinds import (
    AskedCall,
    CallFinished,
    CallProposed,
    InputReceived,
    ModelFinished,
    TurnFinished,
    TurnStarted,
)
from agentos.events.model import Finish, Message, Role, ToolCall
from agentos.ids import CONVERSATION, Digest, Micros, Name
from agentos.testing.pairing import unpaired
from agentos.world import Transcript
from agentos.world.transcript import ANSWERS, NOT_RUN, advance, empty

texts = st.text(st.characters(codec=None), min_size=1, max_size=6)
ENDS = [CallStatus.DONE, CallStatus.FAILED, CallStatus.UNKNOWN, CallStatus.DENIED, CallStatus.CANCELLED]


class Story(RuleBasedStateMachine):
    """A log as systems may write it, the transcript that grows with it, and what it should say."""

    @initialize()
    def begin(self) -> None:
        self.transcript = empty()
        self.log: list[tuple[int, Draft]] = []
        self.bodies: dict[tuple[int, int], Any] = {}
        self.seq = 0
        self.expected: list[Message] = []
        self.ephemeral: list[int] = []
        self.waiting: list[tuple[int, str, bool]] = []
        self.turn = 0
        self.begun: list[tuple[int, int]] = []
        self.asked: list[ToolCall] = []
        self.calls: list[int] = []
        self.results: dict[int, Message] = {}
        self.kept: list[tuple[Transcript, list[Message], bytes]] = []

    def write(self, draft: Draft) -> int:
        self.seq += 1
        for i, (_, value) in enumerate(draft.private):
            self.bodies[self.seq, i] = value
        self.log.append((self.seq, draft))
        self.transcript = advance(self.transcript, self.seq, draft, self.body)
        return self.seq

    def body(self, seq: int, i: int) -> Any:
        return self.bodies[seq, i]

    @rule(text=texts, ephemeral=st.booleans())
    def receive(self, text: str, ephemeral: bool) -> None:
        seq = self.write(Draft(data=InputReceived(ephemeral=ephemeral), private=(("text", text),)))
        self.waiting.append((seq, text, ephemeral))

    @precondition(lambda self: self.waiting and not self.turn)
    @rule(data=st.data(), cut=st.booleans())
    def start_a_turn(self, data: st.DataObject, cut: bool) -> None:
        """Now and then the window moves to the start of an earlier turn, or of this one."""
        config = TurnConfig(
            context=Digest("0" * 64),
            inputs=tuple(seq for seq, _, _ in self.waiting),
            ephemeral=tuple(seq for seq, _, ephemeral in self.waiting if ephemeral),
            started_at=Micros(1),
        )
        changes: list[tuple[int, Component]] = [(self.seq + 1, config)]
        self.begun.append((self.seq + 1, len(self.expected)))
        if cut:
            first, place = data.draw(st.sampled_from(self.begun))
            changes.append((CONVERSATION, ContextWindow(first_turn=first)))
            self.begun = [(seq, at - place) for seq, at in self.begun if seq >= first]
            del self.expected[:place]
        self.turn = self.write(Draft(data=TurnStarted(), changes=tuple(changes)))
        for _, text, ephemeral in self.waiting:
            if ephemeral:
                self.ephemeral.append(len(self.expected))
            self.expected.append(Message(Role.USER, text))
        self.waiting = []

    @precondition(lambda self: self.turn and not self.asked)
    @rule(
        finish=st.sampled_from(Finish),
        text=st.one_of(st.just(""), texts),
        arguments=st.lists(st.dictionaries(texts, st.one_of(texts, st.integers()), max_size=2), max_size=3),
        thinks=st.booleans(),
        proposed=st.booleans(),
    )
    def reply(self, finish: Finish, text: str, arguments: list[Any], thinks: bool, proposed: bool) -> None:
        """Calls of a reply are proposed right after it, unless the turn is being ended."""
        private = [("text", text)] + [("thinking", "hm")] * thinks + [("arguments", value) for value in arguments]
        asked = tuple(AskedCall(Name(f"tool{n}")) for n in range(len(arguments)))
        seq = self.write(Draft(data=ModelFinished(finish=finish, calls=asked), private=tuple(private)))
        if finish not in ANSWERS:
            return
        if not arguments:
            self.expected += [Message(Role.ASSISTANT, text)] if text else []
            return
        self.asked = [ToolCall(f"tool{n}", value, f"c{seq}_{n}") for n, value in enumerate(arguments)]
        self.expected.append(Message(Role.ASSISTANT, text, tuple(self.asked)))
        if proposed:
            for _ in self.asked:
                self.calls.append(self.write(Draft(data=CallProposed(verdict=Verdict.ALLOW), call=self.seq + 1)))

    @precondition(lambda self: len(self.results) < len(self.calls))
    @rule(data=st.data(), status=st.sampled_from(ENDS), text=texts, lost=st.booleans())
    def finish_a_call(self, data: st.DataObject, status: CallStatus, text: str, lost: bool) -> None:
        n = data.draw(st.sampled_from([n for n in range(len(self.calls)) if n not in self.results]))
        if lost:
            lost_data = CallFinished(status=CallStatus.LOST)
            self.write(Draft(data=lost_data, call=self.calls[n], private=(("result", "lost"),)))
        self.write(Draft(data=CallFinished(status=status), call=self.calls[n], private=(("result", text),)))
        self.results[n] = Message(Role.TOOL, text, (), self.asked[n].id, self.asked[n].name)
        if len(self.results) == len(self.asked):
            self._settle_calls()

    @precondition(lambda self: self.turn)
    @rule()
    def finish_the_turn(self) -> None:
        self.write(Draft(data=TurnFinished()))
        self._settle_calls()
        self.expected = [message for n, message in enumerate(self.expected) if n not in self.ephemeral]
        self.ephemeral = []
        self.turn = 0

    def _settle_calls(self) -> None:
        for n, asked in enumerate(self.asked):
            missing = Message(Role.TOOL, NOT_RUN, (), asked.id, asked.name)
            self.expected.append(self.results.get(n, missing))
        self.asked, self.calls, self.results = [], [], {}

    @rule(texts=st.lists(texts, max_size=3))
    def drop_a_pass(self, texts: list[str]) -> None:
        """A pass that is taken back has grown a transcript that nobody sees."""
        dropped = self.transcript
        for text in texts:
            reply = Draft(data=ModelFinished(finish=Finish.STOP), private=(("text", text),))
            dropped = advance(dropped, self.seq + 1, reply, self.body)

    @rule()
    def keep(self) -> None:
        """Requests that are under way hold on to the window as it was."""
        self.kept.append((self.transcript, list(self.transcript.messages), self.transcript.hash))

    @invariant()
    def it_says_what_the_log_tells(self) -> None:
        if hasattr(self, "expected"):
            assert list(self.transcript.messages) == self.expected
            assert len(self.transcript.messages) == self.transcript.count == len(self.expected)

    @invariant()
    def folding_the_log_anew_gives_the_same(self) -> None:
        if not hasattr(self, "log"):
            return
        again = empty()
        for seq, draft in self.log:
            again = advance(again, seq, draft, self.body)
        assert list(again.messages) == list(self.transcript.messages)
        assert (again.hash, again.tokens, again.asked) == (
            self.transcript.hash,
            self.transcript.tokens,
            self.transcript.asked,
        )

    @invariant()
    def it_knows_where_turns_begin(self) -> None:
        if hasattr(self, "begun"):
            assert self.transcript.begins[: self.transcript.turns] == self.begun

    @invariant()
    def the_entries_from_the_windows_first_turn_on_tell_it_too(self) -> None:
        """The hash and all else is that of the window, wherever the log began."""
        if not getattr(self, "begun", None):
            return
        first = self.begun[0][0]
        again = empty()
        for seq, draft in self.log:
            if seq >= first:
                again = advance(again, seq, draft, self.body)
        assert list(again.messages) == self.expected
        assert (again.hash, again.tokens) == (self.transcript.hash, self.transcript.tokens)

    @invariant()
    def a_window_that_was_given_out_never_changes(self) -> None:
        for transcript, messages, hash_ in getattr(self, "kept", []):
            assert list(transcript.messages) == messages
            assert transcript.hash == hash_

    @invariant()
    def calls_and_results_are_paired_when_a_request_is_due(self) -> None:
        if hasattr(self, "asked") and not self.asked:
            assert unpaired(self.transcript.messages) == []


Story.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestTranscriptAgainstAModel = Story.TestCase


def grown(*texts: str) -> Transcript:
    transcript = empty()
    for seq, text in enumerate(texts, 1):
        draft = Draft(data=ModelFinished(finish=Finish.STOP), private=(("text", text),))
        transcript = advance(transcript, seq, draft, lambda *_: None)
    return transcript


def test_the_hash_tells_messages_apart_by_their_order_and_their_borders() -> None:
    transcripts = [grown("a", "b"), grown("b", "a"), grown("ab"), grown("a", "b", "c"), grown("a")]

    assert len({transcript.hash for transcript in transcripts}) == len(transcripts)


def test_an_erased_text_is_shown_as_erased() -> None:
    draft = Draft(data=ModelFinished(finish=Finish.STOP), private=(("text", ERASED),))

    assert [m.text for m in advance(empty(), 1, draft, lambda *_: None).messages] == ["(erased)"]


def test_a_window_is_a_sequence_like_any_other() -> None:
    window = grown("a", "b", "c").messages

    assert [window[0].text, window[-1].text] == ["a", "c"]
    assert [message.text for message in window[1:]] == ["b", "c"]
    assert [message.text for message in reversed(window)] == ["c", "b", "a"]
    for index in (3, -4):
        try:
            window[index]
        except IndexError:
            continue
        raise AssertionError(index)
