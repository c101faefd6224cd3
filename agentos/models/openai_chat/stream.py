"""From the chunks of a Chat Completions stream to one reply. Pure; a whole answer is a stream of one chunk."""

from __future__ import annotations

from typing import Any

from agentos.errors import ModelError
from agentos.events.model import Finish, ModelReply, Usage
from agentos.models.base import OnDelta
from agentos.models.openai_chat.call_pieces import CallPieces, text_of
from agentos.models.openai_chat.flavors import Flavor
from agentos.models.text_pieces import TextPieces
from agentos.models.wire_names import WireNames

TOKENS_MAX = 2**53
"""A count above it is a server's mistake, and is taken for none."""

FINISHES = {
    "stop": Finish.STOP,
    "tool_calls": Finish.TOOL_USE,
    "function_call": Finish.TOOL_USE,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
    "refusal": Finish.REFUSAL,
    "sensitive": Finish.REFUSAL,
}
BROKEN = frozenset({"abort", "cancelled", "error", "insufficient_system_resource", "network_error"})
"""Words of servers for an answer that they could not bring to its end."""


class ChatAssembler:
    """Takes chunks in order, tells pieces of text as they come, and gives the reply once the stream is over."""

    def __init__(self, names: WireNames, flavor: Flavor, on_delta: OnDelta) -> None:
        self._names, self._flavor = names, flavor
        self._text, self._refusal, self._thinking = TextPieces(on_delta), TextPieces(on_delta), TextPieces()
        self._calls = CallPieces(names.__contains__)
        self._word = self._model = self._response = ""
        self._usage = Usage()
        self._choice: object = None

    @property
    def finished(self) -> bool:
        """Whether the server has said why it ended; without that, nothing is a whole answer."""
        return bool(self._word)

    @property
    def text_so_far(self) -> str:
        return self._text.so_far or self._refusal.so_far

    def add(self, chunk: dict[str, Any]) -> None:
        """One chunk. Chunks without choices come first and last; of several choices, the first one counts."""
        self._model = self._model or text_of(chunk.get("model"))
        self._response = self._response or text_of(chunk.get("id"))
        self._count(chunk.get("usage"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and self._is_ours(choice.get("index", 0)):
                self._add_choice(choice)

    def reply(self) -> ModelReply:
        """Raises ModelError(cut) when the server has not said that it was done."""
        text, refusal, thinking = self._text.end(), self._refusal.end(), self._thinking.end()
        if not self.finished:
            raise ModelError("cut", "the answer ends without a finish reason", text=text or refusal)
        if self._word in BROKEN:
            raise ModelError("cut", f"the server broke the answer off ({self._word})", text=text or refusal)
        calls = self._calls.calls(self._names.to_own)
        kept = bool(calls and thinking and self._flavor.returns_thinking)
        return ModelReply(
            text=text or refusal,
            calls=calls,
            finish=self._finish(bool(calls), bool(refusal)),
            usage=self._usage,
            thinking=thinking,
            kept_for=self._flavor.family if kept else "",
            model=self._model,
            response=self._response,
            finish_word="" if self._word in FINISHES else self._word,
        )

    def _is_ours(self, index: object) -> bool:
        if self._choice is None:
            self._choice = index
        return index == self._choice

    def _add_choice(self, choice: dict[str, Any]) -> None:
        """A delta, or the whole message of an answer that is no stream. Kimi counts its tokens in here."""
        self._count(choice.get("usage"))
        whole = "delta" not in choice
        said = choice.get("message" if whole else "delta")
        if isinstance(said, dict):
            self._add_said(said, whole)
        word = choice.get("finish_reason")
        self._word = word if isinstance(word, str) and word else self._word

    def _add_said(self, said: dict[str, Any], whole: bool) -> None:
        thinking = said.get("reasoning_content") or said.get("reasoning")  # some send both, saying the same
        self._thinking.add(text_of(thinking))
        self._add_content(said.get("content"))
        self._refusal.add(text_of(said.get("refusal")))
        calls = said.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            self._calls.add(piece, whole=whole)
        if isinstance(said.get("function_call"), dict):  # the form before there were several calls
            self._calls.add({"index": 0, "function": said["function_call"]})

    def _add_content(self, content: object) -> None:
        """A text, or a list of parts that are texts or thinking."""
        if isinstance(content, str):
            self._text.add(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "thinking":
                self._thinking.add("".join(_parts(part.get("thinking"))))
            else:
                self._text.add("".join(_parts(part)))

    def _count(self, usage: object) -> None:
        """The last usage that says something counts: some servers send it with each chunk, growing."""
        if isinstance(usage, dict):
            counted = usage_of(usage)
            self._usage = counted if counted != Usage() else self._usage

    def _finish(self, calls: bool, refused: bool) -> Finish:
        """Calls make it a tool use whatever word the server chose, unless it was cut off or refused."""
        finish = Finish.REFUSAL if refused else FINISHES.get(self._word, Finish.STOP)
        if finish in (Finish.STOP, Finish.TOOL_USE):
            return Finish.TOOL_USE if calls else Finish.STOP
        return finish


def usage_of(usage: dict[str, Any]) -> Usage:
    """The counts of a provider, whichever of the usual spellings it has."""
    asked, answered = _details(usage, "prompt_tokens_details"), _details(usage, "completion_tokens_details")
    input_, output = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    thinking = _tokens(answered, "reasoning_tokens") or _tokens(usage, "reasoning_tokens")
    if thinking and _tokens(usage, "total_tokens") == input_ + output + thinking:
        output += thinking  # this server counts thinking beside the answer
    return Usage(
        input_tokens=input_,
        output_tokens=output,
        cached_tokens=_tokens(asked, "cached_tokens") or _tokens(usage, "cached_tokens", "prompt_cache_hit_tokens"),
        cache_write_tokens=_tokens(asked, "cache_write_tokens", "cache_creation_tokens")
        or _tokens(usage, "cache_creation_input_tokens"),
        thinking_tokens=thinking,
    )


def _details(usage: dict[str, Any], name: str) -> dict[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def _tokens(counts: dict[str, Any], *names: str) -> int:
    for name in names:
        value = counts.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= TOKENS_MAX:
            return int(value)
    return 0


def _parts(value: object, depth: int = 3) -> list[str]:
    """The texts in a text, in a part, or in a list of parts, which no server nests any deeper."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [value.get("text")]
    inside = value if isinstance(value, list) and depth else []
    return [text for part in inside for text in _parts(part, depth - 1)]
