"""A toolbox that cannot be used, in place of the one that was asked for: it has no tools, and says why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentos.components import ToolboxSharing, ToolSpec
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.toolboxes.base import Doubt, Failed


class UnavailableToolbox:
    """Stands for a toolbox of a kind that is not in this version, or of files that are not there.

    unavailable is the reason, in one sentence without a stop at its end. Opening it never fails.
    """

    def __init__(self, name: str, kind: str, reason: str) -> None:
        self.name, self.kind, self.unavailable = Name(name), Name(kind), reason
        self.sharing, self.size = ToolboxSharing.STATELESS, 0

    async def open(self) -> None:
        return None

    def tools(self) -> Sequence[ToolSpec]:
        return ()

    async def call(self, tool: Name, arguments: dict[str, Any], context: CallContext) -> object:
        """Reached only by a call that was decided while the toolbox could still be used."""
        return Failed(Name("unavailable"), f"toolbox {self.name}: {self.unavailable}")

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return None

    async def close(self) -> None:
        return None
