"""An import that dies at any step has stored everything or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentos.history.bundle.export import export_bundle
from agentos.persistence.memory import MemoryStore
from tests.history.support import Desk, office

ROOT = Path(__file__).parents[2]
CONVERSATIONS = 6


@pytest.fixture
async def bundle(tmp_path: Path) -> Path:
    """Three conversations with a child each."""
    store, path = MemoryStore(), tmp_path / "three.zip"
    async with office(store, Desk()) as kernel:
        for n in range(CONVERSATIONS // 2):
            await (await kernel.start("clerk")).ask(f"note text={n}\nask_aide task='note text=deep'")
        await export_bundle(store, path)
    await store.close()
    return path


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_killed_at_any_step_it_has_stored_all_or_nothing(kind: str, bundle: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.bundle.killed", kind, str(bundle), str(tmp_path)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    lives = [line.split() for line in ended.stdout.splitlines()]
    killed = [int(found) for found, how in lives if how == "killed"]

    assert ended.returncode == 0, ended.stderr
    assert lives[-1] == [str(CONVERSATIONS), "ended"]
    assert set(killed) == {0, CONVERSATIONS}, "it was killed before and after its commit"
