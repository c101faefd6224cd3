"""Agent files of agents-exe: who an agent is, what model it has, whom it may ask, and how it is told what is not followed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentos.components import ModelRef, Rule, Verdict
from agentos.definitions import SubagentUse, read_source
from agentos.definitions.agents_exe import is_agents_exe, native
from agentos.definitions.limits import LIMITS
from tests.definitions.agents_exe_support import (
    imported,
    shown,
    spec_of,
    texts,
    whole,
    written,
)


def test_a_model_keeps_its_flavor_address_and_key_by_reference(tmp_path: Path) -> None:
    found = imported(tmp_path, flavor="KimiV1", modelUrl="https://api.example.org/v1", apiKeyId="kimi", modelName="k2")

    assert spec_of(found).model_ref == ModelRef(
        kind="openai",
        name="k2",
        options={"flavor": "KimiV1", "base_url": "https://api.example.org/v1", "api_key": "key:kimi"},
    )


@pytest.mark.parametrize(
    ("given", "flavor", "problems"),
    [
        ("OpenAIv1", "OpenAIv1", []),
        ("openai-v1", "OpenAIv1", []),
        ("mistral-v1", "MistralV1", []),
        ("kimiv1", "KimiV1", []),
        ("claude-v1", "ClaudeV1", []),
        (
            "KimiV2",
            "OpenAIv1",
            [
                (
                    "warning: flavor: 'KimiV2' is none of OpenAIv1, MistralV1, KimiV1, ClaudeV1; did you mean KimiV1?; "
                    "OpenAIv1 is taken"
                )
            ],
        ),
    ],
)
def test_a_flavor_has_several_spellings_and_an_unknown_one_is_not_taken_in_silence(
    tmp_path: Path, given: str, flavor: str, problems: list[str]
) -> None:
    found = imported(tmp_path, flavor=given)

    assert spec_of(found).model_ref.options["flavor"] == flavor
    assert texts(found) == problems


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org", "an address that begins with http:// or https:// is needed"),
        ("api.example.org/v1", "an address that begins with http:// or https:// is needed"),
        ("https://", "an address that begins with http:// or https:// is needed"),
        ("https://[::1", "no address: Invalid IPv6 URL"),
        ("https://a:b@example.org", "it is stored with each conversation; a user or password does not belong in it"),
    ],
)
def test_an_address_that_no_request_can_go_to_is_an_error_that_does_not_show_it(
    tmp_path: Path, url: str, problem: str
) -> None:
    assert texts(imported(tmp_path, modelUrl=url)) == [f"error: modelUrl: {problem}"]


def test_an_empty_key_id_means_requests_without_a_key(tmp_path: Path) -> None:
    found = imported(tmp_path, apiKeyId="")

    assert "api_key" not in spec_of(found).model_ref.options
    assert texts(found) == ["warning: apiKeyId: it is empty, so requests go out without a key"]


def test_the_parts_of_a_prompt_are_the_lines_of_one_text(tmp_path: Path) -> None:
    assert spec_of(imported(tmp_path, systemPrompt=["You help.", "", "Be brief."])).prompt == (
        "You help.\n\nBe brief.",
    )


def test_every_key_that_has_to_be_there_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, {"tag": "OpenAIAgentDescription", "contents": {}})

    found = native(read_source(path))

    keys = ("slug", "announce", "systemPrompt", "modelName", "apiKeyId", "flavor", "modelUrl")
    assert texts(found) == [f"error: the key {key!r} is missing" for key in keys]
    assert {(problem.line, problem.column) for problem in found.problems} == {(3, 3)}


def test_keys_are_the_same_in_camel_pascal_kebab_and_snake_case(tmp_path: Path) -> None:
    def spelled(change: Any) -> dict[str, Any]:
        contents = whole(toolDirectory="tools", extraAgents=[{"slug": "b", "path": "b.json"}])["contents"]
        return {"tag": "OpenAIAgentDescription", "contents": {change(key): value for key, value in contents.items()}}

    def parted(mark: str) -> Any:
        return lambda key: "".join(f"{mark}{letter.lower()}" if letter.isupper() else letter for letter in key)

    changes = [str, lambda key: key[0].upper() + key[1:], parted("-"), parted("_"), str.lower]
    values = [native(read_source(written(tmp_path, spelled(change)))).value for change in changes]

    assert values == [values[0]] * len(changes)


def test_an_unknown_key_is_told_as_it_is_spelled_with_the_near_one(tmp_path: Path) -> None:
    assert shown(imported(tmp_path, systemPromt=1, **{"//": "a note", "Slug": "other"})) == [
        ('"systemPromt": 1', "warning: the key 'systemPromt' is unknown and read past; did you mean systemPrompt?"),
        ('"//": "a note"', "warning: the key '//' is read past, as a comment"),
        ('"Slug": "other"', "warning: 'Slug' is 'slug' once more; the first one is taken"),
    ]


def test_a_file_without_the_envelope_is_taken_as_what_belongs_in_it(tmp_path: Path) -> None:
    found = native(read_source(written(tmp_path, whole()["contents"])))

    assert spec_of(found).slug == "helper"
    assert texts(found) == [
        (
            'warning: no {"tag": "OpenAIAgentDescription", "contents": ...} stands around these keys, as agents-exe has it; '
            "taken as they are"
        )
    ]


def test_another_tag_is_an_error_and_the_rest_is_looked_at_all_the_same(tmp_path: Path) -> None:
    value = {**whole(modelName=7), "tag": "OpenAIAgentDescriptor"}

    assert texts(native(read_source(written(tmp_path, value)))) == [
        (
            "error: tag: 'OpenAIAgentDescriptor' is unknown; agents have 'OpenAIAgentDescription'; "
            "did you mean OpenAIAgentDescription?"
        ),
        "error: modelName: a text is needed here, not a number",
    ]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ({"tag": "OpenAIAgentDescription"}, True),
        ({"tag": "Other", "contents": {}}, True),
        ({"slug": "a", "api-key-id": "x"}, True),
        ({"slug": "a", "model": "openai:small"}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_file_is_meant_for_agents_exe_by_its_envelope_or_its_keys(value: Any, meant: bool) -> None:
    assert is_agents_exe(value) is meant


def test_named_helpers_keep_the_names_of_their_tools(tmp_path: Path) -> None:
    found = imported(
        tmp_path, extraAgents=[{"slug": "a", "path": "./sub/a.json"}, {"slug": "helper", "path": "agent.json"}]
    )

    assert spec_of(found).subagent_uses == (
        SubagentUse(slug="a", path="sub/a.json", tool="io_prompt_agent_a"),
        SubagentUse(slug="helper", path="agent.json", tool="io_prompt_agent_helper"),
    )


def test_agent_files_among_the_tools_are_helpers_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written(tmp_path, whole(slug=name), f"tools/{name}.json")
    written(tmp_path, whole(slug="three"), "more/three.json")
    written(tmp_path, {"not": "an agent"}, "tools/data.json")
    (tmp_path / "tools" / "broken.json").write_text("{")
    boxes = [{"tag": "FileSystemDirectory", "contents": {"Path": "more"}}]

    found = imported(
        tmp_path,
        toolDirectory=str(tmp_path / "tools"),
        bashToolboxes=boxes,
        extraAgents=[{"slug": "one", "path": "tools/one.json"}],
    )

    assert [(use.slug, use.path) for use in spec_of(found).subagent_uses] == [
        ("one", "tools/one.json"),
        ("two", f"{tmp_path}/tools/two.json"),
        ("three", "more/three.json"),
    ]
    assert shown(found) == [
        (
            f'"toolDirectory": "{tmp_path}/tools"',
            f"warning: {tmp_path / 'tools' / name} lies among the tools, and is no agent file; no helper comes of it",
        )
        for name in ("broken.json", "data.json")
    ]


def test_an_agent_whose_tools_lie_beside_it_is_no_helper_of_itself(tmp_path: Path) -> None:
    written(tmp_path, whole(slug="other"), "other.json")

    assert [use.slug for use in spec_of(imported(tmp_path, toolDirectory=".")).subagent_uses] == ["other"]


def test_one_slug_for_two_helpers_is_an_error(tmp_path: Path) -> None:
    extra = [{"slug": "a", "path": "a.json"}, {"slug": "a", "path": "b.json"}, {"slug": "a", "path": "./a.json"}]

    found = imported(tmp_path, extraAgents=extra)

    assert [(use.slug, use.path) for use in spec_of(found).subagent_uses] == [("a", "a.json")]
    assert shown(found) == [('"slug": "a"', "error: the helper 'a' is 'a.json' already, and 'b.json' as well")]


@pytest.mark.parametrize("slug", ["", "a b", "-a", "é", "a" * 61])
def test_a_slug_that_cannot_be_ours_is_explained(tmp_path: Path, slug: str) -> None:
    words = "cannot be used: a slug has 1 to 60 letters, digits, - and _, and begins with a letter or digit"

    found = imported(tmp_path, slug=slug, extraAgents=[{"slug": slug, "path": "x.json"}])

    assert texts(found) == [f"error: slug: {slug!r} {words}", f"error: the slug {slug!r} {words}"]


def test_a_helper_whose_tool_would_have_too_long_a_name_is_asked_under_the_short_one(tmp_path: Path) -> None:
    found = imported(tmp_path, extraAgents=[{"slug": "a" * 49, "path": "x.json"}])

    assert spec_of(found).subagent_uses[0].tool is None
    assert texts(found) == [
        f"warning: io_prompt_agent_{'a' * 49} has over 64 characters; the tool is called ask_{'a' * 49}"
    ]


def test_the_time_of_a_call_is_kept(tmp_path: Path) -> None:
    found = imported(tmp_path, asyncCallTimeoutSeconds=900)

    assert spec_of(found).tool_s == 900.0
    assert texts(imported(tmp_path, asyncCallTimeoutSeconds=0)) == [
        "error: asyncCallTimeoutSeconds: a number over 0 is needed here"
    ]


def test_a_policy_is_kept_where_it_means_the_same_and_denies_what_may_not_run_here(tmp_path: Path) -> None:
    config = {
        "default": {"tag": "runSync"},
        "rules": [
            {"tool": "bash_list", "disposition": {"tag": "runSync"}},
            {"tool": "bash_build", "disposition": {"tag": "runAsync"}},
            {"tool": "bash_deploy", "disposition": {"tag": "defer", "reason": "a person"}},
            {
                "tool": "bash_odd",
                "disposition": {"tag": "decorate", "decorators": [{}], "inner": {"tag": "runIsolated", "spec": {}}},
            },
        ],
        "wrappers": [],
    }

    found = imported(tmp_path, toolCallPolicyConfig=config)

    assert spec_of(found).rules == (
        Rule(tool="bash_list", verdict=Verdict.ALLOW),
        Rule(tool="bash_build", verdict=Verdict.ALLOW),
        Rule(tool="bash_deploy", verdict=Verdict.DENY),
        Rule(tool="bash_odd", verdict=Verdict.DENY),
    )
    assert texts(found) == [
        "warning: tag: the call runs, and the model waits for it with the others of its reply",
        "warning: tag: calls that an outside worker finishes are a matter of their tools here; the calls are denied",
        "warning: decorators: limits, retries and labels of single calls are not in this version; read past",
        "warning: tag: workers of their own for calls are not in this version; the calls are denied",
    ]


def test_a_policy_that_defers_everything_denies_everything_and_says_that_its_rules_change_nothing(
    tmp_path: Path,
) -> None:
    config = {"default": {"tag": "defer"}, "rules": [{"tool": "a", "disposition": {"tag": "runSync"}}]}

    found = imported(tmp_path, toolCallPolicyConfig=config)

    assert spec_of(found).rules == (Rule(tool="*", verdict=Verdict.DENY),)
    assert texts(found)[1:] == ["warning: the default is to deny all calls, so this rule changes nothing"]


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ("bash_*", "warning: tool: agents-exe has no patterns here, so this rule is for no tool; read past"),
        ("", "error: tool: the name of a tool has 1 to 128 characters"),
    ],
)
def test_a_rule_for_no_tool_is_told(tmp_path: Path, tool: str, problem: str) -> None:
    config = {"rules": [{"tool": tool, "disposition": {"tag": "runSync"}}]}

    found = imported(tmp_path, toolCallPolicyConfig=config)

    assert "policy" not in found.value
    assert texts(found) == [problem]


def test_keys_of_the_newer_version_that_are_not_followed_are_warned_of_one_by_one(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        executionMode="asynchronous",
        asyncYieldStrategy={"tag": "yieldOnTimeout", "milliseconds": 500},
        maxConcurrency=4,
        parameters=[{"name": "tenant"}],
        bindings=[{"tool": "bash_x", "arg": "tenant_id"}],
        wakeOn=["mail"],
        extraAgents=[{"slug": "a", "path": "a.json", "with": {"x": 1}, "narrowable": False}],
    )

    assert [problem.text.split(":")[0] for problem in found.problems] == [
        "with",
        "maxConcurrency",
        "parameters",
        "bindings",
        "wakeOn",
        "executionMode",
        "asyncYieldStrategy",
    ]
    assert {problem.severity for problem in found.problems} == {"warning"}


def test_values_of_a_wrong_kind_are_told_at_their_places(tmp_path: Path) -> None:
    found = imported(tmp_path, systemPrompt=["a", 7, None], announce=True, extraAgents="a", toolDirectory=1)

    assert shown(found) == [
        ('"announce": true', "error: announce: a text is needed here, not true"),
        ("7", "error: systemPrompt: a text is needed here, not a number"),
        ("null", "error: systemPrompt: a text is needed here, not null"),
        ('"toolDirectory": 1', "error: toolDirectory: a text is needed here, not a number"),
        ('"extraAgents": "a"', "error: extraAgents: a list is needed here, not a text"),
    ]


def test_many_problems_of_one_file_are_cut_and_errors_come_before_warnings(tmp_path: Path) -> None:
    found = imported(tmp_path, **{f"odd{n}": n for n in range(LIMITS.file_problems_max + 5)}, modelName=None)

    assert len(found.problems) == LIMITS.file_problems_max + 1
    assert found.problems[0].text == "the key 'modelName' is missing"
    assert found.problems[-1].text == "and 6 more problems of this file (file_problems_max)"


def test_the_native_form_points_into_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, whole(extraAgents=[{"slug": "a", "path": "a.json"}]))
    lines = path.read_text().splitlines()

    found = native(read_source(path))

    def stands(*keys: str | int) -> str:
        place = found.places[keys]
        return lines[place.line - 1][place.column - 1 :].rstrip(",")

    assert stands("slug") == '"slug": "helper"'
    assert stands("model", "options", "api_key") == '"apiKeyId": "main-key"'
    assert stands("subagents", 0, "path") == '"path": "a.json"'
    assert stands("system_prompt") == '"systemPrompt": ['


def test_the_text_of_a_value_that_may_be_a_secret_is_in_no_problem(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        apiKeyId=["sk-secret"],
        mcpServers=[
            {"tag": "McpSimpleBinary", "contents": {"name": "a", "executable": "x", "env": {"T": "sk-secret"}}}
        ],
        openApiToolboxes=[{"tag": "OpenAPIServer", "contents": {"specUrl": "x", "token": "sk-secret"}}],
    )

    assert "sk-secret" not in json.dumps(texts(found))
