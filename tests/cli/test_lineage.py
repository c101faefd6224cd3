"""lineage: sums, filters, the chain of a call, and frames while another process works."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.support import Cli
from tests.cli.test_interrupt_and_crash import HOLD


def test_sums_stand_at_every_node(shared: Cli) -> None:
    lead = shared.id("lead")

    drawn = shared("lineage", lead, "--sums").out
    data = shared.read("lineage", lead, "--json").data["root"]

    assert drawn.splitlines()[0].endswith("2 calls (1 own), 1 subagent")
    assert (data["calls"], data["total_calls"], data["subagents"], data["total_subagents"]) == (1, 2, 1, 1)
    assert data["own_ms"] < data["ms"]
    assert data["agent"] == "lead"


def test_filters_leave_what_fits_and_count_it_on_stderr(shared: Cli) -> None:
    lead = shared.id("lead")

    found = shared("lineage", lead, "--agent", "helper", "--tool", "count_words")
    data = shared.read("lineage", lead, "--status", "done", "--json").data
    nothing = shared.read("lineage", lead, "--slow", "99999999")

    assert [line.lstrip("│├└─ ").split(" ")[0] for line in found.out.splitlines()] == [
        *("lead", "turn", "step", "call"),
        *("helper", "turn", "step", "call"),
    ]
    assert found.err.startswith("1 of 10 nodes fit")
    assert data["matches"] == 2
    assert len(nothing.out.splitlines()) == 1
    assert nothing.err.startswith("0 of ")
    assert shared.read("lineage", lead).err == ""


def test_path_is_the_chain_of_a_call_root_first(shared: Cli) -> None:
    ((call,),) = shared.rows(
        "select id from tool_calls where tool = 'count_words' and conversation in"
        " (select id from conversations where depth = 1)"
    )

    lines = shared("lineage", "--path", call).out.splitlines()
    data = shared.read("lineage", "--path", call, "--json").data["path"]

    assert lines[0].startswith(f"lead {shared.id('lead')}  idle")
    assert lines[-1].startswith(f"{' ' * 10}count_words {call}  done, ")
    assert [link["type"] for link in data] == ["conversation", "turn", "call"] * 2
    assert data[-1]["id"] == call


def test_follow_of_a_settled_conversation_prints_its_last_turn_and_ends(shared: Cli) -> None:
    lead = shared.id("lead")

    lines = shared("lineage", lead, "--follow").out.splitlines()
    frames = [json.loads(line) for line in shared.read("lineage", lead, "--follow", "--json").out.splitlines()]
    calls = [
        json.loads(line)
        for line in shared.read("lineage", lead, "--follow", "--tool", "count_words", "--json").out.splitlines()
    ]

    assert len(lines) == len(frames)
    assert lines[0].split("  ")[1:] == ["lead", "turn 3", "started"]
    assert "lead > helper  call 6 count_words  done, " in "\n".join(lines)
    steps = [line.split("  ")[2:] for line in lines if "lead > helper  step" in line]
    assert [what for what, status, *_ in steps if status == "started"] == ["step 0", "step 1"]
    assert len(steps) == 4
    assert [frame["step"] for frame in frames if frame["kind"] == "step" and frame["agents"] == ["lead"]] == [
        0,
        0,
        1,
        1,
    ]
    assert (frames[-1]["kind"], frames[-1]["status"], frames[-1]["agents"]) == ("turn", "completed", ["lead"])
    assert [(frame["agents"], frame["status"]) for frame in calls] == [
        (["lead", "helper"], "started"),
        (["lead", "helper"], "done"),
    ]


def test_follow_sees_another_process_through_to_the_end_of_the_turn(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("EFFECT", "pure"), executable=True)
    project.write("agents/lead.yaml", "slug: lead\nmodel: direct\nsubagents: [helper]\n")
    with project.start("run", "-a", "lead", "-p", "ask_helper task=hold") as running:
        project.until((project.folder / "effects").exists)
        with project.start("lineage", project.id("lead"), "--follow", "--json") as following:
            assert following.stdout is not None
            frames: list[dict[str, Any]] = []
            while not frames or frames[-1]["name"] != "hold":
                frames.append(json.loads(following.stdout.readline()))
            (project.folder / "go").touch()
            frames += [json.loads(line) for line in following.stdout]
            following.wait(60)
        running.communicate(timeout=60)

    assert [(frame["name"], frame["status"]) for frame in frames if frame["kind"] == "call"] == [
        ("ask_helper", "started"),
        ("hold", "started"),
        ("hold", "done"),
        ("ask_helper", "done"),
    ]
    assert frames[-1]["status"] == "completed"
    assert (following.returncode, running.returncode) == (0, 0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "name a conversation, turn or call"),
        (["x", "--path", "y"], "leave out the other one"),
        (["--path", "y", "--follow"], "leave out --follow"),
        (["--path", "y", "--agent", "lead"], "leave out --follow"),
        (["x", "--slow", "-1"], ""),
    ],
)
def test_what_makes_no_sense_is_refused(shared: Cli, words: list[str], why: str) -> None:
    assert why in shared.read("lineage", *words, code=2).err
