"""Every command takes a store of every kind, wherever its URL stands, and shows no password of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.secrets import without_password
from agentos.testing.postgres import PostgresServer
from tests.cli.support import Cli

Url = Callable[[], str]


@pytest.fixture(params=["sqlite", "file", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """Of a new store; one of a server has a password in it."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_schema_url(tcp=True)
    return {"sqlite": "sqlite:///a%20b/store.db?durability=full", "file": "file:a%20b/store"}[request.param]


def test_a_store_of_every_kind_is_worked_with_and_looked_at(project: Cli, url: str, postgres: PostgresServer) -> None:
    environment = {"AGENTOS_STORE": url}
    new = project("doctor", env=environment, code=1 if url.startswith("postgresql") else 0)
    answer = project("run", "-p", 'count_words text="to be or not"', env=environment)
    (listed,) = project("ps", "--json", "--store", url).data["conversations"]
    sql = "select tool, status, result, resolution from tool_calls"
    called = project("query", sql, "--json", "--store", url).data["rows"]
    usage = project("usage", "--json", "--store", url).data["rows"]
    by_tool = project("usage", "--by", "toolbox", "--store", url).out
    lineage = project("lineage", listed["id"], "--store", url).out
    shown = project("show", listed["id"][-6:], "--store", url).out
    doctor = project("doctor", "--json", env=environment).data
    printed = [project(word, env=environment) for word in ("paths", "config", "upgrade")]
    finding = next(one for one in doctor["findings"] if one["what"] == "store")

    assert answer.out.endswith(": 4\n")
    assert listed["agent"] == "helper"
    assert called == [{"tool": "count_words", "status": "done", "result": "4", "resolution": None}]
    assert [row["turns"] for row in usage] == [1]
    assert by_tool
    assert "count_words" in lineage
    assert "call.finished" in shown
    assert url.partition(":")[0] in finding["text"]
    assert "version" in finding["text"]
    assert "durability full" in finding["text"]
    assert "MiB, 1 conversation, nobody at work" in finding["text"]
    for result in (new, answer, *printed):
        assert postgres.password not in result.out + result.err
    assert postgres.password not in str(doctor)


def test_a_relative_store_counts_from_the_project(project: Cli) -> None:
    file = project.folder / "agentos.toml"
    said = 'store = "sqlite:///.agentos/agentos.db"'
    assert said in file.read_text()
    file.write_text(file.read_text().replace(said, 'store = "file:kept/store"'))
    below = project.folder / "below"
    below.mkdir()
    project("run", "-p", "help", folder=below)
    found = {place["what"]: place for place in project("paths", "--json", folder=below).data["paths"]}

    assert (project.folder / "kept" / "store" / "store.json").is_file()
    assert found["store"] == {"what": "store", "path": str(project.folder / "kept" / "store"), "there": True}
    assert "1 conversation" in project("doctor").out


def test_a_store_that_cannot_be_reached_shows_no_password(project: Cli, tmp_path: Path) -> None:
    url = f"postgresql://ann:canary-31@/agents?host={tmp_path}&connect_timeout=1"
    results = [project(*words, "--store", url, code=code) for words, code in (
        (("ps",), 3), (("doctor",), 1), (("run", "-p", "help"), 3), (("demo", "."), 3), (("paths",), 0), (("config",), 0)
    )]  # fmt: skip

    for result in results:
        assert "canary" not in result.out + result.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@db:5432/agents?schema=a", "postgresql://ann@db:5432/agents?schema=a"),
        ("postgres://ann:se@cr/et@db/agents", "postgres://ann@db/agents"),
        ("postgresql://db/agents?password=secret&schema=a", "postgresql://db/agents?schema=a"),
        ("postgresql://db/agents?schema=a&sslpassword=secret", "postgresql://db/agents?schema=a"),
        ("mysql://ann:secret@db/agents", "mysql://ann@db/agents"),
        ("postgresql+asyncpg:/ann:secret@db/agents", "postgresql+asyncpg:/ann@db/agents"),
        ("PostgreSQL:ann:secret@db/agents", "PostgreSQL:ann@db/agents"),
        ("postgresql://ann@db/agents", "postgresql://ann@db/agents"),
        ("sqlite:////a:b@c/store.db", "sqlite:////a:b@c/store.db"),
        ("file:a:b@c", "file:a:b@c"),
        ("memory:", "memory:"),
    ],
)
def test_an_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown
