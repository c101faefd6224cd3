"""import of bundles: conversations of another store, each bundle whole or not at all, and nothing of it runs."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli.support import Cli, Result


def run(project: Cli, text: str) -> None:
    project("run", "-p", text)


def to(place: Path, project: Cli, *words: str, code: int = 0) -> Result:
    return project(*words, "--store", f"sqlite:///{place}", code=code)


def test_a_conversation_goes_to_another_store_and_is_the_same_there(project: Cli, tmp_path: Path) -> None:
    run(project, "count_words text='to be or not to be'")
    (id_,) = project.ids()
    file, place = tmp_path / "one.zip", tmp_path / "other.db"
    project("export", id_, str(file))

    taken = to(place, project, "import", str(file))
    again = to(place, project, "import", str(file))
    verified = to(place, project, "verify")
    replayed = to(place, project, "replay")
    shown = to(place, project, "show", id_)

    assert "took 1 conversation with" in taken.out
    assert f"{id_} of agent" in taken.out
    assert "nothing here runs by itself: " in taken.err
    assert "took 0 conversations with 0 entries" in again.out
    assert "1 was there already" in again.out
    assert verified.out.startswith("ok: ")
    assert "identical: 1 conversation" in replayed.out
    assert shown.out == project("show", id_).out


def test_it_goes_on_with_the_agent_of_the_project(project: Cli, tmp_path: Path) -> None:
    run(project, "count_words text='a b'")
    (id_,) = project.ids()
    file, place = tmp_path / "one.zip", tmp_path / "other.db"
    project("export", id_, str(file))
    to(place, project, "import", str(file))

    answered = to(place, project, "run", id_, "-p", "count_words text='a b c'")

    assert "3" in answered.out


def test_a_dry_run_tells_as_json_and_stores_nothing(project: Cli, tmp_path: Path) -> None:
    run(project, "count_words text='a b'")
    file, place = tmp_path / "all.zip", tmp_path / "other.db"
    project("export", "--all", str(file))
    to(place, project, "import", str(file))
    before = to(place, project, "query", "select id, seq from logs", "--json").data
    run(project, "count_words text='a b'")
    project("export", "--all", str(file), "--force")

    (told,) = to(place, project, "import", str(file), "--dry-run", "--json").data["files"]
    said = to(place, project, "import", str(file), "--dry-run")

    assert (told["kind"], told["dry_run"]) == ("bundle", True)
    assert sorted(log["place"] for log in told["conversations"]) == ["new", "there"]
    assert told["left_out"] == {"agent": 1, "toolbox": 2}
    assert "1 log of an agent, 2 logs of toolboxes" in said.err
    assert to(place, project, "query", "select id, seq from logs", "--json").data == before


def test_what_is_refused_is_told_with_its_reason_and_keeps_no_other_back(project: Cli, tmp_path: Path) -> None:
    run(project, "count_words text='a b'")
    (id_,) = project.ids()
    good, redacted, broken = (tmp_path / name for name in ("good.zip", "redacted.zip", "broken.zip"))
    project("export", id_, str(good))
    project("export", id_, str(redacted), "--redact")
    broken.write_bytes(good.read_bytes()[:-1])
    place, pipe = tmp_path / "other.db", tmp_path / "pipe"
    os.mkfifo(pipe)

    result = to(place, project, "import", str(redacted), str(broken), str(pipe), str(good), code=1)
    agent = to(place, project, "import", str(good), "--agent", "helper", code=3)

    assert "it is redacted" in result.err
    assert str(broken) in result.err
    assert f"{pipe}: it is no regular file" in result.err
    assert "took 1 conversation" in result.out
    assert "leave --agent out" in agent.err


def test_unpause_is_a_word_to_whoever_runs_it(project: Cli) -> None:
    run(project, "count_words text='a b'")
    (id_,) = project.ids()

    said = project("unpause", id_[-8:])
    told = project("unpause", id_, "--json").data

    assert f"{id_}: unpause is under way; the process that runs it takes it at once" in said.err
    assert told == {"conversation": id_, "posted": True, "taken_by": None}
    assert project.rows("select count(*) from inbox where kind = 'control'") == [(2,)]
