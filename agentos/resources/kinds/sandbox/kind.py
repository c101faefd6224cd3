"""The kind `sandbox`: many calls that read a directory, or one that writes; it is a conversation's unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path

from agentos.components import Pattern
from agentos.errors import ResourceBroken
from agentos.resources.borrowing import Factory, Takes
from agentos.resources.finishing import finish
from agentos.resources.folders.held import PREFIX, HeldFolder, in_thread
from agentos.resources.kinds.sandbox.directory import SandboxDirectory
from agentos.resources.kinds.sandbox.limits import SandboxLimits
from agentos.resources.registry import ResourceKind
from agentos.resources.scope import Level

KIND = "sandbox"


def sandbox_directory(
    path: str | os.PathLike[str] | None = None,
    *,
    parent: str | os.PathLike[str] | None = None,
    prefix: str = PREFIX,
    limits: SandboxLimits | None = None,
) -> Factory[SandboxDirectory]:
    """How one is opened at path, to stay there afterwards; or made below parent, to be removed with all that is in it.

    Making it raises ResourceBroken when the folder cannot be opened or made.
    """

    async def make() -> SandboxDirectory:
        if path is not None:
            return await _measured(SandboxDirectory(_held(Path(path), None, prefix), limits))
        return SandboxDirectory(_held(None, Path(parent) if parent is not None else None, prefix), limits)

    return Factory(
        make=make,
        close=SandboxDirectory.close,
        check=lambda directory: not directory.why_unsound(),
        takes=lambda directory: Takes(path=str(directory.path), bytes=directory.usage.bytes),
    )


def _held(path: Path | None, parent: Path | None, prefix: str) -> HeldFolder:
    try:
        return HeldFolder.given(path) if path is not None else HeldFolder.new(parent, prefix)
    except OSError as error:
        what = f"folder {path} cannot be opened" if path is not None else f"no folder can be made in {parent}"
        raise ResourceBroken(KIND, 1, f"{what}: {error.strerror}") from error


async def _measured(directory: SandboxDirectory) -> SandboxDirectory:
    """The thread that measures is waited for also when we are cancelled: it reads what would be closed."""
    failure, cancelled = await finish(in_thread(directory.measure), None)
    error = cancelled or failure
    if error is None:
        return directory
    await directory.close()
    raise error


SANDBOX = ResourceKind(name=KIND, factory=sandbox_directory, pattern=Pattern.READ_WRITE, level=Level.CONVERSATION)
