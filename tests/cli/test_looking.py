"""check, tree, usage, config, paths, doctor and completion: what a person asks before and after an agent works."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.support import Cli

REAL = Path(__file__).parents[1] / "data" / "agents-exe" / "agents"

SCRIPT = """#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"slug": "greet", "description": "Greets.", "args": []}'
else
    echo hello
fi
"""


# check


def test_check_of_a_good_project_has_a_line_for_each_agent_with_its_tools(project: Cli) -> None:
    assert project("check").out == "helper: Finds and counts. (3 tools)\n"


def test_check_tells_all_problems_of_all_files_with_their_places(project: Cli) -> None:
    project.write("agents/one.yaml", "slug: one\nstep_limt: 3\ntoolboxes: [wrods]\n")
    project.write("agents/two.toml", 'slug = "two"\nsubagents = ["helpr"]\n')

    told = project("check", "--no-tools", code=3).out.splitlines()

    assert [line for line in told if ": error: " in line] == [
        f"{project.folder}/agents/one.yaml:2:1: error: unknown key 'step_limt'; did you mean step_limit?",
        f"{project.folder}/agents/two.toml:2:14: error: no agent 'helpr'; there are helper, one, two; did you mean helper?",
    ]


def test_check_of_a_file_leaves_out_what_else_is_wrong_in_its_project(project: Cli) -> None:
    good = project.write("agents/good.md", "---\nname: good\ndescription: Is good.\n---\nBe good.\n")
    project.write("agents/bad.yaml", "slug: [\n")

    assert project("check", "--no-tools", str(good)).out == "good: Is good.\n"


def test_an_agent_of_the_project_may_be_named_in_place_of_its_file(project: Cli) -> None:
    project.write("agents/other.yaml", "slug: other\n")

    assert project("check", "helper").out == "helper: Finds and counts. (3 tools)\n"
    assert project("tree", "other").out == project("tree", "agents/other.yaml").out
    assert "othr: error: No such file or directory" in project("check", "othr", code=3).out


def test_check_reports_a_toolbox_of_a_kind_that_this_version_lacks(project: Cli) -> None:
    project.write("agents/web.yaml", "slug: web\ntoolboxes: [{name: browser, kind: mcp, executable: npx}]\n")

    told = project("check", code=3).out
    files = project("check", "--no-tools").out

    assert "error: toolbox web/browser (mcp): toolbox kind 'mcp' is not in this version of agentos" in told
    assert "warning: toolboxes of kind 'mcp' are not in this version" in files


def test_check_with_a_script_that_does_not_describe_itself_still_counts_the_others(project: Cli) -> None:
    project.write("tools/broken", "#!/bin/sh\nexit 1\n", executable=True)

    told = project("check").out

    assert "warning: toolbox files (script)" in told
    assert "tools/broken" in told
    assert "helper: Finds and counts. (3 tools)" in told


def test_check_as_json_has_problems_agents_and_toolboxes(project: Cli) -> None:
    project.write("agents/one.yaml", "slug: one\nmodel: opnai:x\n")

    data = project("check", "--json", code=3).data

    assert data["ok"] is False
    assert [(problem["line"], problem["severity"]) for problem in data["problems"]] == [(2, "error")]
    assert data["agents"]["helper"]["tools"] == ["count_words", "find_text", "longest_words"]
    assert {box["name"]: box["status"] for box in data["toolboxes"]} == {"files": "ready", "words": "ready"}


def test_check_of_the_real_files_of_another_system_explains_them_line_by_line(cli: Cli) -> None:
    files = cli("check", "--no-tools", str(REAL / "main")).out
    whole = cli("check", str(REAL / "main"), code=3).out

    assert "main/retro.json:56:13: warning: the capability 'list-sessions' is not in this version; left out" in files
    assert "oneshot: An expert programmer that can write, read, and check Haskell code." in files
    assert "error: toolbox oneshot/tools/dev/read (script)" in whole
    assert "error: toolbox oneshot/dev (developer): toolbox kind 'developer' is not in this version" in whole


def test_check_without_a_project_says_what_to_do(cli: Cli) -> None:
    assert "name the files to look at" in cli("check", code=3).err


# tree


def test_tree_draws_who_may_ask_whom_and_the_ways_back(cli: Cli) -> None:
    drawn = cli("tree", str(REAL / "main" / "issuer.json")).out.splitlines()

    assert drawn[0] == "issuer  [openai:kimi-k2.5]"
    assert drawn[-5:] == [
        "└─ retro  [openai:kimi-k2.5]",
        "   ├─ toolbox dev (developer)",
        "   ├─ toolbox sessions (system)",
        "   ├─ faq (drawn above)",
        "   └─ ↺ issuer",
    ]


def test_tree_draws_the_self_and_mutual_references_of_a_folder(cli: Cli) -> None:
    drawn = cli("tree", str(REAL / "main")).out

    for line in ("↺ architect (itself)", "↺ oneshot (itself)", "↺ oneshot-rlm (itself)", "↺ issuer"):
        assert line in drawn
    assert drawn.count("faq  [openai") == 1


def test_tree_lists_tools_when_asked_and_circles_as_json(project: Cli) -> None:
    project.write("agents/helper.yaml", "slug: helper\ntoolboxes: [words]\nsubagents: [lead]\n")
    project.write("agents/lead.yaml", "slug: lead\nsubagents: [helper]\n")

    drawn = project("tree", "--tools").out
    data = project("tree", "--json").data

    assert "├─ tools: ask_lead, count_words, longest_words" in drawn
    assert data["cycles"] == [["helper", "lead", "helper"]]


# usage


def test_usage_counts_by_agent_and_sums(shared: Cli) -> None:
    head, *lines = (line.split() for line in shared("usage").out.splitlines())

    assert head == ["agent", "turns", "steps", "calls", "input_tokens", "output_tokens"]
    assert [line[0] for line in lines] == ["helper", "lead", "total"]
    sums = [sum(int(line[place]) for line in lines[:-1]) for place in range(1, 6)]
    assert sums == [int(word) for word in lines[-1][1:]]


def test_usage_by_toolbox_counts_calls_and_how_they_ended(shared: Cli) -> None:
    rows = {row["toolbox"]: row for row in shared.read("usage", "--by", "toolbox", "--json").data["rows"]}

    assert (rows["words"]["calls"], rows["words"]["done"], rows["words"]["failed"]) == (2, 2, 0)
    assert rows["subagents"]["calls"] == 1


def test_usage_by_model_root_and_day_has_the_same_sums(shared: Cli) -> None:
    def turns(by: str) -> int:
        return sum(row["turns"] for row in shared.read("usage", "--by", by, "--json").data["rows"])

    assert [turns(by) for by in ("agent", "model", "root", "day")] == [3, 3, 3, 3]
    assert [row["model"] for row in shared.read("usage", "--by", "model", "--json").data["rows"]] == ["direct"]
    assert len(shared.read("usage", "--by", "root", "--json").data["rows"]) == 2


# config, paths, doctor, completion


def test_config_shows_where_each_value_is_said(project: Cli) -> None:
    (project.folder / "agentos.toml").write_text('store = "sqlite:///mine.db"\n[settings]\ndepth_max = 3\n')
    project.write("agents/.keep", "")

    said = {value["key"]: value for value in project("config", "--json").data["values"]}
    flagged = {value["key"]: value for value in project("config", "--json", "--store", "memory:").data["values"]}
    named = project("config", "--show-origin", env={"AGENTOS_STORE": "sqlite:///other.db"}).out

    toml = f"{project.folder}/agentos.toml"
    assert (said["settings.depth_max"]["value"], said["settings.depth_max"]["origin"]) == (3, f"{toml}:3")
    assert said["settings.children_max"]["origin"] == "default"
    assert said["store"]["origin"] == f"{toml}:1"
    assert (flagged["store"]["value"], flagged["store"]["origin"]) == ("memory:", "--store")
    assert "environment AGENTOS_STORE" in named


def test_paths_tells_what_is_there_and_what_is_not(project: Cli) -> None:
    found = {place["what"]: place for place in project("paths", "--json").data["paths"]}

    assert found["project"]["there"]
    assert found["agent helper"]["path"].endswith("agents/helper.yaml")
    assert not found["store"]["there"]


def test_doctor_finds_a_good_project_in_order(project: Cli) -> None:
    told = project("doctor", "--json").data

    assert told["ok"]
    assert {finding["what"] for finding in told["findings"]} >= {"python", "agentos", "sqlite", "store", "agents"}


def test_doctor_names_the_key_that_is_missing_and_shows_none(project: Cli) -> None:
    project.write("agents/far.yaml", "slug: far\nmodel: {kind: openai, name: m, options: {api_key: 'key:main'}}\n")
    project.write("agents/near.yaml", "slug: near\nmodel: {kind: openai, name: m, options: {api_key: 'env:MY_KEY'}}\n")
    project.write("keys.json", json.dumps({"keys": [{"id": "other", "value": "canary-5521"}]}))

    told = project("doctor", env={"AGENTOS_KEYS": str(project.folder / "keys.json"), "MY_KEY": "canary-5522"})

    assert "key of far: no key 'main' in" in told.out
    assert "key of near: env:MY_KEY" in told.out
    assert "canary" not in told.out + told.err


def test_doctor_fails_for_a_project_that_does_not_load(project: Cli) -> None:
    (project.folder / "agentos.toml").write_text("store = [\n")

    assert "error" in project("doctor", code=1).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_commands(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).out

    for name in ("run", "lineage", "usage", "doctor"):
        assert name in script


def test_the_completion_of_bash_completes_a_command(cli: Cli) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    import subprocess

    script = cli("completion", "bash").out
    asked = f'{script}\nCOMP_WORDS=(agentos lin); COMP_CWORD=1; _agentos; echo "${{COMPREPLY[@]}}"'
    ended = subprocess.run([bash, "-c", asked], capture_output=True, text=True, check=True)

    assert "lineage" in ended.stdout.split()


# --log-file and --without


def test_the_log_file_of_a_run_has_frames_and_nothing_that_was_said(project: Cli) -> None:
    project("run", "-p", 'count_words text="violet canary"', "--log-file", "effects.jsonl")

    lines = [json.loads(line) for line in (project.folder / "effects.jsonl").read_text().splitlines()]

    call = next(line for line in lines if line["what"] == "call" and line["phase"] == "ended")
    assert (call["name"], call["end"]) == ("count_words", "done")
    assert call["path"].endswith(call["call"])
    assert "canary" not in (project.folder / "effects.jsonl").read_text()


def test_run_refuses_a_toolbox_in_state_error_until_it_is_left_out(project: Cli) -> None:
    project.write("agents/web.yaml", "slug: web\ntoolboxes: [words, {name: browser, kind: mcp, executable: npx}]\n")
    asked = ("run", "-a", "web", "-p", 'count_words text="a b"')

    refused = project(*asked, code=3).err
    wrong = project(*asked, "--without", "brwser", code=2).err
    answered = project(*asked, "--without", "browser").out

    assert "agent web: toolbox web/browser: toolbox kind 'mcp' is not in this version of agentos" in refused
    assert "--without NAME" in refused
    assert "no agent here uses such a toolbox" in wrong
    assert answered.strip() == 'count_words text="a b": 2'


def test_run_does_not_mind_a_broken_toolbox_of_an_agent_that_is_not_asked(project: Cli) -> None:
    project.write("agents/web.yaml", "slug: web\ntoolboxes: [{name: browser, kind: mcp, executable: npx}]\n")

    told = project("run", "-a", "helper", "-p", 'count_words text="a b"').out

    assert told.strip() == 'count_words text="a b": 2'
