"""`up` over stores of every kind, from places that have no room for a socket, and with files that are edited meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agentos.interfaces.cli.project import init
from agentos.interfaces.cli.running import all_running
from agentos.testing.postgres import PostgresServer
from tests.cli.support import LIMIT_S, Cli
from tests.cli.test_up import sockets, told, up

LONG = "d" * 90


@pytest.fixture(params=["file", "postgresql"])
def elsewhere(
    request: pytest.FixtureRequest, project: Cli, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[Cli, str]:
    """A project, and a store of another kind with a conversation in it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    url = "file:store" if request.param == "file" else postgres.new_schema_url(tcp=True)
    project("run", "--store", url, "-p", "hello")
    return project, url


def test_every_word_reaches_a_kernel_over_a_store_of_another_kind(elsewhere: tuple[Cli, str]) -> None:
    project, url = elsewhere
    store = ("--store", url)
    with project.start("up", *store, "--json") as running:
        assert running.stdout is not None
        begun = json.loads(running.stdout.readline())
        (row,) = project("ps", *store, "--json").data["conversations"]
        sent = project("send", row["id"], *store, "-p", 'count_words text="a b"')
        kinds = [json.loads(running.stdout.readline())["type"] for _ in range(4)]
        top = project("top", "--once", *store, "--json", "--every", "0.1").data
        lsof = project("lsof", *store, "--json").data
        paused = project("pause", row["id"], *store, "--json").data
        watched = project("watch", row["id"], *store, "--until-settled", "--json").out.splitlines()
        (stopped,) = project("stop", *store, "--json").data["stopped"]
        assert running.wait(LIMIT_S) == 0

    assert begun["control"] is not None
    assert sent.code == 0
    assert kinds == ["turn.started", "call.started", "call.finished", "turn.finished"]
    assert top["process"]["pid"] == running.pid
    assert [one["name"] for one in lsof["resources"]] == ["files"]
    assert paused["taken_by"] == running.pid
    assert json.loads(watched[-1])["kind"] in ("turn.finished", "conversation.paused")
    assert (stopped["pid"], stopped["ended"]) == (running.pid, True)
    assert not Path(begun["control"]).exists()


def test_a_folder_whose_name_leaves_no_room_for_a_socket_has_it_elsewhere(cli: Cli) -> None:
    deep = Cli(cli.folder / LONG)
    deep.folder.mkdir()
    init(deep.folder)
    with up(deep) as running:
        (path,) = sockets(deep).values()
        lsof = deep("lsof", "--json").data
        told(running, signal.SIGTERM)

    assert LONG not in str(path)
    assert lsof["resources"]
    assert not path.exists()


@pytest.fixture
def near() -> Iterator[Cli]:
    """A project in a folder whose name is short, so that sockets lie beside its store."""
    with tempfile.TemporaryDirectory() as folder:
        init(Path(folder))
        yield Cli(Path(folder))


def test_a_kernel_whose_place_is_taken_works_and_others_are_told_that_it_cannot_be_asked(near: Cli) -> None:
    project = near
    project("run", "-p", "hello")
    for number in range(1, 9):
        project.write(f".agentos/agentos.db-control-{number}", "somebody's own")
    with project.start("up") as running:
        assert running.stderr is not None
        while "up: " not in (line := running.stderr.readline()):
            assert line, "it ended"
        asked = [project(word, code=code).err for word, code in (("lsof", 1), ("top", 1), ("stop", 1))]
        sent = project("send", project.id("helper"), "-p", "later")
        project.until(partial(has_ended, project, 2))
        told(running, signal.SIGTERM)

    assert "no other terminal can ask it" in line
    for said in asked:
        assert f"process {running.pid} has the store open and cannot be asked" in said
    assert "it waits in the store" in sent.err
    assert (project.folder / ".agentos/agentos.db-control-1").read_text() == "somebody's own"


def test_an_edited_agent_counts_from_the_next_turn_and_a_broken_or_lost_file_leaves_the_last(project: Cli) -> None:
    file = project.write("agents/keeper.yaml", "slug: keeper\nmodel: direct\n")
    with up(project) as running:
        id_ = begun(project, "keeper")
        for turns, text in enumerate(("slug: keeper\nmodel: direct\nstep_limit: 7\n", "slug: [", None), 1):
            if text is None:
                file.unlink()
            else:
                file.write_text(text)
            project("send", id_, "-p", "again")
            project.until(partial(has_ended, project, turns))
        _, err = told(running, signal.SIGTERM)

    shown = [
        line.split(" completed")[0].split()[-1] for line in project("lineage", id_).out.splitlines() if "turn " in line
    ]
    assert shown == ["r2", "r2", "r2"]
    assert err.count("agent keeper keeps r2: ") == 2
    assert project("verify").out.startswith("ok")


def has_ended(project: Cli, turns: int) -> bool:
    return len(project.rows("select 1 from turns where outcome <> ''")) == turns


def begun(project: Cli, agent: str) -> str:
    """A conversation of a kernel that runs."""

    async def begin() -> str:
        async with all_running(f"sqlite:///{project.folder}/.agentos/agentos.db") as (kernel,):
            return await kernel.begin(agent)

    return asyncio.run(begin())
