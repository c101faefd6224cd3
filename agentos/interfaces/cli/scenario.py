"""scenario run: puts kernels through what a file says, and checks what must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentos.errors import ConfigurationError
from agentos.interfaces.cli.errors import Exit, hint
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json


def run(file: Path, /, *, keep: Path | None = None, json: Flag = False, here: Here) -> int:
    """Run one scenario step by step, and check what must hold at its end. Exit code 0 or 1.

    A step that ends with kill runs in a process of its own, which is really killed. With --store URL all of it runs on
    that store, which has to be empty.

    Parameters
    ----------
    file
        the scenario; its name alone finds one of those that come along
    keep
        a folder in which the store and the files of the tools stay
    json
        print one JSON object
    """
    from agentos.testing.scenario import run_scenario

    result = run_scenario(_found(file), folder=keep, store=here.store or "")
    if json:
        put_json({"ok": result.ok, "title": result.title, "steps": [_object(step) for step in result.steps]})
    else:
        put(result.text())
    return Exit.OK if result.ok else Exit.FAILURE


def _found(file: Path) -> Path:
    """The file, or the scenario of that name that this program brought along. Raises ConfigurationError."""
    from agentos.testing.scenario import find_scenarios

    if file.exists() or len(file.parts) > 1:
        return file
    known = {path.stem: path for path in find_scenarios()}
    if file.stem not in known:
        raise ConfigurationError(f"there is no scenario {str(file)!r}{hint(file.stem, known)}")
    return known[file.stem]


def _object(step: Any) -> dict[str, Any]:
    return {
        "life": step.life,
        "line": step.line,
        "word": step.word,
        "ok": step.ok,
        "child": step.child,
        "process": step.process,
        "saw": step.saw,
        "wrong": step.wrong,
    }
