"""Processes that have the SQLite file of a test open too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHILD_S = 60.0
"""After this a child counts as one that never ends."""

PRELUDE = """
import asyncio, itertools, json, os, random, signal, sqlite3, sys, time
from agentos.errors import StoreBusy, StoreUnavailable
from agentos.persistence.base import Durability, InboxRow, Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.testing.log_units import SALT, LogUnits, append, opened, post_of

path = sys.argv[1]

def say(**words):
    print(json.dumps(words), flush=True)
"""

Child = subprocess.Popen[str]
Start = Callable[..., Child]


@contextmanager
def starter(file: Path) -> Iterator[Start]:
    """Starts processes that run a script on this file; its words are `path` and `say`. None outlives the block."""
    children: list[Child] = []

    def start(script: str, *arguments: str) -> Child:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PRELUDE + script, str(file), *arguments]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment))
        return children[-1]

    try:
        yield start
    finally:
        for child in children:
            child.kill()
            child.communicate()


def read(child: Child) -> dict[str, Any]:
    """What the child says next."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, child.communicate()[1]
    words: dict[str, Any] = json.loads(line)
    return words


def tell(child: Child, line: str = "") -> None:
    """A line for the child's input."""
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def end(child: Child) -> dict[str, Any]:
    """What the child says last, once it has ended well."""
    output, errors = child.communicate(timeout=CHILD_S)
    assert child.returncode == 0, errors
    words: dict[str, Any] = json.loads(output.splitlines()[-1])
    return words
