"""SQLite and system toolboxes at work in turns of a kernel: what the model reads, and what the log says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentos.components import Outcome
from agentos.kernel import RunOutcome
from agentos.resources.folders.file_sandbox import FileSandbox
from agentos.toolboxes.sqlite import SqliteToolbox
from agentos.toolboxes.system import SystemToolbox
from tests.support import Mind, call, calls, lab, results, until
from tests.toolboxes.sqlite_support import ENDLESS, made, rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made(
        tmp_path / "notes.db",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes (text) VALUES ('one');",
    )


def sql(text: str) -> Any:
    return calls(call("kb_query", sql=text))


async def test_a_model_reads_writes_and_learns_what_went_wrong(path: Path) -> None:
    mind = Mind(
        sql("INSERT INTO notes (text) VALUES ('two')"),
        sql("SELECT text FROM notes"),
        sql("ATTACH 'x' AS y"),
        sql("SELECT nothing_there FROM notes"),
    )
    async with lab(mind, toolboxes=[SqliteToolbox("kb", path=path, access="read-write")]) as here:
        conversation = await here.start()
        outcome = await conversation.ask("go")
        told = await results(conversation)

    assert outcome.outcome is Outcome.COMPLETED
    assert [status for status, _ in told] == ["done", "done", "failed(refused)", "failed(sql)"]
    assert told[0][1] == '{"columns": [], "rows": [], "row_count": 0, "changes": 1}'
    assert told[1][1] == '{"columns": ["text"], "rows": [["one"], ["two"]], "row_count": 2}'
    assert told[2][1].startswith("ATTACH or VACUUM INTO is refused here")
    assert told[3][1] == "no such column: nothing_there"


async def test_a_cancelled_turn_ends_its_statement_and_frees_the_database_for_the_next(path: Path) -> None:
    mind = Mind(sql(f"{ENDLESS} INSERT INTO notes (text) SELECT x FROM c"), sql("SELECT count(*) FROM notes"))
    async with lab(mind, toolboxes=[SqliteToolbox("kb", path=path, access="read-write")]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(here.kernel.slots.statistics)
        await conversation.interrupt()
        first: RunOutcome = await asked
        second = await conversation.ask("and now?")
        told = await results(conversation)

    assert (first.outcome, second.outcome) == (Outcome.CANCELLED, Outcome.COMPLETED)
    assert told[0][0] == "unknown(interrupted)"
    assert told[1] == ("done", '{"columns": ["count(*)"], "rows": [[1]], "row_count": 1}')
    assert rows(path) == ["one"]


async def test_many_conversations_count_up_in_one_database_and_no_count_is_lost(path: Path) -> None:
    def count(_: Any) -> Any:
        return sql("UPDATE notes SET text = CAST(text AS INTEGER) + 1")

    made(path, "UPDATE notes SET text = '0'")
    mind = Mind(*[reply for _ in range(8) for reply in (count, count)])
    async with lab(mind, toolboxes=[SqliteToolbox("kb", path=path, access="read-write")]) as here:
        outcomes = await asyncio.gather(*(here.ask() for _ in range(8)))

    assert {outcome.outcome for outcome in outcomes} == {Outcome.COMPLETED}
    assert rows(path) == ["16"]


async def test_c24_a_long_file_reaches_the_model_in_part_and_the_store_whole(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("begin " + "x" * 100_000 + " end")
    sandbox = FileSandbox.from_data({"fsbPredicate": {"tag": "DirectoryRecursive", "contents": "."}}, tmp_path)
    box = SystemToolbox("sys", capabilities=["attach-file", "date"], cwd=tmp_path, sandbox=sandbox)
    mind = Mind(calls(call("sys_attach_file", path="long.txt"), call("sys_date"), call("sys_attach_file", path="/etc")))

    async with lab(mind, toolboxes=[box]) as here:
        conversation = await here.start()
        await conversation.ask("go")
        shown = mind.results
        told = await results(conversation)

    assert (shown[0][:6], shown[0][-4:]) == ("begin ", " end")
    assert len(shown[0]) <= 32_000
    assert "of 100,010 characters left out here" in shown[0]
    assert '"utc"' in shown[1]
    assert ("failed(refused)", "'/etc': the file sandbox allows no such file or folder") in told
