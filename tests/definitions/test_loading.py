"""All agents of a project and of files: discovery, references, and every problem in one report."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentos.definitions import Loaded, load_agents, load_all, load_project
from agentos.errors import ConfigurationError


def write(folder: Path, **files: str) -> None:
    """Files by name, in which `__` stands for the stroke of a path; without a suffix they are YAML."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path if path.suffix else path.with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def loaded(folder: Path, *names: str, **files: str) -> Loaded:
    write(folder, **files)
    return load_all(load_project(folder), [folder / name for name in names])


def told(found: Loaded, folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in found.problems]


PROJECT = "[agents]\ndirectories = ['agents']\n[toolboxes.notes]\nkind = 'python'\npath = 'notes.py'\n"


def test_agents_of_a_project_may_name_each_other_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").write_text(PROJECT)

    found = loaded(
        tmp_path,
        agents__lead="slug: lead\ntoolboxes: [notes]\nsubagents: [helper]",
        agents__helper="slug: helper",
    )

    assert sorted(found.agents) == ["helper", "lead"]
    assert found.problems == ()
    found.check()


def test_a_file_brings_those_that_it_names_by_a_path_each_once(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "a/lead.yaml",
        a__lead="slug: lead\nsubagents: [{slug: b, path: ../b/b.yaml}, {slug: c, path: c.yaml}]",
        a__c="slug: c\nsubagents: [{slug: b, path: ../a/../b/b.yaml}]",
        b__b="slug: b\nsubagents: [{slug: d, path: d.yaml}]",
        b__d="slug: d",
        b__e="slug: e",
    )

    assert list(found.agents) == ["lead", "b", "c", "d"]
    assert found.problems == ()
    assert found.named == ("lead",)


def test_a_link_to_a_file_is_the_same_file(tmp_path: Path) -> None:
    write(tmp_path, agents__a="slug: a")
    (tmp_path / "agents" / "b.yaml").symlink_to("a.yaml")

    found = load_all(None, [tmp_path / "agents"])

    assert (list(found.agents), found.problems) == (["a"], ())


def test_a_directory_among_the_files_stands_for_its_agents(tmp_path: Path) -> None:
    found = loaded(tmp_path, "agents", agents__b="slug: b", agents__a="slug: a")

    assert found.named == ("a", "b")


def test_all_problems_of_all_files_are_told_in_order(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "b.yaml",
        "a.json",
        b="slug: b\nmodel: 3\nstep: 1",
        **{"a.json": '{"slug": "a",\n "slug": "a",\n "subagents": ["c"]}'},
    )

    assert told(found, tmp_path) == [
        "a.json:2:2: the key 'slug' stands here twice",
        "b.yaml:2:1: model: a mapping of keys is needed here",
        "b.yaml:3:1: unknown key 'step'; did you mean step_limit?",
    ]
    assert found.agents == {}
    with pytest.raises(ConfigurationError) as caught:
        found.check()
    assert str(caught.value) == "\n".join(map(str, found.errors))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("toolboxes: [note]", "2:13: the project has no toolbox 'note'; it has notes; did you mean notes?"),
        ("toolboxes: [{name: note}]", "2:13: the project has no toolbox 'note'; it has notes; did you mean notes?"),
        ("toolboxes: [notes, notes]", "2:20: the toolbox 'notes' stands here twice"),
        (
            "toolboxes: [{kind: script, name: x, path: x}, {kind: python, name: x, path: x}]",
            "2:47: the toolbox 'lead/x' stands here twice",
        ),
        (
            "subagents: [halper]",
            (
                "2:13: no agent 'halper'; there are helper, lead; in the same folder, and not read: other (other.json);"
                " did you mean helper?"
            ),
        ),
        ("subagents: [{slug: x, path: gone.yaml}]", "2:23: subagents[0].path: gone.yaml: no such file"),
        ("subagents: [{slug: x, path: .}]", "2:23: subagents[0].path: : no such file"),
        (
            "subagents: [{slug: halper, path: agents/helper.yaml}]",
            "2:14: agents/helper.yaml is the agent 'helper', not 'halper'; a subagent is named by its own slug",
        ),
        ("model: opanai:x", "2:1: model: no model is of kind 'opanai'; there are direct,"),
    ],
)
def test_a_reference_that_leads_nowhere_has_its_place_and_the_near_names(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "agentos.toml").write_text(PROJECT)

    found = loaded(
        tmp_path,
        "lead.yaml",
        lead=f"slug: lead\n{text}",
        agents__helper="slug: helper",
        **{"other.json": '{"slug": "other"}'},
    )

    (problem,) = told(found, tmp_path)
    assert problem.replace(str(tmp_path), "").startswith(f"lead.yaml:{said}")
    assert list(found.agents) == ["lead", "helper"]


def test_without_a_project_there_is_no_toolbox_to_name(tmp_path: Path) -> None:
    found = loaded(tmp_path, "a.yaml", a="slug: a\ntoolboxes: [notes, {kind: script, name: own, path: x}]")

    assert told(found, tmp_path) == [
        "a.yaml:2:13: no toolbox 'notes': there is no project here, whose agentos.toml would have it"
    ]


