"""The transcript from the stored entries that tell it, made in one go: of their heads only what it reads is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from agentos.components import Component, ContextWindow, TurnConfig
from agentos.errors import CodecError
from agentos.events.entry import Draft, decode_private, private_values
from agentos.events.kinds import CallResolved, EntryData, InputReceived, TurnFinished, TurnStarted
from agentos.persistence.base import StoredEntry
from agentos.world import Transcript
from agentos.world.transcript import TELLING, advance, empty

D = TypeVar("D", bound=EntryData)

TAKEN = frozenset({InputReceived.kind, CallResolved.kind})
"""The kinds of entries whose bodies a turn takes when it begins: inputs and notes."""
KINDS = TAKEN | {type_.kind for type_ in TELLING}
"""The kinds of entries that a transcript is made from."""


class MissingEntry(LookupError):
    """An entry is not there that another one rests on."""

    def __init__(self, seq: int, needed_by: str) -> None:
        self.seq = seq
        super().__init__(f"the entry at seq {seq} is missing: {needed_by}")


class _Said(msgspec.Struct, Generic[D], gc=False):
    """Of a head, what a transcript reads."""

    data: D
    call: int = 0
    commitments: Sequence[tuple[str, msgspec.Raw]] = ()


class _Begun(msgspec.Struct, gc=False):
    """Of the head of a turn.started, its changes."""

    changes: Sequence[tuple[int, str, msgspec.Raw]] = ()


def transcript_of(told: Iterable[StoredEntry], first_turn: int = 0) -> Transcript:
    """The transcript after entries of KINDS, in order; first_turn is the seq of the turn at which the window begins, 0
    for the beginning. Of the entries before it, it takes what it began with.

    Errors: CodecError for what cannot be read; MissingEntry for an input that a turn takes and that is not there.
    """
    transcript = empty()
    taken: dict[int, StoredEntry] = {}

    def body(seq: int, i: int) -> Any:
        if seq not in taken:
            raise MissingEntry(seq, "a turn takes what it holds")
        return private_of(taken[seq])[i][1]

    for stored in told:
        if stored.kind in TAKEN:
            taken[stored.seq] = stored
        elif stored.seq >= first_turn:
            transcript = advance(transcript, stored.seq, _draft_of(stored), body)
    return transcript


def taken_by(stored: StoredEntry) -> tuple[int, ...]:
    """The seqs of the inputs and notes that a turn takes, from its turn.started. Raises CodecError."""
    for _, value in _draft_of(stored).changes:
        if isinstance(value, TurnConfig):
            return (*value.inputs, *value.resolutions)
    raise CodecError(f"the head at seq {stored.seq} begins no turn")


def private_of(stored: StoredEntry) -> tuple[tuple[str, Any], ...]:
    """The private values of an entry, by name and in order. Raises CodecError."""
    return decode_private(stored.head, bodies_in(stored))


def bodies_in(stored: StoredEntry) -> dict[int, str | None]:
    return {i: body for i, _, _, body in stored.payloads}


def _draft_of(stored: StoredEntry) -> Draft:
    """As much of an entry as a transcript reads."""
    try:
        return _READ[stored.kind](stored)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CodecError(f"the head at seq {stored.seq} is not that of a {stored.kind}: {error}") from error


def _turn_started(stored: StoredEntry) -> Draft:
    changes = tuple(
        (entity, _COMPONENTS[name].decode(value))
        for entity, name, value in _BEGUN.decode(stored.head).changes
        if name in _COMPONENTS
    )
    return Draft(data=TurnStarted(), turn=stored.seq, changes=changes)


def _turn_finished(_: StoredEntry) -> Draft:
    return Draft(data=TurnFinished())


def _reader(type_: type[D]) -> Callable[[StoredEntry], Draft]:
    decode = msgspec.json.Decoder(_Said[type_]).decode  # type: ignore[valid-type]

    def read(stored: StoredEntry) -> Draft:
        said = decode(stored.head)
        private = private_values([name for name, _ in said.commitments], bodies_in(stored))
        return Draft(data=said.data, call=said.call, private=private)

    return read


_BEGUN = msgspec.json.Decoder(_Begun)
_COMPONENTS: dict[str, msgspec.json.Decoder[Component]] = {
    type_.component: msgspec.json.Decoder(type_) for type_ in (TurnConfig, ContextWindow)
}
_READ: dict[str, Callable[[StoredEntry], Draft]] = {
    **{type_.kind: _reader(type_) for type_ in TELLING},
    TurnStarted.kind: _turn_started,
    TurnFinished.kind: _turn_finished,
}
