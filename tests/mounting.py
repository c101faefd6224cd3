"""Runs a program that mounts, where the machine lets its tests do that: in a namespace of its own, which ends with it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_OWN_MOUNTS = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
"""As root, and as a user who is root in the namespace alone."""


def said_with_mounts(program: str, place: Path) -> list[str]:
    """The lines that a Python program prints, with a folder as its argument; it says nothing else. Skips the test where
    nobody may mount."""
    done = subprocess.run(
        [*_own_mounts(), sys.executable, "-c", program, str(place)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    return done.stdout.splitlines()


def _own_mounts() -> list[str]:
    tried = ["sh", "-c", 'mount --bind /tmp /tmp && exec "$0" -c "import agentos"', sys.executable]
    for command in _OWN_MOUNTS:
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*command, *tried], cwd=_ROOT, capture_output=True, check=False).returncode == 0:
                return command
    pytest.skip("this machine lets this user mount nothing, not even in a namespace of his own")