def test_an_agent_that_is_no_good_is_known_to_those_that_name_it(tmp_path: Path) -> None:
    found = loaded(tmp_path, "a.yaml", "b.yaml", a="slug: a\nsubagents: [b]", b="slug: b\nstep_limit: x")

    assert [problem.split(":")[0] for problem in told(found, tmp_path)] == ["b.yaml"]


def test_one_slug_in_two_files_names_both(tmp_path: Path) -> None:
    found = loaded(tmp_path, "one.yaml", "two.json", one="slug: a", **{"two.json": '{\n"slug": "a"}'})

    assert told(found, tmp_path) == ["two.json:2:1: the agent 'a' of one.yaml has this slug already"]
    assert found.errors
    assert found.agents["a"].path == tmp_path / "one.yaml"


def test_an_agent_of_a_file_goes_before_that_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").write_text(PROJECT)

    found = loaded(tmp_path, "mine.yaml", mine="slug: a\nannounce: Mine.", agents__a="slug: a\nannounce: Its.")

    assert found.agents["a"].announce == "Mine."
    assert told(found, tmp_path) == ["agents/a.yaml:1:1: the agent 'a' of mine.yaml goes before this one"]
    found.check()


def test_a_file_of_the_project_that_is_also_asked_for_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").write_text(PROJECT)

    found = loaded(tmp_path, "agents/b.yaml", agents__a="slug: a", agents__b="slug: b")

    assert (list(found.agents), found.named, found.problems) == (["b", "a"], ("b",), ())


def test_circles_are_warnings_with_their_path(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "a.yaml",
        "b.yaml",
        "c.yaml",
        a="slug: a\nsubagents: [a, b]",
        b="slug: b\nsubagents: [c]",
        c="slug: c\nsubagents: [a, b]",
    )

    assert told(found, tmp_path) == [
        "a.yaml:2:13: agents may ask in a circle: a -> a",
        "a.yaml:2:16: agents may ask in a circle: a -> b -> c -> a",
        "b.yaml:2:13: agents may ask in a circle: b -> c -> b",
    ]
    assert found.errors == ()
    found.check()


def test_a_toolbox_of_a_kind_that_is_not_here_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "agentos.toml").write_text("[toolboxes.web]\nkind = 'mcp'\ncommand = ['x']\n")

    found = loaded(tmp_path, "a.yaml", a="slug: a\ntoolboxes: [web, {kind: openapi, name: own, spec: x}]")

    assert told(found, tmp_path) == [
        "a.yaml:2:18: toolboxes of kind 'openapi' are not in this version; this one has no tools",
        "agentos.toml:1:12: toolboxes of kind 'mcp' are not in this version; this one has no tools",
    ]
    assert found.errors == ()


def test_what_a_project_names_has_to_be_there(tmp_path: Path) -> None:
    text = "default_agent = 'led'\n[agents]\nfiles = ['lead.yaml', 'gone.yaml']\ndirectories = ['agents']\n"
    (tmp_path / "agentos.toml").write_text(text)

    found = loaded(tmp_path, lead="slug: lead")

    assert told(found, tmp_path) == [
        "agentos.toml:1:1: default_agent: no agent 'led'; did you mean lead?",
        "agentos.toml:3:23: agents.files[1]: gone.yaml: no such file",
        "agentos.toml:4:16: agents.directories[0]: agents: no such directory of agents",
    ]


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    found = loaded(tmp_path, "gone.yaml", "odd.txt", "agentos.toml", **{"odd.txt": "slug: a", "agentos.toml": ""})

    assert told(found, tmp_path) == [
        "agentos.toml: this is the file of a project, not of an agent",
        "gone.yaml: No such file or directory",
        "odd.txt: its name ends in none of .yaml, .yml, .toml, .json, .md",
    ]


def test_a_path_that_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")

    found = loaded(tmp_path, "a.yaml", a="slug: a\nsubagents: [{slug: b, path: pipe.yaml}, {slug: c, path: /dev/zero}]")

    assert [problem.rpartition(": ")[2] for problem in told(found, tmp_path)] == ["no such file", "no such file"]


def test_a_long_chain_of_files_is_followed_and_one_without_end_stops_at_a_named_limit(tmp_path: Path) -> None:
    for n in range(2_050):
        (tmp_path / f"{n}.json").write_text(
            f'{{"slug": "a{n}", "subagents": [{{"slug": "a{n + 1}", "path": "{n + 1}.json"}}]}}'
        )
    started = time.process_time()

    found = load_all(None, [tmp_path / "0.json"])

    assert time.process_time() - started < 30
    assert len(found.agents) == 2_000
    assert told(found, tmp_path) == ["2000.json: more than 2,000 files of agents (files_max)"]


def test_agents_of_files_can_be_had_without_following_their_references(tmp_path: Path) -> None:
    write(tmp_path, a="slug: a\nsubagents: [{slug: b, path: b.yaml}, gone]\ntoolboxes: [gone]", b="slug: b")

    assert list(load_agents([tmp_path / "a.yaml"])) == ["a", "b"]


def test_loading_by_name_tells_the_problems_of_all_files(tmp_path: Path) -> None:
    write(tmp_path, a="slg: a", b="slug: b\nmodel: 3")

    with pytest.raises(ConfigurationError) as caught:
        load_agents([tmp_path / "a.yaml", tmp_path / "b.yaml"])

    assert [Path(line.split(":")[0]).name for line in str(caught.value).splitlines()] == ["a.yaml", "a.yaml", "b.yaml"]
