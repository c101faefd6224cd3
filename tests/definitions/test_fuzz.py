"""Files that nobody would write: whatever stands in them, there is a report of it and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos import codec
from agentos.definitions import AgentSpec, Loaded, load_all, load_project
from agentos.definitions.files import read_agent
from agentos.definitions.spec import STEP_LIMIT_WORDS
from agentos.errors import ConfigurationError

ROUNDS = 1_000
NO_FAILURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
DATA = Path(__file__).parent.parent / "data" / "agents-exe"
TEMPLATES = resources.files("agentos.interfaces.cli") / "templates"

YAML = """\
slug: lead
announce: Leads the others.
system_prompt: [You lead., Be brief.]
model: {kind: scripted, name: script.yaml, options: {a: [1, 2.5, null, true]}}
toolboxes:
  - notes
  - {name: files, expose: [read_*], grant: [read_*, count]}
  - {kind: script, name: own, path: tools, filter: .sh, base: working-directory, sharing: pool(4)}
  - {kind: sqlite, name: facts, path: facts.db, access: read-only, rows_max: 10}
  - {kind: system, name: box, capabilities: [date], sandbox: {fsbPredicate: {tag: AlwaysDeny}}}
  - {kind: mcp, name: web, command: [x]}
subagents:
  - lead
  - {slug: helper, path: helper.yaml, session: reuse, tool: ask, input: history, history_messages: 5}
