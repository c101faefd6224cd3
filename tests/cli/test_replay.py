"""replay: one, a family, all by several processes, and against what a file says instead."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.support import LIMIT_S, Cli, environment


@pytest.fixture
def lead(shared: Cli) -> str:
    return shared.id("lead")


def test_a_root_is_replayed_with_its_children(shared: Cli, lead: str) -> None:
    told = shared.read("replay", lead, "--children")
    found = shared.read("replay", lead, "--children", "--json").data

    assert told.out.startswith("identical: 2 conversations, ")
    assert found["identical"]
    assert found["conversations"][0]["conversation"] == lead


def test_the_whole_store_is_replayed_by_several_processes(shared: Cli) -> None:
    alone = shared.read("replay", "--jobs", "1", "--json").data
    beside = shared("replay", "--all", "--jobs", "3", "--json").data

    assert beside == alone
    assert len(beside["conversations"]) == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--children"], "--children is for one conversation"),
        (["--against", "agents/lead.yaml"], "--against is for one conversation"),
        (["ID", "--all"], "--all is for the whole store"),
        (["ID", "--jobs", "2"], "--jobs is for the whole store"),
    ],
)
def test_options_that_do_not_go_together_are_refused(shared: Cli, lead: str, words: list[str], why: str) -> None:
    ended = shared.read("replay", *[lead if word == "ID" else word for word in words], code=2)

    assert why in ended.err


def test_the_same_agent_changes_nothing(shared: Cli, lead: str) -> None:
    ended = shared.read("replay", lead, "--against", "agents/lead.yaml")

    assert f"{lead}: unchanged (2 requests" in ended.out


def test_a_line_of_the_prompt_is_shown_with_the_calls_that_come_of_it(shared: Cli, lead: str, tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("Be brief.\n")
    told = shared.read("replay", lead, "--against", str(file), code=1).out
    found = shared.read("replay", lead, "--against", str(file), "--json", code=1).data

    assert f"against the prompt of {file}" in told
    assert "departs at seq 4, model.requested, step 0" in told
    assert "    +Be brief." in told
    assert "what follows: 1 later request, 2 calls, 1 child conversation" in told
    (one,) = found["conversations"]
    assert not found["unchanged"]
    assert (one["conversation"], one["part"], one["seq"]) == (lead, "request", 4)
    assert [(call["tool"], call["depth"]) for call in one["followed"]] == [("ask_helper", 0), ("count_words", 1)]


def test_a_family_is_compared_where_the_same_agent_answers(shared: Cli, lead: str) -> None:
    found = shared.read("replay", lead, "--children", "--against", "agents/lead.yaml", "--json").data

    assert [one["conversation"] for one in found["conversations"]] == [lead]


def test_tools_as_tool_list_prints_them_are_compared(shared: Cli, lead: str, tmp_path: Path) -> None:
    helper = next(id_ for id_ in shared.ids("helper"))
    file = tmp_path / "tools.json"
    file.write_text(shared("tool", "list", "--json").out)
    same = shared.read("replay", helper, "--against", str(file))
    file.write_text(file.read_text().replace('"description": "', '"description": "Perhaps: ', 1))
    other = shared.read("replay", helper, "--against", str(file), code=1)

    assert "unchanged" in same.out
    assert "Perhaps: " in other.out


def test_a_file_that_is_none_of_it_is_a_configuration_error(shared: Cli, lead: str) -> None:
    assert "cannot be read" in shared.read("replay", lead, "--against", "gone.yaml", code=3).err


def test_ctrl_c_ends_all_processes(shared: Cli, cli: Cli) -> None:
    shutil.copytree(shared.folder, cli.folder, dirs_exist_ok=True)
    _fill(cli.folder / ".agentos/agentos.db")
    words = [sys.executable, "-m", "agentos", "replay", "--jobs", "2"]
    process = subprocess.Popen(words, cwd=cli.folder, env=environment(None), stdout=subprocess.DEVNULL)
    try:
        cli.until(lambda: len(_children(process.pid)) == 2)
        children = _children(process.pid)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()

    assert code == 130
    cli.until(lambda: not any(_is_there(pid) for pid in children))


def _fill(path: Path) -> None:
    """Many more logs, so that there is something to do: copies of one conversation, each with a broken head."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            """
            with recursive numbers(i) as (select 1 union all select i + 1 from numbers where i < 40000)
            insert into logs (id, tenant, kind, owner, epoch, seq, digest, upto)
            select 'agent_' || i, null, 'agent', 0, 0, 100, x'00', 0 from numbers;
            """
        )
        db.commit()


def _children(pid: int) -> list[int]:
    try:
        return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
