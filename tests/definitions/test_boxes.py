"""Toolboxes as files say them, kind by kind; one that cannot be made says why, and takes no other with it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest

from agentos.components import ToolboxSharing
from agentos.definitions import AgentSpec, load_agent, load_project, make_toolbox, own_toolboxes
from agentos.definitions.toolbox_spec import LACKING_KINDS, LackingSpec, PythonSpec, ScriptSpec, SqliteSpec, SystemSpec
from agentos.ids import Name
from agentos.ports import CallContext
from agentos.toolboxes.base import Failed, Toolbox, unavailable_of
from agentos.toolboxes.unavailable import UnavailableToolbox

SCRIPT = """#!/bin/sh
echo '{"slug": "NAME", "description": "Counts.", "args": []}'
"""


def script(path: Path, slug: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.replace("NAME", slug))
    path.chmod(0o755)


async def names_of(toolbox: Toolbox) -> list[str]:
    await toolbox.open()
    names = [tool.name for tool in toolbox.tools()]
    await toolbox.close()
    return [str(name) for name in names]


async def test_of_a_directory_a_filter_takes_some_scripts(tmp_path: Path) -> None:
    script(tmp_path / "tools" / "count.sh", "count")
    script(tmp_path / "tools" / "other.py", "other")

    toolbox = make_toolbox("t", ScriptSpec(path="tools", filter=".sh", prefix="bash_"), tmp_path)

    assert await names_of(toolbox) == ["bash_count"]


async def test_paths_count_from_the_file_or_from_where_agentos_was_started(tmp_path: Path) -> None:
    script(tmp_path / "file" / "tools" / "a", "a")
    script(tmp_path / "work" / "tools" / "b", "b")
    here, there = ScriptSpec(path="tools"), ScriptSpec(path="tools", base="working-directory")

    one = make_toolbox("t", here, tmp_path / "file", working_directory=tmp_path / "work")
    two = make_toolbox("t", there, tmp_path / "file", working_directory=tmp_path / "work")

    assert (await names_of(one), await names_of(two)) == (["a"], ["b"])


async def test_a_database_is_a_tool_with_the_limits_that_are_said(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "facts.db")
    db.executescript("create table fact(text); insert into fact values('x'), ('y'), ('z');")
    db.close()

    plain = make_toolbox("facts", SqliteSpec(path="facts.db"), tmp_path)
    named = make_toolbox(
        "facts", SqliteSpec(path="facts.db", tool="ask", rows_max=2, time_s=5, sharing="exclusive"), tmp_path
    )

    assert (plain.kind, plain.sharing) == ("sqlite", ToolboxSharing.READ_WRITE)
    assert (await names_of(plain), await names_of(named)) == (["facts_query"], ["ask"])
    assert named.sharing is ToolboxSharing.EXCLUSIVE
    limits: Any = vars(named)["_limits"]
    assert (limits.rows_max, limits.time_s) == (2, 5.0)


async def test_the_machine_is_a_toolbox_of_its_capabilities(tmp_path: Path) -> None:
    sandbox = {"fsbPredicate": {"tag": "AlwaysDeny"}, "fsbName": "none"}

    toolbox = make_toolbox("box", SystemSpec(capabilities=["date", "list-directory"], sandbox=sandbox), tmp_path)

    assert await names_of(toolbox) == ["box_date", "box_list_directory"]


@pytest.mark.parametrize("kind", LACKING_KINDS)
async def test_a_kind_that_is_not_in_this_version_says_so(kind: Any, tmp_path: Path) -> None:
    toolbox = make_toolbox("web", LackingSpec(kind=kind, command=["x"]), tmp_path)  # type: ignore[call-arg]

    assert unavailable_of(toolbox) == f"toolbox kind {kind!r} is not in this version of agentos"
    assert (toolbox.name, toolbox.kind) == ("web", kind)
    assert await names_of(toolbox) == []


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (ScriptSpec(path="gone"), "{folder}/gone does not exist"),
        (ScriptSpec(path="tools", cwd="gone"), "{folder}/gone does not exist"),
        (ScriptSpec(path="x" * 5_000), "{folder}/" + "x" * 5_000 + " does not exist"),
        (PythonSpec(path="gone.py"), "{folder}/gone.py does not exist"),
        (PythonSpec(path="bad.py"), "{folder}/bad.py:2: ZeroDivisionError: division by zero"),
        (PythonSpec(path="empty.py"), "{folder}/empty.py: no function is marked with @tool"),
        (SqliteSpec(path="gone.db"), "{folder}/gone.db does not exist"),
        (SqliteSpec(path="gone/a.db", access="read-write"), "{folder}/gone does not exist"),
        (SystemSpec(capabilities=["execute-command"], command_filter="gone"), "{folder}/gone does not exist"),
        (SystemSpec(capabilities=["date"], unavailable="it is away"), "it is away"),
    ],
    ids=range(10),
)
async def test_what_cannot_be_made_is_there_without_tools_and_says_why(tmp_path: Path, spec: Any, why: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "bad.py").write_text("x = 1\n1 / 0\n")
    (tmp_path / "empty.py").write_text("")

    toolbox = make_toolbox("t", spec, tmp_path)

    assert unavailable_of(toolbox) == why.format(folder=tmp_path)
    assert toolbox.kind == spec.kind
    assert await names_of(toolbox) == []


@pytest.mark.parametrize(
    "spec",
    [
        SystemSpec(capabilities=["dtae"]),
        SystemSpec(capabilities=["execute-command"]),
        SystemSpec(capabilities=["date"], sandbox={"fsbPredicate": 3}),
    ],
)
def test_what_a_kind_itself_refuses_is_the_reason(tmp_path: Path, spec: SystemSpec) -> None:
    toolbox = make_toolbox("t", spec, tmp_path)

    assert unavailable_of(toolbox)
    assert not unavailable_of(toolbox).startswith("toolbox t")


async def test_a_toolbox_that_is_no_good_takes_no_other_of_the_project(tmp_path: Path) -> None:
    script(tmp_path / "tools" / "count", "count")
    (tmp_path / "agentos.toml").write_text(
        "[toolboxes.a]\nkind = 'python'\npath = 'gone.py'\n"
        "[toolboxes.b]\nkind = 'script'\npath = 'tools'\n"
        "[toolboxes.c]\nkind = 'mcp'\n"
    )
    project = load_project(tmp_path)
    assert project is not None

    boxes = project.toolboxes()

    assert [(box.name, box.kind, bool(unavailable_of(box))) for box in boxes] == [
        ("a", "python", True),
        ("b", "script", False),
        ("c", "mcp", True),
    ]
    assert await names_of(boxes[1]) == ["count"]


async def test_the_toolboxes_of_an_agents_own_count_from_its_file_and_have_its_name(tmp_path: Path) -> None:
    script(tmp_path / "agents" / "tools" / "here", "here")
    script(tmp_path / "work" / "tools" / "there", "there")
    file = tmp_path / "agents" / "lead.yaml"
    file.write_text(
        "slug: lead\ntoolboxes:\n"
        "  - shared\n"
        "  - {kind: script, name: a, path: tools}\n"
        "  - {kind: script, name: b, path: tools, base: working-directory}\n"
        "  - {kind: script, name: c, path: gone, base: working-directory}\n"
    )

    one, two, three = own_toolboxes(load_agent(file), tmp_path / "work")

    assert [box.name for box in (one, two, three)] == ["lead/a", "lead/b", "lead/c"]
    assert (await names_of(one), await names_of(two)) == (["here"], ["there"])
    assert unavailable_of(three) == f"{tmp_path}/work/gone does not exist"


def test_an_agent_without_a_file_counts_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "facts.db").touch()
    spec = AgentSpec.model_validate({"slug": "a", "toolboxes": [{"kind": "sqlite", "name": "f", "path": "facts.db"}]})

    (toolbox,) = own_toolboxes(spec, tmp_path)

    assert unavailable_of(toolbox) == ""


def test_a_folder_that_is_gone_is_the_reason_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    toolbox = make_toolbox("t", ScriptSpec(path="x", base="working-directory"), tmp_path)

    assert unavailable_of(toolbox) == "the current folder is gone, so . names no place"


async def test_a_call_that_was_decided_before_fails_with_the_reason() -> None:
    toolbox = UnavailableToolbox("web", "mcp", "it is away")

    result = await toolbox.call(Name("t"), {}, cast(CallContext, None))

    assert result == Failed(Name("unavailable"), "toolbox web: it is away")
    assert await toolbox.probe(Name("t"), {}, "key") is None
