"""The real files of agents-exe: each loads or is explained line by line, alone and with the others."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from agentos.definitions import Loaded, load_all, own_toolboxes
from agentos.definitions.toolbox_spec import ScriptSpec, SqliteSpec
from agentos.toolboxes.base import unavailable_of
from tests.definitions.agents_exe_support import AGENTS, DATA, FILES

MAIN = AGENTS / "main"
DIGEST = "db1431e9ed6eb35d10c16a209a0579ff36c0ce3deeb46060b6e946187e38724f"
"""Of all files as they came here, names and bytes; the note on their origin is ours."""

# file: slug | toolboxes, with ! before those without tools | helpers | the places of warnings
READ = """\
demo-agents/kimi-01.json: demo-kimi | sqlite knowledge, system system, !mcp chrome | sub-agent | 48:11
demo-agents/mistral-01.json: demo-mistral | - | - | -
demo-agents/ollama-01.json: demo-ollama-qwen3-4bthinking | system system | - | -
demo-agents/openai-01.json: demo-openai | - | - | -
demo-agents/sub-agents/sub-agent.json: sub-agent | - | - | -
dev-agents/agent.json: dev-kimi | script tools | - | 9:5
main/architect.json: architect | script tools/dev/read, script tools/github/write, script tools/git/read, \
script tools/web/read, sqlite knowledge_store | architect, faq | 33:9
main/documenter.json: documenter | script tools/dev/read, script tools/git/read, script tools/gen/graphviz, \
script tools/dev/write/write-file.sh, sqlite knowledge_store, !developer dev | - | 125:11
main/faq.json: faq | script tools/dev/read, script tools/git/read, script tools/gen/graphviz, \
sqlite knowledge_store, sqlite question_store, !developer dev | - | 136:11
main/issuer.json: issuer | script tools/dev/read, script tools/dev/write, script tools/askuser, \
script tools/git/read, script tools/github/read, script tools/github/write, script tools/web/read | faq, retro | 46:9
main/mcp.json: mcp | script tools/dev/read, script tools/git/read, script tools/gen/graphviz, \
sqlite knowledge_store, sqlite question_store | - | -
main/oneshot-rlm.json: oneshot-rlm | script tools/dev/read, script tools/dev/write, !developer dev | \
oneshot-rlm | 29:9, 36:11
main/oneshot.json: oneshot | script tools/dev/read, script tools/dev/write, !developer dev | oneshot, faq | \
29:9, 40:11, 50:13
main/retro.json: retro | !developer dev, !system sessions | faq, issuer | \
30:11, 55:11, 56:13, 57:13, 58:13, 59:13, 62:11, 63:11, 64:11
qa-agent/kimi-qa.json: kimi-qa | script qa-agent/tools | - | 9:5
tasks-agents/kimi-agent-oneshot.json: kimi-oneshot | script oneshot-tools | - | 9:5
tasks-agents/kimi-architect.json: haskell-architect | script architect-tools | - | 9:5
tasks-agents/kimi-documenter.json: documenter | script documenter-tools, sqlite knowledge_store | - | 9:5
"""


def test_the_files_are_as_they_came() -> None:
    paths = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in paths:
        if path != "ORIGIN.md":
            digest.update(f"{path}\n{hashlib.sha256((DATA / path).read_bytes()).hexdigest()}\n".encode())

    assert digest.hexdigest() == DIGEST


def test_every_file_loads_and_each_warning_has_its_place(tmp_path: Path) -> None:
    assert "".join(_row(path, tmp_path) for path in FILES) == READ


def _row(path: Path, folder: Path) -> str:
    """The file alone, in a folder that has all that its toolboxes name."""
    loaded = load_all(None, [path])
    loaded.check()
    spec = loaded.agents[loaded.named[0]]
    for _, box in spec.private_toolboxes:
        if isinstance(box, ScriptSpec):
            (folder / box.all_paths[0]).mkdir(parents=True, exist_ok=True)
        elif isinstance(box, SqliteSpec):
            (folder / box.path).parent.mkdir(exist_ok=True)
            (folder / box.path).touch()
    boxes = [
        f"{'!' if unavailable_of(box) else ''}{box.kind} {box.name.removeprefix(f'{spec.slug}/')}"
        for box in own_toolboxes(spec, folder)
    ]
    helpers = [use.slug for use in spec.subagent_uses]
    places = [f"{one.line}:{one.column}" for one in loaded.warnings if one.path == path]
    parts = (spec.slug, *(", ".join(part) or "-" for part in (boxes, helpers, places)))
    return f"{path.relative_to(AGENTS)}: {' | '.join(parts)}\n"


def told(loaded: Loaded, path: Path) -> list[str]:
    """What is said of one file: severity line:column text"""
    return [
        f"{one.severity} {one.line}:{one.column} {one.text.replace(f'{AGENTS}/', '')}"
        for one in loaded.problems
        if one.path == path
    ]


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        (
            "main/retro.json",
            [
                "warning 30:11 toolboxes of kind 'developer' are not in this version; this one has no tools",
                "warning 55:11 none of its capabilities is in this version",
                "warning 56:13 the capability 'list-sessions' is not in this version; left out",
                "warning 57:13 the capability 'search-sessions' is not in this version; left out",
                "warning 58:13 the capability 'read-session' is not in this version; left out",
                "warning 59:13 the capability 'get-session-stats' is not in this version; left out",
                "warning 62:11 SessionIntrospectionScope: for capabilities that this version lacks; read past",
                "warning 63:11 SessionIntrospectionMaxResults: for capabilities that this version lacks; read past",
                "warning 64:11 SessionIntrospectionIncludeToolOutputs: for capabilities that this version lacks; read past",
            ],
        ),
        (
            "main/oneshot.json",
            [
                "warning 29:9 agents may ask in a circle: oneshot -> oneshot",
                "warning 40:11 toolboxes of kind 'developer' are not in this version; this one has no tools",
                "warning 50:13 the key '--fsbPredicate' is read past, as a comment",
            ],
        ),
        (
            "dev-agents/agent.json",
            [
                (
                    "warning 9:5 toolDirectory: no directory dev-agents/tools, so no helpers come from it; "
                    "its scripts count from the working directory"
                )
            ],
        ),
        ("demo-agents/ollama-01.json", []),
    ],
)
def test_what_is_not_followed_is_explained_line_by_line(name: str, problems: list[str]) -> None:
    assert told(load_all(None, [AGENTS / name]), AGENTS / name) == problems


def test_a_tree_with_agents_that_name_themselves_and_each_other_loads() -> None:
    loaded = load_all(None, [MAIN])

    loaded.check()
    assert {slug: [use.slug for use in spec.subagent_uses] for slug, spec in loaded.agents.items()} == {
        "architect": ["architect", "faq"],
        "documenter": [],
        "faq": [],
        "issuer": ["faq", "retro"],
        "mcp": [],
        "oneshot": ["oneshot", "faq"],
        "oneshot-rlm": ["oneshot-rlm"],
        "retro": ["faq", "issuer"],
    }


def test_two_trees_with_one_slug_are_an_error_that_names_both_files() -> None:
    loaded = load_all(None, [MAIN, AGENTS / "tasks-agents"])

    second = AGENTS / "tasks-agents" / "kimi-documenter.json"
    assert [str(problem) for problem in loaded.errors] == [
        f"{second}:4:5: the agent 'documenter' of {MAIN / 'documenter.json'} has this slug already"
    ]


def test_an_agent_file_of_the_first_project_named_twice_is_one_agent() -> None:
    loaded = load_all(None, [MAIN / "faq.json", MAIN / "architect.json", MAIN / "." / "faq.json"])

    loaded.check()
    assert sorted(loaded.agents) == ["architect", "faq"]
