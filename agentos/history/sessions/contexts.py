"""The contexts that imported turns pin: the prompt, the tools and the model as the session tells them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agentos.components import AgentContext, ModelRef, ToolSpec, TurnLimits
from agentos.governance.schema import problem_of_schema, problems_of
from agentos.history.sessions.model import Call, ModelTurn, Session, Tool, Turn, UserTurn
from agentos.ids import Digest, Name, agent_id, name_of

MODEL_KIND = "imported"
"""The kind of a model that answered elsewhere; no adapter is of this kind, so that nothing asks it again."""
UNPARSED = "unparsed_arguments"
"""The only key of arguments that were no JSON object, with the text that stood in their place."""
NO_BOUND = 2**62
ANYTHING: dict[str, Any] = {"type": "object"}
LIMITS = TurnLimits(
    step_limit=None, call_limit=None, context_tokens=NO_BOUND, unknown_tool_limit=NO_BOUND, model_attempts_max=1
)
"""What was done is not cut off by a limit."""


class Contexts:
    """Makes the contexts of one session. lenient are the tools whose schemas are left out, since recorded calls break them
    or since they are none."""

    def __init__(self, session: Session, slug: str, rules: Digest) -> None:
        self._slug, self._rules = Name(slug), rules
        self._calls = _by_tool(session.turns)
        self._specs: dict[str, ToolSpec] = {}
        self._made_before: dict[tuple[object, ...], AgentContext] = {}
        self.lenient: set[str] = set()

    def of(self, turns: Sequence[Turn]) -> AgentContext:
        """Of turns that belong together: the prompt of the first, all tools that any of them offered. What comes to the same
        is the same object."""
        told = [turn for turn in turns if isinstance(turn, UserTurn)]
        answered = [turn for turn in turns if isinstance(turn, ModelTurn)]
        prompt = next((turn.prompt for turn in told if turn.prompt), "")
        offered = {name_of(tool.name): self._spec(tool) for turn in told for tool in turn.tools}
        asked = {name_of(call.name) for turn in answered for call in turn.calls}
        hidden = {name: _undeclared(name) for name in asked - offered.keys()}
        model = next((turn.model for turn in answered if turn.model), "")
        made_of = (prompt, model, tuple(sorted(hidden)), *(id(offered[name]) for name in sorted(offered)))
        if made_of not in self._made_before:
            self._made_before[made_of] = self._made_of(prompt, model, offered, hidden)
        return self._made_before[made_of]

    def _made_of(
        self, prompt: str, model: str, offered: Mapping[Name, ToolSpec], hidden: Mapping[Name, ToolSpec]
    ) -> AgentContext:
        return AgentContext(
            agent=agent_id(self._slug),
            slug=self._slug,
            prompt=(prompt,) if prompt else (),
            model=ModelRef(kind=MODEL_KIND, name=model),
            limits=LIMITS,
            tools=tuple(offered[name] for name in sorted(offered)),
            hidden=tuple(hidden[name] for name in sorted(hidden)),
            granted=tuple(sorted({*offered, *hidden})),
            rules=self._rules,
        )

    def _spec(self, tool: Tool) -> ToolSpec:
        """Made once: a session repeats its tools in every turn."""
        key = json.dumps(msgspec.to_builtins(tool))  # escaped, so that every text has a form
        if key not in self._specs:
            self._specs[key] = self._made(tool)
        return self._specs[key]

    def _made(self, tool: Tool) -> ToolSpec:
        name = name_of(tool.name)
        spec = ToolSpec(name=name, description=tool.description, schema=tool.schema or ANYTHING)
        if tool.schema is not None and not _holds(spec, self._calls.get(tool.name, ())):
            self.lenient.add(tool.name)
            return msgspec.structs.replace(spec, schema=ANYTHING)
        return spec


def as_object(arguments: Any) -> dict[str, Any]:
    """Arguments as a conversation of ours keeps them: what is no object stands in one."""
    return arguments if isinstance(arguments, dict) else {UNPARSED: arguments}


def _holds(spec: ToolSpec, calls: Iterable[Call]) -> bool:
    """Whether the schema is one, and every recorded call fits it."""
    if problem_of_schema(spec.schema) is not None:
        return False
    return not any(problems_of(spec, as_object(call.arguments)) for call in calls)


def _undeclared(name: Name) -> ToolSpec:
    return ToolSpec(name=name, description="called, though it was not offered", schema=ANYTHING)


def _by_tool(turns: Iterable[Turn]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for turn in turns:
        for call in turn.calls if isinstance(turn, ModelTurn) else ():
            found.setdefault(call.name, []).append(call)
    return found
