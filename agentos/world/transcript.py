"""The transcript: the messages of the present context window, encoded once, with a digest that grows with them.

It is derived: the fold of a conversation's entries and bodies. A pass extends its own copy in O(new), since the pieces
of earlier turns are shared and never change. Where the window begins is a component of the conversation (`ContextWindow`),
decided when a turn begins; what stands before it is left out, as if the conversation had begun there.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, overload

import msgspec

from agentos import codec
from agentos.components import CallStatus, ContextWindow, TurnConfig
from agentos.events.entry import ERASED, Body, Draft
from agentos.events.kinds import CallFinished, CallProposed, EntryData, ModelFinished, TurnFinished, TurnStarted
from agentos.events.model import Finish, Message, Role, ToolCall

_log = logging.getLogger(__name__)

ANSWERS = frozenset({Finish.STOP, Finish.TOOL_USE, Finish.LENGTH, Finish.REFUSAL})
"""Replies that belong to the history; a lost, cut or cancelled one is only in the log."""

NOT_RUN = "not run: the turn had ended"
RESOLVED = "A note on calls of earlier turns whose outcome was unknown:"
ERASED_TEXT = "(erased)"
CHARS_PER_TOKEN = 4


class Window(Sequence[Message]):
    """The first count messages of a list that only grows; a copy would make each step cost the whole history."""

    __slots__ = ("_count", "_pieces")

    def __init__(self, pieces: list[Message], count: int) -> None:
        self._pieces, self._count = pieces, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self._pieces[n] for n in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._pieces[index if index >= 0 else self._count + index]


class Purge(msgspec.Struct, frozen=True):
    """The transcript as it was before the turn, and the places of the turn's ephemeral messages."""

    before: Transcript
    places: tuple[int, ...]


class Transcript(msgspec.Struct, frozen=True, gc=False):
    """The messages so far.

    pieces may be longer than count: what follows belongs to a later transcript of the same list, or to a dropped pass.
    hash chains the pieces, from the first of the window on: two windows of the same messages have the same, wherever they
    were cut from. tokens estimates their size, at four bytes each. asked are the calls of the last reply whose results are
    not in yet; first_call is the seq of the first of them, and results holds what came, by ordinal. purge says which
    pieces leave with the turn. begins holds, for each turn, its seq and the place of its first message; like pieces it may
    be longer than its count, turns.
    """

    pieces: list[Message]
    count: int
    hash: bytes
    tokens: int = 0
    purge: Purge | None = None
    asked: tuple[ToolCall, ...] = ()
    first_call: int = 0
    results: dict[int, Message] = {}
    begins: list[tuple[int, int]] = []
    turns: int = 0

    @property
    def messages(self) -> Sequence[Message]:
        return Window(self.pieces, self.count)

    def extended(self, messages: Sequence[Message]) -> Transcript:
        """With these messages at the end and nothing asked."""
        pieces = self.pieces if len(self.pieces) == self.count else self.pieces[: self.count]
        hash_, tokens = self.hash, self.tokens
        for message in messages:
            encoded = _encode(message)
            hash_ = hashlib.sha256(hash_ + encoded).digest()
            tokens += len(encoded) // CHARS_PER_TOKEN + 1
        pieces.extend(messages)
        return Transcript(pieces, len(pieces), hash_, tokens, self.purge, begins=self.begins, turns=self.turns)

    def with_turn(self, seq: int) -> Transcript:
        """With a turn that begins after the last message."""
        begins = self.begins if len(self.begins) == self.turns else self.begins[: self.turns]
        begins.append((seq, self.count))
        return msgspec.structs.replace(self, begins=begins, turns=len(begins))

    def turn_within(self, messages_max: int) -> int | None:
        """The seq of the earliest turn from which on there are at most so many messages; None when there is none."""
        place = bisect_left(self.begins, self.count - messages_max, 0, self.turns, key=_place)
        return self.begins[place][0] if place < self.turns else None

    def from_turn(self, seq: int) -> Transcript:
        """Without what was said before that turn; whole when it begins no earlier."""
        turn = bisect_left(self.begins, seq, 0, self.turns, key=_seq)
        if not turn:
            return self
        first = self.begins[turn][1] if turn < self.turns else self.count
        begins = [(seq, place - first) for seq, place in self.begins[turn : self.turns]]
        kept = Transcript([], 0, EMPTY, begins=begins, turns=len(begins))
        return kept.extended(self.pieces[first : self.count])


EMPTY = hashlib.sha256(b"agentos transcript").digest()


def empty() -> Transcript:
    return Transcript([], 0, EMPTY)


def advance(transcript: Transcript, seq: int, draft: Draft, body: Body) -> Transcript:
    """The transcript after this entry; body gives the private values of earlier ones."""
    step = _STEPS.get(type(draft.data))
    return step(transcript, seq, draft, body) if step else transcript


