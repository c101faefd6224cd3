"""What a toolbox is: a named set of tools with one way to share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from agentos.components import CallStatus, ToolboxSharing, ToolSpec
from agentos.ids import Name
from agentos.ports import CallContext


class Finish(msgspec.Struct, frozen=True):
    """Returned by a tool to end the turn with this value, when every call of the step does."""

    value: Any


class Failed(msgspec.Struct, frozen=True):
    """Returned by a toolbox for a call that did not work out: kind for programs, text for the model."""

    kind: Name
    text: str


class Doubt(msgspec.Struct, frozen=True):
    """What a probe found out about a call after a crash: done, failed, or unknown."""

    status: CallStatus
    text: str


class Toolbox(Protocol):
    """A named set of tools. The kernel opens it once, shares it as `sharing` says, and closes it with its scope."""

    kind: ClassVar[Name]
    name: Name
    sharing: ToolboxSharing
    size: int

    async def open(self) -> None:
        """Gets what it needs. Raises ConfigurationError naming the file or the setting."""

    def tools(self) -> Sequence[ToolSpec]:
        """What it offers now, sorted by name; each names this toolbox."""

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        """Runs one call. Returns any value of section "results", Failed or Finish; may raise anything, which is
        then the failure of this call alone. On cancellation it stops what it started before it lets go."""

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        """What became of the call with this key before a crash; None when the tool cannot tell."""

    async def close(self) -> None: ...
