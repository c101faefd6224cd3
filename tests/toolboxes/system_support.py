"""What the tests of the system toolbox share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentos.ids import Name
from agentos.resources.folders.file_sandbox import FileSandbox
from agentos.toolboxes.system import SystemToolbox


@asynccontextmanager
async def opened(root: Path, *capabilities: str, **more: Any) -> AsyncIterator[SystemToolbox]:
    toolbox = SystemToolbox("sys", capabilities=capabilities, cwd=root, **more)
    await toolbox.open()
    try:
        yield toolbox
    finally:
        await toolbox.close()


async def ask(toolbox: SystemToolbox, capability: str, **arguments: Any) -> Any:
    name = Name("sys_" + capability.replace("-", "_"))
    return await toolbox.call(name, arguments, None)  # type: ignore[arg-type]


def everything(root: Path, **more: Any) -> FileSandbox:
    return FileSandbox.from_data({"fsbPredicate": {"tag": "AlwaysAllow"}, **more}, root)
