"""Agent files: what they say, and how they are refused."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentos.components import ApprovalMode, EffectClass, ModelRef, Rule, TurnLimits, Verdict
from agentos.definitions import AgentSpec, SessionPolicy, SubagentUse, ToolboxUse, agent_files, load_agent, load_agents
from agentos.definitions.files import read_agent
from agentos.definitions.private_toolbox import PrivateLacking, PrivateSqlite
from agentos.errors import ConfigurationError

WHOLE = """\
$schema: https://example.org/agent.schema.json
slug: lead
announce: Leads the others.
system_prompt:
  - You lead.
  - Be brief.
model: {kind: scripted, name: script.yaml}
toolboxes:
  - notes
  - {name: files, expose: [read_*], grant: [read_*, count]}
subagents:
  - lead
  - {slug: helper, session: reuse, description: Helps.}
step_limit: 5
call_limit: 0
turn_s: 60
tool_s: 2.5
context_tokens: 9000
model_attempts: 2
result_chars: 500
policy:
  - {tool: "*", verdict: allow}
  - {tool: rm, verdict: ask}
approval: park
effects: {count: pure}
"""


def written(folder: Path, text: str, name: str = "agent.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_says_all_of_an_agent(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)

    spec = load_agent(path)

    assert (spec.slug, spec.announce, spec.path) == ("lead", "Leads the others.", path)
    assert spec.prompt == ("You lead.", "Be brief.")
    assert spec.model_ref == ModelRef(kind="scripted", name="script.yaml")
    assert spec.toolbox_uses == (
        ToolboxUse(name="notes"),
        ToolboxUse(name="files", expose=["read_*"], grant=["read_*", "count"]),
    )
    assert spec.subagent_uses == (
        SubagentUse(slug="lead"),
        SubagentUse(slug="helper", session=SessionPolicy.REUSE, description="Helps."),
    )
    assert spec.rules == (Rule(tool="*", verdict=Verdict.ALLOW), Rule(tool="rm", verdict=Verdict.ASK))
    assert spec.approval is ApprovalMode.PARK
    assert spec.effects == {"count": EffectClass.PURE}
    assert spec.limits == TurnLimits(
        step_limit=5,
        call_limit=None,
        turn_s=60.0,
        tool_s=2.5,
        context_tokens=9_000,
        model_attempts_max=2,
        result_chars=500,
    )


def test_a_slug_is_enough(tmp_path: Path) -> None:
    spec = load_agent(written(tmp_path, "slug: a"))

    assert (spec.prompt, spec.model_ref, spec.limits) == ((), ModelRef(kind="direct"), TurnLimits())


@pytest.mark.parametrize("key", ["max_turns", "maxTurns", "maxSteps", "max_steps", "max_tool_iterations"])
def test_the_step_limit_has_the_names_of_other_systems_which_are_told(tmp_path: Path, key: str) -> None:
    some, none = written(tmp_path, f"slug: a\n{key}: 7"), written(tmp_path, f"slug: a\n{key}: 0", "none.yaml")

    assert load_agent(some).limits.step_limit == 7
    assert load_agent(none).limits.step_limit is None
    assert [str(problem) for problem in read_agent(some).problems] == [
        f"{some}:2:1: {key} is taken for step_limit, our word for it"
    ]
    assert [(problem.text, problem.severity) for problem in read_agent(none).problems] == [
        (f"{key} is taken for step_limit, our word for it, and 0 sets no bound", "warning")
    ]


def test_our_own_word_needs_no_word(tmp_path: Path) -> None:
    assert read_agent(written(tmp_path, "slug: a\nstep_limit: 0")).problems == ()


def test_two_words_for_one_limit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "slug: a\nmaxSteps: 3\nstep_limit: 4\nmax_turns: 5")

    assert [str(problem) for problem in read_agent(path).problems] == [
        f"{path}:2:1: maxSteps is another word for step_limit, and step_limit stands here too; keep one",
        f"{path}:4:1: max_turns is another word for step_limit, and step_limit stands here too; keep one",
    ]


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("direct", ModelRef(kind="direct")),
        ("openai/org/model:free", ModelRef(kind="openai", name="org/model:free")),
        ("openai:org/model", ModelRef(kind="openai", name="org/model")),
        ("scripted:replies/a.yaml", ModelRef(kind="scripted", name="replies/a.yaml")),
        ("{kind: scripted, options: {steps: []}}", ModelRef(kind="scripted", options={"steps": []})),
    ],
)
def test_a_model_is_a_kind_a_kind_with_a_name_or_a_mapping(tmp_path: Path, text: str, ref: ModelRef) -> None:
    assert load_agent(written(tmp_path, f"slug: a\nmodel: {text}")).model_ref == ref


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "slug: a\nanounce: x",
            "2:1: unknown key 'anounce'; did you mean announce?",
        ),
        ("slug: a\nmaxTurn: 3", "2:1: unknown key 'maxTurn'; did you mean step_limit"),
        ("announce: x", "1:1: the key 'slug' is missing"),
        ("slug: two words", "1:1: slug: String should match pattern"),
        ("slug: 5", "1:1: slug: Input should be a valid string"),
        ("slug: a\nstep_limit: -1", "2:1: step_limit: Input should be greater than or equal to 0"),
        ("slug: a\nmax_turns: -1", "2:1: max_turns: Input should be greater than or equal to 0"),
        ("slug: a\ntool_s: .inf", "2:1: tool_s: inf is no finite number"),
        ("slug: a\ntoolboxes:\n  - {name: x, expos: []}", "3:15: unknown key 'expos'; did you mean expose?"),
        ("slug: a\ntoolboxes:\n  - 7", "3:5: toolboxes[0]: a mapping of keys is needed here"),
        ("slug: a\nsubagents: [{session: new}]", "2:13: the key 'slug' is missing"),
        (
            "slug: a\nsubagents: [{slug: b, session: old}]",
            "2:23: subagents[0].session: Input should be 'new' or 'reuse'",
        ),
        ("slug: a\nmodel: {kind: x, nam: y}", "2:18: unknown key 'nam'; did you mean name?"),
        ("slug: a\npolicy: [{tool: x, verdict: maybe}]", "2:20: policy[0].verdict: Input should be 'allow', 'ask' or"),
        ("slug: a\ntoolboxes: [{kind: scrpt, name: x}]", "2:14: toolboxes[0].kind: 'scrpt' is none of script, "),
        ("slug: a\ntoolboxes: [{kind: [x], name: x}]", "2:14: toolboxes[0].kind: 'a kind that is no text' is none of "),
        ("slug: a\ntoolboxes: [{kind: script, path: x}]", "2:13: the key 'name' is missing"),
        ("slug: a\ntoolboxes: [{kind: script, name: x}]", "2:13: toolboxes[0]: path or paths is needed"),
        ("slug: a\ntoolboxes: [{kind: sqlite, name: x, pth: y}]", "2:13: the key 'path' is missing"),
        (
            "slug: a\ntoolboxes: [{kind: sqlite, name: x, path: y, acces: z}]",
            "2:46: unknown key 'acces'; did you mean ",
        ),
        ("slug: a\ntoolboxes: [{kind: system, name: x, capabilities: []}]", "2:37: toolboxes[0].capabilities: at lea"),
        ("slug: a\nsubagents: [{slug: b, tool: two words}]", "2:23: subagents[0].tool: String should match pattern"),
        ("slug: a\nsubagents: [{slug: b, input: histroy}]", "2:23: subagents[0].input: Input should be 'task' or "),
        ("slug: a\nresult_chars: 5", "2:1: result_chars: Input should be greater than or equal to 200"),
        ("- slug: a", "1:1: a mapping of keys is needed here"),
        ("", "1:1: the key 'slug' is missing"),
    ],
)
def test_an_error_names_file_line_column_and_the_right_word(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigurationError) as caught:
        load_agent(path)

    assert str(caught.value).startswith(f"{path}:{said}")


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_agent(written(tmp_path, "slug: a b\nstep: 1\nmodel: 3"))

    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slug: [a\n", ":2:1: did not find expected ',' or ']'"),
        ("slug: a\nslug: b", ":2:1: the key 'slug' stands here twice"),
        ('slug: "a\\0"', ":1:1: slug: a text may not hold U+0000"),
        ("1: a", ":1:1: a key must be text"),
        ("slug: !!python/object/apply:os.getcwd []", ":1:7: the tag 'tag:yaml.org,2002:python/object/apply:os.getcwd'"),
        ("slug: !!python/name:os.getcwd ''", ":1:7: could not determine a constructor for the tag"),
        ("slug: !!int x", ":1:7: 'x' does not fit its tag 'tag:yaml.org,2002:int': invalid literal for int()"),
        ("slug: a\n---\nslug: b", ":2:1: but found another document"),
        ("slug: " + "[" * 60 + "]" * 60, ":1:56: nested deeper than 50 levels"),
        ("slug: \x00", ":1:7: a zero byte (U+0000) stands here"),
        ("slug: *gone", ":1:7: found undefined alias"),
    ],
)
def test_what_is_no_good_yaml_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigurationError) as caught:
        load_agent(path)

    assert str(caught.value).startswith(f"{path}{said}")


def test_aliases_cannot_grow_without_end(tmp_path: Path) -> None:
    lines = ["slug: a", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    started = time.process_time()

    with pytest.raises(ConfigurationError, match=r"more than 20,000 values \(file_values_max\), or an alias"):
        load_agent(written(tmp_path, "\n".join(lines)))
    with pytest.raises(ConfigurationError, match=r"found undefined alias|an alias that repeats itself"):
        load_agent(written(tmp_path, "slug: &a [*a]"))

    assert time.process_time() - started < 5


def test_a_file_of_any_size_or_kind_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"agent\.yaml: over 1,048,576 bytes"):
        load_agent(written(tmp_path, "#" * 1_100_000))
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: No such file"):
        load_agent(tmp_path / "gone.yaml")
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load_agent(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"slug: \xfc")
    with pytest.raises(ConfigurationError, match=r"latin\.yaml:1:7: byte 6 \(0xfc\) is not UTF-8"):
        load_agent(tmp_path / "latin.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert load_agent(written(tmp_path, "\ufeffslug: a")).slug == "a"


def test_several_files_are_agents_by_slug(tmp_path: Path) -> None:
    written(tmp_path, "slug: b", "b.yml")
    written(tmp_path, "slug: a", "a.yaml")
    written(tmp_path, "not an agent", "notes.txt")

    assert list(load_agents(agent_files(tmp_path))) == ["a", "b"]


def test_one_slug_in_two_files_is_an_error_that_names_both(tmp_path: Path) -> None:
    one, two = written(tmp_path, "slug: a", "one.yaml"), written(tmp_path, "slug: a", "two.yaml")

    with pytest.raises(ConfigurationError) as caught:
        load_agents([one, two])

    assert str(caught.value) == f"{two}:1:1: the agent 'a' of {one} has this slug already"


def test_a_toolbox_can_be_bound_and_unbound(tmp_path: Path) -> None:
    spec = AgentSpec(slug="a", toolboxes=["notes"])

    bound = spec.bound("files", ["read_*"]).bound("notes", grant=["write"])

    assert bound.toolbox_uses == (
        ToolboxUse(name="files", expose=["read_*"]),
        ToolboxUse(name="notes", grant=["write"]),
    )
    assert bound.unbound("notes").unbound("gone").toolbox_uses == (ToolboxUse(name="files", expose=["read_*"]),)
    assert spec.toolboxes == ["notes"]


def test_a_spec_survives_as_plain_data() -> None:
    spec = AgentSpec(slug="a", model="scripted:x", toolboxes=["notes", ToolboxUse(name="files")], subagents=["a"])

    plain = spec.model_dump(mode="json")

    assert AgentSpec.model_validate(plain).model_dump(mode="json") == plain


PRIVATE = """\
slug: lead
toolboxes:
  - notes
  - {kind: sqlite, name: facts, path: facts.db, expose: [facts_*]}
  - {kind: mcp, name: web, command: [npx, server], env: {TOKEN: secret}}
