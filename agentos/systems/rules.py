"""Names the rules that decide: a digest over the code that passes run."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from agentos import governance, prompting
from agentos.ids import Digest
from agentos.world import transcript


def rules_digest(decides: list[tuple[str, Callable[..., Any]]]) -> Digest:
    """Over the built-in systems with all that they call, and the sources of a user's systems, in the schedule's order."""
    parts = [_built_in(), *(f"{name}\0{_source(decide)}" for name, decide in decides)]
    return Digest(hashlib.sha256("\0".join(parts).encode()).hexdigest())


@cache
def _built_in() -> str:
    files = [path for package in (prompting, governance) for path in sorted(_folder(package).glob("*.py"))]
    files += [*sorted(Path(__file__).parent.glob("*.py")), Path(str(transcript.__file__))]
    return "\0".join(path.read_text(encoding="utf-8") for path in files)


def _folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def _source(decide: Callable[..., Any]) -> str:
    """The module of a user's system, as far as it can be read; else at least its name."""
    module = inspect.getmodule(decide)
    if module is not None and module.__name__.startswith("agentos.systems."):
        return module.__name__
    try:
        return inspect.getsource(module if module is not None else decide)
    except (OSError, TypeError):
        return f"{decide.__module__}.{decide.__qualname__}"
