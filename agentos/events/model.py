"""The neutral form of what goes to a model and what comes back; adapters turn it into a provider's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.components import AgentContext, Word
from agentos.ids import Digest, LogId


class Role(Word):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Finish(Word):
    """Why a reply ended. The last four are no answers: no call of such a reply is run."""

    STOP = "stop"
    TOOL_USE = "tool_use"
    LENGTH = "length"
    REFUSAL = "refusal"
    EMPTY = "empty"
    ERROR = "error"
    LOST = "lost"
    CANCELLED = "cancelled"


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call that a model asks for.

    arguments is the decoded object, or the raw text when it was no JSON object; the gate then refuses the call.
    id pairs a call with its result within a request; in a reply it is the provider's own.
    """

    name: str
    arguments: Any = {}
    id: str = ""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of a request. A tool message carries the id and name of the call that it answers.

    thinking and opaque stand on an assistant message only when kept_for names who has to get them back; see ModelReply.
    """

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    thinking: str = ""
    opaque: Any = None
    kept_for: str = ""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens as the provider counted them.

    Input includes what was read from its cache (cached) and written to it (cache_write); output includes thinking.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """One model call, whole: the pinned context gives model, prompt and tools, messages the projected history.

    conversation, step_index and attempt say where it stands; digest is what model.requested recorded.
    """

    context: AgentContext
    messages: Sequence[Message]
    conversation: LogId
    digest: Digest
    turn: int = 0
    step_index: int = 0
    attempt: int = 1


class ModelReply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A whole answer. A cut stream is never one: the adapter raises ModelError(kind="cut", text=...) instead.

    opaque is what a provider wants back verbatim (JSON): signed thinking, encrypted reasoning items, thought signatures.
    kept_for names the family of adapters whose later requests hold thinking and opaque of this reply; all others leave
    them out, and when it is empty they are in the log alone. Both go with the message of the reply or not at all.
    model and response are the provider's own names of the model that answered and of its answer. finish_word is its word
    for the finish where that is none that the adapter knows.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = Finish.STOP
    usage: Usage = Usage()
    thinking: str = ""
    opaque: Any = None
    kept_for: str = ""
    model: str = ""
    response: str = ""
    finish_word: str = ""


class ModelDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of text while a model answers. Never stored; void once the model.finished after base_seq is seen.

    base_seq is the seq of the model.requested it answers, index counts deltas of that attempt from 0.
    """

    log: LogId
    base_seq: int
    attempt: int
    index: int
    text: str
