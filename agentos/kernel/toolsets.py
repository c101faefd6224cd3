"""What tells one version of a toolbox from another, and what the World says of one."""

from __future__ import annotations

import msgspec

from agentos.components import ToolboxState, ToolboxStatus
from agentos.toolboxes.base import Toolbox, content_of, problems_of, unavailable_of

PROBLEM_CHARS_MAX = 2_000
"""How much the World tells of what could not be loaded of a toolbox."""


def toolset_of(toolbox: Toolbox) -> dict[str, object]:
    """A version: the tools as they describe themselves, how they are shared, and the digest of the files behind them,
    where the kind tells one."""
    return {
        "kind": toolbox.kind,
        "sharing": toolbox.sharing.value,
        "size": toolbox.size,
        "tools": msgspec.to_builtins([*toolbox.tools()]),
        "content": content_of(toolbox),
    }


def state_of(toolbox: Toolbox) -> ToolboxState:
    """An open toolbox, or one in state error."""
    unavailable = unavailable_of(toolbox)
    problem = unavailable or "; ".join(f"{problem.place}: {problem.reason}" for problem in problems_of(toolbox))
    return ToolboxState(
        status=ToolboxStatus.ERROR if unavailable else ToolboxStatus.READY,
        tools=len(toolbox.tools()),
        problem=problem[:PROBLEM_CHARS_MAX],
    )
