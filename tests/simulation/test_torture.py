"""Real kills, in the short form; `make torture` has the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentos.testing.postgres import PostgresServer
from agentos.testing.torture import main, table
from agentos.testing.torture_checks import check
from agentos.testing.torture_life import live
from agentos.testing.torture_places import Place

EVERY = "every conversation resumable"


def torture(*options: str) -> tuple[int, dict[str, list[str]], list[str]]:
    """The exit code, the rows of the table by their names, and the lines behind it. It forks, so it gets a process."""
    command = [sys.executable, "-m", "agentos.testing.torture", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    rows = {line[:38].strip(): line[38:].split() for line in lines if len(line) > 38}
    return ran.returncode, rows, lines[-1:] if ran.returncode == 0 else [*lines, ran.stderr]


@pytest.mark.parametrize("store", ["sqlite", "file"])
def test_ten_kills_lose_nothing_and_repeat_nothing(store: str) -> None:
    code, rows, last = torture("--store", store, "--kills", "10", "--seed", "3")

    assert (code, last) == (0, ["ok"])
    assert rows["kills of the kernel"] == ["10"]
    assert rows[EVERY] == ["yes"]


def test_eight_kills_on_postgresql_lose_nothing_and_repeat_nothing(postgres: PostgresServer) -> None:
    code, rows, last = torture("--store", postgres.new_schema_url(), "--kills", "8", "--seed", "3")

    assert (code, last) == (0, ["ok"])
    assert rows["kills of the kernel"] == ["8"]
    assert rows[EVERY] == ["yes"]


def test_a_kernel_goes_on_when_its_postgresql_server_is_killed_and_restarted() -> None:
    code, rows, last = torture("--store", "postgresql", "--server-kills", "3", "--seed", "2")

    assert (code, last) == (0, ["ok"])
    assert rows["lives"] == ["1"]
    assert rows["kills of the server"] == ["3"]
    assert rows[EVERY] == ["yes"]
    assert int(rows["inputs acknowledged"][0]) > 10


async def test_the_checks_name_what_happened_twice_and_what_is_lost(tmp_path: Path) -> None:
    place = Place("sqlite", f"sqlite:///{tmp_path}/torture.db", tmp_path / "effects.log")
    log = "01m8p15r1neyfa3t37b34a1qce"
    await live(place, 1, lambda _sign: None, last=True)
    place.effects.write_text(f"call_{log}_7 1 once\n" * 2)

    findings = await check(place, [(f"conversation_{log}", 2)], {f"turn_{log}_3": "completed"})

    assert findings.counts["once, but twice"] == 1
    assert findings.counts["effects without a stored start"] == 1
    assert findings.counts["acknowledged inputs lost"] == 1
    assert findings.counts["told outcomes lost"] == 1
    assert len(findings.broken) == 4


def test_the_table_has_a_column_for_each_store_and_a_row_for_all_that_one_of_them_has() -> None:
    columns = [("sqlite", {"lives": 2, "turns": 3}), ("file", {"lives": 2, "  failed": 1, "turns": 4})]

    lines = [line.split() for line in table(columns).splitlines()]

    assert lines == [["sqlite", "file"], ["lives", "2", "2"], ["failed", "-", "1"], ["turns", "3", "4"]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--store", "memory:"], "no store that outlasts a process"),
        (["--store", "sqlite", "--server-kills", "1"], "--server-kills needs a server of its own"),
    ],
)
def test_what_cannot_be_tortured_is_refused(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(options)

    assert refused.value.code == 2
    assert reason in capsys.readouterr().err


async def test_a_store_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mine.db"
    await live(Place("sqlite", url, tmp_path / "effects.log"), 1, lambda _sign: None, last=True)
    before = (tmp_path / "mine.db").stat().st_size

    code, _, said = torture("--store", url, "--kills", "1")

    assert code == 2
    assert "kernels are killed in an empty one alone" in said[-1]
    assert (tmp_path / "mine.db").stat().st_size == before
