"""What may go wrong with an answer, as small values. Several may be given for one request.

    ChatServer(script, faults={1: Status(429, {"Retry-After": "1"}), 2: [Pieces(1), Reset(40)]})

In a script they stand as data, by their names in lower case: `faults: [{fault: reset, after: 40, attempts: 1}]`.

`after` counts bytes of the body; with `of: wire` all bytes that go over the connection, from the first of the head on,
with the frames of chunks. Without it the fault comes behind the whole body, where its end should be. An answer that is
shorter goes out as if there were no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec


class _Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="fault", tag=str.lower, kw_only=True):
    """attempts: only the first so many times that the same body comes; without it each time."""

    attempts: int | None = None


class Status(_Fault, frozen=True):
    """Another status instead of an answer. body: an object, or a text, which goes as HTML unless headers say otherwise;
    by default an error object that fits the status."""

    status: int
    headers: Mapping[str, str] = {}
    body: Any = None


class ContentType(_Fault, frozen=True):
    """The right body under a wrong name."""

    value: str


class NoFinish(_Fault, frozen=True):
    """No finish reason: a stream goes from its last delta to [DONE], a whole answer has null there."""


class NoDone(_Fault, frozen=True):
    """The stream ends without [DONE]."""


class NoIndex(_Fault, frozen=True):
    """The pieces of tool calls do not say which call they belong to."""


class EmptyChoices(_Fault, frozen=True):
    """Chunks with `choices: []` before the first and behind the last one."""


class ErrorObject(_Fault, frozen=True):
    """An error object in a stream behind so many events, which ends it; as a whole answer, under the status 200."""

    after_events: int = 0
    message: str = "The server had an error while processing your request."
    type: str = "server_error"
    code: str | None = None


class BadByte(_Fault, frozen=True):
    """The byte at this place of the body, from 0, is one that no UTF-8 text has."""

    at: int


class Cut(_Fault, frozen=True):
    """The body has only its first `after` bytes, and then ends as properly as a whole one."""

    after: int


class Close(_Fault, frozen=True):
    """The connection ends with a FIN, in the middle of a chunk or of the declared length."""

    after: int | None = None
    of: Literal["body", "wire"] = "body"


class Reset(_Fault, frozen=True):
    """The connection ends with an RST. What was written before has reached the client's machine."""

    after: int | None = None
    of: Literal["body", "wire"] = "body"


class Stall(_Fault, frozen=True):
    """Nothing more comes, until the client leaves or the server is closed."""

    after: int | None = None
    of: Literal["body", "wire"] = "body"


class Pieces(_Fault, frozen=True):
    """Every so many bytes are a write of their own; of the body, each is a chunk of its own too."""

    size: int = 1
    of: Literal["body", "wire"] = "body"


class SlowHead(_Fault, frozen=True):
    """The head comes after before_s seconds, and then one byte each byte_s seconds."""

    before_s: float = 0.0
    byte_s: float = 0.0


WireFault = (
    Status
    | ContentType
    | NoFinish
    | NoDone
    | NoIndex
    | EmptyChoices
    | ErrorObject
    | BadByte
    | Cut
    | Close
    | Reset
    | Stall
    | Pieces
    | SlowHead
)
Break = Close | Reset | Stall

F = TypeVar("F")


def first(faults: tuple[WireFault, ...], kind: type[F]) -> F | None:
    """The first fault of this kind."""
    return next((fault for fault in faults if isinstance(fault, kind)), None)


def break_of(faults: tuple[WireFault, ...]) -> Break | None:
    """What ends the connection, if anything does."""
    return first(faults, Close) or first(faults, Reset) or first(faults, Stall)
