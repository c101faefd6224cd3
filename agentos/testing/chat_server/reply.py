"""What the server is asked and what it answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from agentos.events.model import Finish
from agentos.models.script import ScriptedCall, Step
from agentos.testing.chat_server.faults import WireFault

FINISH_REASONS = {
    Finish.STOP: "stop",
    Finish.TOOL_USE: "tool_calls",
    Finish.LENGTH: "length",
    Finish.REFUSAL: "content_filter",
}
FAULT_KINDS = (
    "rate_limit",
    "overloaded",
    "network",
    "timeout",
    "auth",
    "invalid_request",
    "context",
    "cut",
    "quota",
    "unavailable",
)
"""Those of ModelError."""


class ChatCall(ScriptedCall, frozen=True, forbid_unknown_fields=True):
    """A call of a tool. fragments: the pieces that the text of its arguments comes in, instead of `arguments`."""

    fragments: tuple[str, ...] = ()


class ChatReply(Step, frozen=True, forbid_unknown_fields=True):
    """One answer: a step of a script (see `agentos.models.script`), with what this API alone can say.

    thinking goes as reasoning_content, thinking_deltas are its pieces. finish_reason is any word instead of that of
    `finish`. delta_delay_s passes before each event but the first. headers are added to those of the answer.

    events, when there are any, are the whole stream: objects go as one event each, texts as they are, byte by byte.
    `fault` is one of FAULT_KINDS, told in this API's way; `faults` are those of `agentos.testing.chat_server.faults`.
    """

    calls: tuple[ChatCall, ...] = ()
    thinking: str = ""
    thinking_deltas: tuple[str, ...] = ()
    refusal: str = ""
    finish_reason: str | None = None
    delta_delay_s: float = 0.0
    headers: Mapping[str, str] = {}
    events: tuple[Any, ...] = ()
    faults: tuple[WireFault, ...] = ()

    def __post_init__(self) -> None:
        if self.finish is not None and self.finish not in FINISH_REASONS:
            raise ValueError(f"no provider says finish {self.finish.value!r}; use finish_reason for a word of its own")
        if self.fault is not None and self.fault.kind not in FAULT_KINDS:
            raise ValueError(f"no fault is of kind {self.fault.kind!r}; there are {', '.join(FAULT_KINDS)}")


class ChatRequest(msgspec.Struct, frozen=True):
    """One request for a completion, as it came.

    number counts them from 1, attempt how often this very body has come, from 1. headers have names in lower case and
    lack `authorization`. problems are what the validator said.
    """

    number: int
    body: Any
    headers: Mapping[str, str] = {}
    attempt: int = 1
    problems: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        return str(self.body.get("model", "")) if isinstance(self.body, dict) else ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", ())) if isinstance(self.body, dict) else []

    @property
    def stream(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        return self.stream and (self.body.get("stream_options") or {}).get("include_usage") is True

    @property
    def choices(self) -> int:
        return self.body.get("n") or 1