step_limit: 5
turn_s: 60.5
policy: [{tool: "*", verdict: allow}]
approval: park
effects: {count: pure}
"""
JSON = json.dumps(
    {
        "slug": "lead",
        "model": {"kind": "scripted", "options": {"a": [1, 2.5, None, True]}},
        "toolboxes": ["notes", {"kind": "script", "name": "own", "paths": ["a", "b"], "effects": {"t": "once"}}],
        "subagents": [{"slug": "b", "path": "b.json", "expose": ["x?"]}],
        "maxSteps": 0,
    },
    indent=1,
)
TOML = """\
slug = "lead"
system_prompt = '''
You lead.'''
step_limit = 5
toolboxes = ["notes", {kind = "python", name = "own", path = "gone.py"}]
[model]
kind = "scripted"
options.steps = [{say = "x"}]
[[subagents]]
slug = "helper"
[[policy]]
tool = "*"
verdict = "ask"
"""
PIECES = (
    b'"', b"'", b"{", b"}", b"[", b"]", b":", b",", b"\n", b"- ", b"---\n", b"\0", b"\xff", b"\\", b"&a ", b"*a", b"!!x ",
    b"<<: ", b"=", b".", b"#", b"NaN", b"1e999", b"-", b"9" * 25, b"null", b"true", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b'"\\ud800"', b"\t", b"\r", b"?", b"|", b">", b"%YAML 9.9\n", b"slug", b"toolboxes", b'"kind"', b"path", b"1979-05-27",
    b"[" * 60,
)  # fmt: skip


def front_matter() -> str:
    """The same agent in the words of other programs."""
    return (
        YAML.replace("slug: lead", "name: lead")
        .replace("announce:", "description:")
        .replace("step_limit:", "maxTurns:")
    )


def seeds() -> list[tuple[str, bytes]]:
    """Files of every form, with those of agents-exe as they are."""
    native = {".yaml": YAML, ".json": JSON, ".toml": TOML, ".md": f"---\n{front_matter()}---\n# You\n"}
    template = TEMPLATES.joinpath("agents/helper.yaml").read_bytes()
    foreign = [
        (".json", path.read_bytes()) for path in sorted(DATA.rglob("*.json")) if "agents-exe.cfg" not in path.name
    ]
    return [(suffix, text.encode()) for suffix, text in native.items()] + [(".yaml", template), *foreign]


def mutated(data: bytes, random: Random) -> bytes:
    """One or two of: a byte changed, a piece put in, a range replaced, cut or doubled, the end lost, two lines swapped."""
    for _ in range(random.randint(1, 2)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.randint(0, 40))
        data = random.choice(
            [
                data[:start] + bytes([random.randrange(256)]) + data[start + 1 :],
                data[:start] + bytes([random.randrange(32, 127)]) + data[start + 1 :],
                data[:start] + random.choice(PIECES) + data[start:],
                data[:start] + random.choice(PIECES) + data[end:],
                data[:start] + data[end:],
                data[:start] + data[start:end] * 2 + data[end:],
                data[: start or None],
                swapped(data, random),
            ]
        )
    return data


def swapped(data: bytes, random: Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def check_report(found: Loaded, path: Path) -> None:
    """What a report promises: places within the file, agents that can be stored, and a reason where there is none."""
    lines = len(path.read_bytes().decode("utf-8", "replace").splitlines()) + 1
    for problem in found.problems:
        assert str(problem).startswith(f"{problem.path}:")
        assert problem.text
        assert problem.path != path or 0 <= problem.line <= lines
    assert found.agents or found.errors
    for spec in found.agents.values():
        assert codec.encode_body(spec.model_dump(mode="json"))
        assert spec.limits.step_limit != 0
        assert spec.model_ref.kind or found.errors


def test_a_thousand_mutations_of_agent_files_give_reports(tmp_path: Path) -> None:
    random, files = Random(20), seeds()
    good = 0

    for n in range(ROUNDS):
        suffix, data = files[n % len(files)]
        path = tmp_path / f"agent{suffix}"
        path.write_bytes(mutated(data, random))
        found = load_all(None, [path])
        check_report(found, path)
        good += bool(found.agents)

    assert ROUNDS // 10 < good < ROUNDS * 9 // 10, "mutations that are all refused, or all harmless, find nothing"


def test_mutations_of_a_project_give_an_error_of_its_file_or_a_project(tmp_path: Path) -> None:
    random, path = Random(7), tmp_path / "agentos.toml"
    text = TEMPLATES.joinpath("agentos.toml").read_text("utf-8")
    data = f"{text}\n[aliases.a]\ntemplate = 'x'\n[settings]\ndepth_max = 3\n".encode()
    refused: list[str] = []

    for _ in range(300):
        path.write_bytes(mutated(data, random))
        try:
            project = load_project(tmp_path)
        except ConfigurationError as error:
            refused.append(str(error))
            continue
        assert project is not None
        assert project.origins()
        assert project.store_url
        load_all(project, [])

    assert 30 < len(refused) < 270
    assert [text for text in refused if not text.startswith(str(path))] == []


KEYS = st.sampled_from(
    [*AgentSpec.model_fields, "$schema", "kind", "name", "path", "tag", "contents", *STEP_LIMIT_WORDS]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | KEYS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
)


def as_yaml(value: Any) -> str:
    """JSON, which nearly all of YAML is."""
    return json.dumps(value)


@pytest.mark.parametrize(("suffix", "write"), [(".json", json.dumps), (".yaml", as_yaml)])
@settings(max_examples=150, deadline=None, suppress_health_check=NO_FAILURES)
@given(value=VALUES, around=st.sampled_from([None, *AgentSpec.model_fields, "tag"]))
def test_any_value_in_any_place_gives_a_report(
    tmp_path: Path, suffix: str, write: Callable[[Any], str], value: Any, around: str | None
) -> None:
    whole = value if around is None else {"slug": "a", around: value}
    path = tmp_path / f"agent{suffix}"
    path.write_text(write(whole), "utf-8")

    check_report(load_all(None, [path]), path)


@settings(max_examples=150, deadline=None, suppress_health_check=NO_FAILURES)
@given(data=st.binary(max_size=200), suffix=st.sampled_from([".json", ".yaml", ".toml", ".md"]))
def test_any_bytes_give_a_report(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"agent{suffix}"
    path.write_bytes(data)

    check_report(load_all(None, [path]), path)


@pytest.mark.parametrize(("suffix", "data"), seeds()[:5], ids=["yaml", "json", "toml", "markdown", "template"])
def test_before_mutation_each_native_seed_is_an_agent(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"agent{suffix}"
    path.write_bytes(data)

    assert read_agent(path).spec is not None
