"""The processes below a test, but for those that were there before it, as the test server of a whole session."""

from __future__ import annotations

from collections.abc import Collection

import psutil

from agentos.resources.process.warden import WARDEN


def own_children() -> list[psutil.Process]:
    """Those that this process started or adopted, but for the warden of its families, which lives as long as any may."""
    return [child for child in psutil.Process().children() if child.pid != WARDEN.pid]


def new_processes(before: Collection[psutil.Process]) -> list[psutil.Process]:
    """Children that are not among those, with all below them."""
    new = [child for child in own_children() if child not in before]
    return [*new, *(below for child in new for below in child.children(recursive=True))]
