"""make show-tamper edits a copy of a store, and verify names every edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.persistence.sqlite import SQLiteStore
from agentos.testing.tamper import main
from tests.history.support import Desk, office


def test_all_three_edits_of_a_store_of_its_own_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main([]) == 0
    said = capsys.readouterr().out
    assert "verify before: ok" in said
    assert said.endswith("3 of 3 edits are named\n")
    assert not list(tmp_path.iterdir())


async def test_the_store_itself_stays_as_it_is(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "given.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        await (await kernel.start("clerk")).ask("note text=a")
    before = path.read_bytes()

    from anyio.to_thread import run_sync

    assert await run_sync(main, [str(path)]) == 0
    assert path.read_bytes() == before
