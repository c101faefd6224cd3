"""What a delegation leaves of the tools of the agent that it asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from agentos.components import AgentContext, Narrowing, ToolSpec


def narrowed(context: AgentContext, narrowings: Iterable[Narrowing]) -> AgentContext:
    """The context with the tools that every narrowing leaves; none of them ever adds one.

    A tool that is not shown any more is hidden, and still known: a call of it is refused as not granted. Tools by which
    the agent asks others are tools like all: who may still be asked is told by name, and what these may do is theirs.
    """
    for narrowing in narrowings:
        context = _narrowed(context, narrowing)
    return context


def _narrowed(context: AgentContext, narrowing: Narrowing) -> AgentContext:
    seen, used = (
        _any_of(chosen if chosen is not None else other or ())
        for chosen, other in ((narrowing.expose, narrowing.grant), (narrowing.grant, narrowing.expose))
    )
    hidden = [*context.hidden, *(tool for tool in context.tools if not seen(tool.name))]
    return msgspec.structs.replace(
        context,
        tools=tuple(tool for tool in context.tools if seen(tool.name)),
        hidden=tuple(sorted(hidden, key=_by_name)),
        granted=tuple(name for name in context.granted if used(name)),
    )


def fits(pattern: str, name: str) -> bool:
    """Whether a name is the one that a pattern tells: `*` is any text, also none, and `?` any one character."""
    return _any_of((pattern,))(name)


def is_plain(pattern: str) -> bool:
    """Whether it names one tool."""
    return not set("*?") & set(pattern)


def _any_of(patterns: Sequence[str]) -> Callable[[str], bool]:
    parts = {"*": ".*", "?": "."}
    found = re.compile("|".join("".join(parts.get(letter, re.escape(letter)) for letter in p) for p in patterns))
    return (lambda name: found.fullmatch(name) is not None) if patterns else (lambda name: False)


def _by_name(tool: ToolSpec) -> str:
    return tool.name
