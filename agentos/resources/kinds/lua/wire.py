"""What a worker process and the kernel say to each other: one line of JSON a message.

    kernel  Script          what to run; it is answered by any number of printed and call, then by ended
    worker  ready           once, when it can take a script
    worker  printed         a piece of what the script prints
    worker  call            the script calls a tool; answered by one Reply
    worker  ended           how the script ended

A worker is not trusted: a line that is none of these, or too long, is its end.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """script is the text to run, now_s the time that it begins at, in seconds since 1970; fresh: in a new state.

    ticks: whether the time that a script is told goes on while it runs, as that of a machine does; else it stands until a
    Reply says another.
    """

    script: str
    now_s: float
    time_s: float
    fresh: bool = False
    ticks: bool = True


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a script is told of a call of its own.

    status is ok, error, not-found or not-allowed; result_txt the text of the result, or why there is none; duration in
    seconds; trace_id and outcome are the id and the status of the call, kind says more about one that failed. now_s: the
    time of a clock that does not tick by itself.
    """

    status: str
    result_txt: str
    duration: float = 0.0
    trace_id: str | None = None
    outcome: str | None = None
    kind: str | None = None
    now_s: float | None = None


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    pass


class Printed(msgspec.Struct, frozen=True, tag="printed"):
    text: str


class Call(msgspec.Struct, frozen=True, tag="call"):
    tool: str
    arguments: dict[str, Any]


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """How a script ended.

    kind is done, or syntax, raised or memory, and then text says why, with the line. memory_bytes is what its state takes
    afterwards, printed_bytes all that it printed.
    """

    kind: str
    text: str
    memory_bytes: int
    printed_bytes: int
    values: list[Any] = []


Heard = Ready | Printed | Call | Ended
_DECODER: msgspec.json.Decoder[Heard] = msgspec.json.Decoder(Heard)


def heard(line: bytes) -> Heard | None:
    """The message of a line; None when it is none."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def said(message: Script | Reply) -> bytes:
    """The line of a message. Half a surrogate pair becomes a question mark: Lua knows UTF-8 alone."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        fields = {name: _whole(value) for name, value in msgspec.structs.asdict(message).items()}
        return msgspec.json.encode(msgspec.structs.replace(message, **fields)) + b"\n"


def _whole(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
