"""How servers of the Chat Completions API differ: one record for each flavor that agent files may name."""

from __future__ import annotations

import difflib
from typing import Literal

import msgspec

from agentos.errors import ConfigurationError


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    """name is that of agents-exe; aliases are compared without case, dashes and underscores.

    cache_key: takes prompt_cache_key. usage_option: has to be told to send its usage at the end of a stream.
    forced_word says "some tool has to be called". seed_name and limit_name are its names of those options.
    thinking says how it is told to think: an effort, on or off, or a budget in tokens. thinks_by_default is the budget
    that it is given when the agent says nothing. returns_thinking: wants its thinking back with its earlier messages.
    parallel: what is sent of parallel tool calls when the agent says nothing. short_ids: ids of calls have exactly nine
    letters or digits. answers_results: wants an answer of its own between the results of calls and the next user message.
    """

    name: str
    aliases: tuple[str, ...]
    cache_key: bool = False
    usage_option: bool = True
    forced_word: str = "required"
    seed_name: str = "seed"
    limit_name: str = "max_tokens"
    thinking: Literal["effort", "switch", "budget", "none"] = "effort"
    thinks_by_default: int | None = None
    returns_thinking: bool = False
    tool_choice: str | None = None
    parallel: bool | None = None
    short_ids: bool = False
    answers_results: bool = False

    @property
    def family(self) -> str:
        """Who gets back what a reply of this flavor keeps."""
        return f"chat:{self.name}"


OPENAI = Flavor(name="OpenAIv1", aliases=("openai", "ollama", "compatible"), cache_key=True)
FLAVORS = (
    OPENAI,
    Flavor(
        name="MistralV1",
        aliases=("mistral",),
        usage_option=False,
        forced_word="any",
        seed_name="random_seed",
        thinking="none",
        tool_choice="auto",
        parallel=True,
        short_ids=True,
        answers_results=True,
    ),
    Flavor(name="KimiV1", aliases=("kimi", "moonshot"), cache_key=True, thinking="switch", returns_thinking=True),
    Flavor(name="ClaudeV1", aliases=("claude",), thinking="budget", thinks_by_default=10_000),
)


def flavor_of(name: str | None) -> Flavor:
    """The flavor of this name or alias, OpenAIv1 when none is said. Raises ConfigurationError with near names."""
    if name is None:
        return OPENAI
    found = _BY_NAME.get(_plain(name))
    if found is None:
        known = [flavor.name for flavor in FLAVORS]
        near = difflib.get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {near[0]}? There are" if near else "there are"
        raise ConfigurationError(f"no flavor is called {name!r}; {hint} {', '.join(known)}")
    return found


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


_BY_NAME = {_plain(name): flavor for flavor in FLAVORS for name in (flavor.name, *flavor.aliases)}