def _inputs(transcript: Transcript, seq: int, draft: Draft, body: Body) -> Transcript:
    config = next(value for _, value in draft.changes if type(value) is TurnConfig)
    window = next((value for _, value in draft.changes if type(value) is ContextWindow), None)
    before = (transcript if window is None else transcript.from_turn(window.first_turn)).with_turn(seq)
    notes = [Message(Role.USER, _note(config, body))] if config.resolutions else []
    after = before.extended([*notes, *(Message(Role.USER, _text(body(input_, 0))) for input_ in config.inputs)])
    if not config.ephemeral:
        return after
    first = before.count + len(notes)
    places = tuple(first + n for n, input_ in enumerate(config.inputs) if input_ in config.ephemeral)
    return msgspec.structs.replace(after, purge=Purge(before, places))


def _note(config: TurnConfig, body: Body) -> str:
    """What people said meanwhile of earlier calls, which stand in the history as unknown."""
    return "\n".join([RESOLVED, *(f"- {_text(body(seq, 0))}" for seq in config.resolutions)])


def _reply(transcript: Transcript, seq: int, draft: Draft, _body: Body) -> Transcript:
    data = draft.data
    assert isinstance(data, ModelFinished)
    if data.finish not in ANSWERS:
        return transcript
    text = _text(draft.private[0][1])
    if not data.calls:
        return transcript.extended([_kept(data, draft, Message(Role.ASSISTANT, text))]) if text else transcript
    asked = tuple(
        ToolCall(call.tool, arguments, f"c{seq}_{ordinal}")
        for ordinal, (call, arguments) in enumerate(
            zip(data.calls, (value for name, value in draft.private if name == "arguments"), strict=True)
        )
    )
    after = transcript.extended([_kept(data, draft, Message(Role.ASSISTANT, text, _readable(asked)))])
    return msgspec.structs.replace(after, asked=asked)


def _kept(data: ModelFinished, draft: Draft, message: Message) -> Message:
    """With what the provider wants back of its reply, which goes with its whole message: of an erased one, nothing does."""
    if not data.kept_for or any(value is ERASED for _, value in draft.private):
        return message
    private = dict(draft.private)
    thinking, opaque = private.get("thinking", ""), private.get("opaque")
    if not thinking and opaque is None:
        return message
    return msgspec.structs.replace(message, thinking=thinking, opaque=opaque, kept_for=str(data.kept_for))


def _proposed(transcript: Transcript, seq: int, _draft: Draft, _body: Body) -> Transcript:
    """The calls of a reply are proposed in one go and in their order, so the first one's seq tells them all."""
    if transcript.first_call:
        return transcript
    return msgspec.structs.replace(transcript, first_call=seq)


def _result(transcript: Transcript, seq: int, draft: Draft, _body: Body) -> Transcript:
    data = draft.data
    assert isinstance(data, CallFinished)
    if data.status is CallStatus.LOST or data.parent is not None:
        return transcript  # an attempt that is followed by another; a result that only a tool reads
    ordinal = draft.call - transcript.first_call
    if not 0 <= ordinal < len(transcript.asked) or ordinal in transcript.results:
        _log.warning("the result at seq %d is left out: no open call %d asked for it", seq, draft.call)
        return transcript
    asked = transcript.asked[ordinal]
    message = Message(Role.TOOL, _text(draft.private[0][1]), (), asked.id, asked.name)
    if len(transcript.asked) == 1:
        return transcript.extended([message])
    results = {**transcript.results, ordinal: message}
    if len(results) == len(transcript.asked):
        return transcript.extended([results[n] for n in range(len(results))])
    return msgspec.structs.replace(transcript, results=results)


def _ended(transcript: Transcript, _seq: int, _draft: Draft, _body: Body) -> Transcript:
    """A turn that ended between a reply and its calls leaves no call without its result."""
    if transcript.asked:
        transcript = transcript.extended(
            [
                transcript.results.get(n) or Message(Role.TOOL, NOT_RUN, (), asked.id, asked.name)
                for n, asked in enumerate(transcript.asked)
            ]
        )
    if transcript.purge is None:
        return transcript
    before, places = transcript.purge.before, transcript.purge.places
    kept = [transcript.pieces[n] for n in range(before.count, transcript.count) if n not in places]
    purged = Transcript(
        before.pieces[: before.count],
        before.count,
        before.hash,
        before.tokens,
        begins=transcript.begins,
        turns=transcript.turns,
    )
    return purged.extended(kept)


_STEPS: dict[type[EntryData], Callable[[Transcript, int, Draft, Body], Transcript]] = {
    TurnStarted: _inputs,
    ModelFinished: _reply,
    CallProposed: _proposed,
    CallFinished: _result,
    TurnFinished: _ended,
}


TELLING = frozenset(_STEPS)
"""The kinds of entries that change a transcript."""


def _seq(begin: tuple[int, int]) -> int:
    return begin[0]


def _place(begin: tuple[int, int]) -> int:
    return begin[1]


def _text(value: Any) -> str:
    return ERASED_TEXT if value is ERASED else value


def _readable(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(c.name, {} if c.arguments is ERASED else c.arguments, c.id) for c in calls)


def _encode(message: Message) -> bytes:
    try:
        return codec.encode_struct(message)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return codec.encode_body(msgspec.to_builtins(message)).encode()
