"""Every so many steps of a store one fails, or is the last that a process does; `make torture` lets each of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

STRIDES = {"sqlite": 67, "file": 17, "postgresql": 23}

LYING = """
import tempfile
from pathlib import Path

from agentos.persistence.base import Verdict
from agentos.persistence.sqlite import SQLiteStore
from agentos.testing import nth_fault_story
from agentos.testing.torture_places import Place


class Lying(SQLiteStore):
    told = False

    def append(self, units):
        if not self.told and any(entry[2] == "call.started" for unit in units for entry in unit.entries):
            self.told = True
            return [Verdict.STORED] * len(units)
        return super().append(units)


with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/store.db"
    nth_fault_story.LIVES_MAX = 4
    nth_fault_story.PATIENCE_S = 10.0
    nth_fault_story.store_at = lambda place, point: Lying(path)
    story = nth_fault_story.tell_story(Place("sqlite", f"sqlite:///{path}", Path(folder, "effects.log")), None, 0)
print(*story.broken, sep="\\n")
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("store", STRIDES)
def test_a_fault_at_any_step_loses_nothing_and_repeats_nothing(store: str) -> None:
    ran = run("-m", "agentos.testing.nth_fault", "--store", store, "--stride", str(STRIDES[store]))

    assert ran.stdout.endswith("\nok\n"), ran.stdout + ran.stderr
    assert ran.returncode == 0
    faults = re.search(r"^(\d+) faults in", ran.stdout, re.MULTILINE)
    assert faults is not None
    assert int(faults[1]) > 3


def test_a_store_that_says_stored_and_does_not_is_found_out() -> None:
    ran = run("-c", LYING)

    assert "took effect" in ran.stdout, ran.stdout + ran.stderr
