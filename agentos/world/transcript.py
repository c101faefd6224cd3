"""The transcript: the messages of the present context window, encoded once, with a digest that grows with them.

It is derived: the fold of a conversation's entries and bodies. A pass extends its own copy in O(new), since the pieces
of earlier turns are shared and never change.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, overload

import msgspec

from agentos import codec
from agentos.components import CallStatus, TurnConfig
from agentos.events.entry import ERASED, Body, Draft
from agentos.events.kinds import CallFinished, CallProposed, ModelFinished, TurnFinished, TurnStarted
from agentos.events.model import Finish, Message, Role, ToolCall

_log = logging.getLogger(__name__)

ANSWERS = frozenset({Finish.STOP, Finish.TOOL_USE, Finish.LENGTH, Finish.REFUSAL})
"""Replies that belong to the history; a lost, cut or cancelled one is only in the log."""

NOT_RUN = "not run: the turn had ended"
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
    hash chains the digests of the pieces; tokens estimates their size, at four bytes each. asked are the calls of the
    last reply whose results are not in yet; first_call is the seq of the first of them, and results holds what came, by
    ordinal. purge says which pieces leave with the turn.
    """

    pieces: list[Message]
    count: int
    hash: bytes
    tokens: int = 0
    purge: Purge | None = None
    asked: tuple[ToolCall, ...] = ()
    first_call: int = 0
    results: dict[int, Message] = {}

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
        return Transcript(pieces, len(pieces), hash_, tokens, self.purge)


EMPTY = hashlib.sha256(b"agentos transcript").digest()


def empty() -> Transcript:
    return Transcript([], 0, EMPTY)


def advance(transcript: Transcript, seq: int, draft: Draft, body: Body) -> Transcript:
    """The transcript after this entry; body gives the private values of earlier ones."""
    step = _STEPS.get(type(draft.data))
    return step(transcript, seq, draft, body) if step else transcript


def _inputs(transcript: Transcript, _seq: int, draft: Draft, body: Body) -> Transcript:
    config = next(value for _, value in draft.changes if type(value) is TurnConfig)
    after = transcript.extended([Message(Role.USER, _text(body(seq, 0))) for seq in config.inputs])
    if not config.ephemeral:
        return after
    places = tuple(transcript.count + n for n, seq in enumerate(config.inputs) if seq in config.ephemeral)
    return msgspec.structs.replace(after, purge=Purge(transcript, places))


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
    return Transcript(before.pieces[: before.count], before.count, before.hash, before.tokens).extended(kept)


_STEPS: dict[type, Callable[[Transcript, int, Draft, Body], Transcript]] = {
    TurnStarted: _inputs,
    ModelFinished: _reply,
    CallProposed: _proposed,
    CallFinished: _result,
    TurnFinished: _ended,
}


TELLING = frozenset(_STEPS)
"""The kinds of entries that change a transcript."""


def _text(value: Any) -> str:
    return ERASED_TEXT if value is ERASED else value


def _readable(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(c.name, {} if c.arguments is ERASED else c.arguments, c.id) for c in calls)


def _encode(message: Message) -> bytes:
    try:
        return codec.encode_struct(message)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return codec.encode_body(msgspec.to_builtins(message)).encode()
