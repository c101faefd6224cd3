"""What a scripted model is told to answer, as data.

A script is a list of steps for every agent, or a mapping from an agent's slug to its list ("*" stands for all others).

    - text: "Looking, {input}."          a reply; {input} is the last message of a user, {results} the last results
      calls:
        - {tool: search, arguments: {pattern: "{input}"}}
      usage: {input_tokens: 10, output_tokens: 3}
      delay_s: 0.2                       before it answers
      deltas: ["Looking", ", ..."]       the pieces that the text comes in; all at once by default
    - fault: {kind: overloaded, retry_after_s: 1, attempts: 1}
      text: "There you are."             after the first attempt, which fails

In a list without any `when`, reply number n of a conversation is step n. As soon as one step has a `when`, the list is
one of rules: the first step whose `when` fits answers, one without `when` fits always.

      when: {last_role: user, last_contains: "hello", step: 0}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec
import yaml

from agentos.errors import ConfigurationError
from agentos.events.model import Finish, ModelRequest, Role, Usage

FILE_BYTES_MAX = 4 * 1024 * 1024
ALL_AGENTS = "*"
Script = Mapping[str, tuple["Step", ...]]


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """arguments may be any text instead of an object, as a model may send what is no JSON."""

    tool: str
    arguments: Any = {}
    id: str = ""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attempt fails with a ModelError of this kind, after text had come. attempts: only the first so many."""

    kind: str
    retry_after_s: float | None = None
    text: str = ""
    attempts: int | None = None


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fits a request by its last message, and by the number of the step within the turn, from 0."""

    last_role: Role | None = None
    last_contains: str | None = None
    step: int | None = None

    def fits(self, request: ModelRequest) -> bool:
        last = request.messages[-1] if request.messages else None
        return (
            (self.step is None or self.step == request.step_index)
            and (self.last_role is None or (last is not None and last.role is self.last_role))
            and (self.last_contains is None or (last is not None and self.last_contains in last.text))
        )


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reply, or one fault, or both in turn."""

    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    finish: Finish | None = None
    usage: Usage | None = None
    delay_s: float = 0.0
    deltas: tuple[str, ...] = ()
    fault: Fault | None = None
    when: When | None = None


def script_of(data: object, place: str = "script", step: type[Step] = Step) -> Script:
    """Reads a script, each step as one of that type. Raises ConfigurationError naming the place and the key."""
    lists = data if isinstance(data, Mapping) else {ALL_AGENTS: data}
    script: dict[str, tuple[Step, ...]] = {}
    for slug, steps in lists.items():
        where = place if slug == ALL_AGENTS else f"{place}: {slug}"
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise ConfigurationError(f"{where}: a list of steps is needed, not {type(steps).__name__}")
        try:
            script[str(slug)] = msgspec.convert(list(steps), GenericAlias(tuple, (step, ...)))
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{where}: {error}") from error
    return script


def load_script(path: Path, step: type[Step] = Step) -> Script:
    """Reads a script from a YAML or JSON file. Raises ConfigurationError naming the file, and line or key."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: the script cannot be read: {error}") from error
    if len(text) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path}: a script of over {FILE_BYTES_MAX:,} characters")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ConfigurationError(f"{path}{line}: {getattr(error, 'problem', None) or error}") from error
    return script_of(data, str(path), step)


def step_of(script: Script, request: ModelRequest) -> tuple[int, Step | None]:
    """The number of the step that answers a request, from 1, and the step; None when the script holds none for it."""
    steps = script.get(request.context.slug, script.get(ALL_AGENTS, ()))
    if any(step.when is not None for step in steps):
        fitting = ((n, step) for n, step in enumerate(steps, 1) if step.when is None or step.when.fits(request))
        return next(fitting, (0, None))
    number = 1 + sum(message.role is Role.ASSISTANT for message in request.messages)
    return number, steps[number - 1] if number <= len(steps) else None


def filled(template: Any, request: ModelRequest) -> Any:
    """Text, or a list or object of texts, with {input} and {results} filled in."""
    if isinstance(template, str):
        return _HOLE.sub(lambda hole: _HOLES[hole[1]](request), template) if "{" in template else template
    if isinstance(template, list):
        return [filled(item, request) for item in template]
    if isinstance(template, dict):
        return {key: filled(item, request) for key, item in template.items()}
    return template


def last_input(request: ModelRequest) -> str:
    """The text of the user's messages that this turn began with, joined by newlines."""
    texts: list[str] = []
    for message in reversed(request.messages):
        if message.role is Role.USER:
            texts.append(message.text)
        elif texts:
            break
    return "\n".join(reversed(texts))


def last_results(request: ModelRequest) -> str:
    """The results that stand after the last reply, joined by newlines."""
    texts: list[str] = []
    for message in reversed(request.messages):
        if message.role is not Role.TOOL:
            break
        texts.append(message.text)
    return "\n".join(reversed(texts))


_HOLE = re.compile(r"\{(input|results)\}")
_HOLES = {"input": last_input, "results": last_results}
