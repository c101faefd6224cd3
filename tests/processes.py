"""The processes below a test, but for those that were there before it, as the test server of a whole session."""

from __future__ import annotations

from collections.abc import Collection

import psutil


def own_children() -> list[psutil.Process]:
    return psutil.Process().children()


def new_processes(before: Collection[psutil.Process]) -> list[psutil.Process]:
    """Children that are not among those, with all below them."""
    new = [child for child in own_children() if child not in before]
    return [*new, *(below for child in new for below in child.children(recursive=True))]
