"""Errors as people meet them: one sentence on stderr, and an exit code for programs."""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable
from enum import IntEnum

from agentos.components import Outcome
from agentos.errors import (
    AgentosError,
    ConfigurationError,
    InputRefused,
    ModelError,
    ToolError,
    UnknownAgent,
    UnknownToolbox,
)
from agentos.interfaces.cli.output import say_error

NEAR_MAX = 3


class Exit(IntEnum):
    """What the command's end means; the numbers are part of the interface."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    CONFIGURATION = 3
    PROVIDER = 4
    TOOL = 5
    LIMIT = 6
    REFUSED = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class UsageError(AgentosError):
    """The command was called in a way that makes no sense."""


def report(error: BaseException) -> Exit:
    """Tells the person what went wrong, and gives the exit code."""
    error = _first(error)
    if os.environ.get("AGENTOS_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, (AgentosError, OSError)):
        say_error(sentence(error))
    else:
        text = " ".join(str(error).split())
        say_error(f"a fault of this program: {type(error).__name__}: {text} (AGENTOS_DEBUG=1 shows where)")
    return code_of(error)


def sentence(error: AgentosError | OSError) -> str:
    """What to tell, with near names where there are some."""
    if isinstance(error, UnknownAgent):
        return f"{error}{hint(error.agent, error.known)}"
    if isinstance(error, UnknownToolbox):
        return f"{error}{hint(error.toolbox, error.known)}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def hint(wrong: str, known: Iterable[str]) -> str:
    """A question that names the nearest names, or nothing."""
    near = difflib.get_close_matches(wrong, list(known), NEAR_MAX, 0.6)
    return f". Did you mean {' or '.join(near)}?" if near else ""


def code_of(error: BaseException) -> Exit:
    for type_, code in _CODES:
        if isinstance(error, type_):
            return code
    return Exit.FAILURE


_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (InputRefused, Exit.USAGE),
    (ConfigurationError, Exit.CONFIGURATION),
    (ModelError, Exit.PROVIDER),
    (ToolError, Exit.TOOL),
    (KeyboardInterrupt, Exit.INTERRUPTED),
)


def code_of_outcome(outcome: Outcome, name: str | None) -> Exit:
    """The exit code for the end of a turn."""
    if outcome is Outcome.FAILED and name is not None and name.startswith("model:"):
        return Exit.PROVIDER
    if outcome is Outcome.FAILED and name is not None and name.startswith("tool"):
        return Exit.TOOL
    return _OUTCOMES.get(outcome, Exit.FAILURE)


_OUTCOMES = {
    Outcome.COMPLETED: Exit.OK,
    Outcome.LIMIT: Exit.LIMIT,
    Outcome.TRUNCATED: Exit.LIMIT,
    Outcome.REFUSED: Exit.REFUSED,
    Outcome.DENIED: Exit.REFUSED,
}


def _first(error: BaseException) -> BaseException:
    """The error inside a group of one or more: what a person can do something about goes first."""
    while isinstance(error, BaseExceptionGroup):
        inside = error.exceptions
        error = next((one for one in inside if isinstance(one, AgentosError)), inside[0])
    return error