subagents:
  - {slug: helper, path: helper.yaml, tool: io_prompt, expose: [read_*], grant: [], input: history, history_messages: 5}
"""


def test_a_toolbox_with_a_kind_is_the_agents_own(tmp_path: Path) -> None:
    spec = load_agent(written(tmp_path, PRIVATE))

    assert [name for name, _ in spec.private_toolboxes] == ["lead/facts", "lead/web"]
    assert spec.toolbox_uses == (
        ToolboxUse(name="notes"),
        ToolboxUse(name="lead/facts", expose=["facts_*"]),
        ToolboxUse(name="lead/web"),
    )
    assert isinstance(spec.toolboxes[1], PrivateSqlite)
    assert spec.unbound("lead/facts").toolbox_uses == (ToolboxUse(name="notes"), ToolboxUse(name="lead/web"))


def test_a_subagent_says_what_it_gets_and_may_use(tmp_path: Path) -> None:
    (use,) = load_agent(written(tmp_path, PRIVATE)).subagent_uses

    assert (use.slug, use.path, use.tool, use.expose, use.grant) == (
        "helper",
        "helper.yaml",
        "io_prompt",
        ["read_*"],
        [],
    )
    assert (use.input, use.history_messages) == ("history", 5)


def test_the_keys_of_a_kind_that_is_not_here_are_kept_but_not_stored(tmp_path: Path) -> None:
    spec = load_agent(written(tmp_path, PRIVATE))
    web = spec.toolboxes[2]

    assert isinstance(web, PrivateLacking)
    assert web.model_extra == {"command": ["npx", "server"], "env": {"TOKEN": "secret"}}
    assert "secret" not in spec.model_dump_json()
    plain = spec.model_dump(mode="json")
    assert AgentSpec.model_validate(plain).model_dump(mode="json") == plain


def test_an_agent_file_of_any_kind_is_an_agent(tmp_path: Path) -> None:
    files = {
        "a.json": '{"slug": "a", "step_limit": 3}',
        "a.toml": 'slug = "a"\nstep_limit = 3',
        "a.md": "---\nname: a\nmaxTurns: 3\n---\n",
        "a.yml": "slug: a\nstep_limit: 3",
    }

    specs = [load_agent(written(tmp_path, text, name)) for name, text in files.items()]

    assert [(spec.slug, spec.limits.step_limit) for spec in specs] == [("a", 3)] * 4


def test_a_directory_holds_agents_of_every_kind_and_other_files(tmp_path: Path) -> None:
    for name in (
        "a.json",
        "b.toml",
        "c.yaml",
        "d.yml",
        "agentos.toml",
        "agents-exe.cfg.json",
        ".hidden.yaml",
        "tool.sh",
    ):
        written(tmp_path, "slug: x", name)
    written(tmp_path, "---\nname: e\n---\nYou are e.\n", "e.md")
    written(tmp_path, "# What is here\n\n---\n", "README.md")
    (tmp_path / "inner.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")

    assert [path.name for path in agent_files(tmp_path)] == ["a.json", "b.toml", "c.yaml", "d.yml", "e.md"]


def test_a_file_full_of_problems_is_told_in_bounds(tmp_path: Path) -> None:
    started = time.process_time()

    problems = read_agent(written(tmp_path, "\n".join(f"key_{n}: {n}" for n in range(9_000)))).problems

    assert time.process_time() - started < 5
    assert len(problems) == 51
    assert problems[-1].text == "and 8,951 more problems of this file (file_problems_max)"
    twice = read_agent(
        written(tmp_path, "{" + ", ".join(f'"a": {n}' for n in range(9_000)) + "}", "twice.json")
    ).problems
    assert len(twice) == 53
    assert any(problem.text == "and 8,949 more problems of this file (file_problems_max)" for problem in twice)
