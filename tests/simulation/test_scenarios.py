"""Every scenario holds, and a scenario that does not hold, or makes no sense, says where."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import psutil
import pytest

from agentos.components import EffectClass
from agentos.errors import ConfigurationError
from agentos.testing import scenario_life
from agentos.testing.clock import ManualClock
from agentos.testing.scenario import find_scenarios, run_scenario
from agentos.testing.scenario_file import load_scenario
from agentos.testing.scenario_life import Carried, Life, StepFailed
from agentos.testing.scenario_result import ScenarioResult
from agentos.testing.scenario_tools import Effect, Outside, Run
from agentos.testing.scenario_words import Expect, Step
from tests.processes import new_processes, own_children

NAMED = {
    "hostile_script",
    "lua_escapes",
    "shared_process_300",
    "approval_parked_over_a_restart",
    "cancel_with_two_of_three_running",
    "crash_and_resume",
    "limits",
    "parallel_calls",
    "raising_system",
    "reuse",
    "self_call",
    "shared_toolbox",
    "single_turn",
    "subagent",
    "tool_failure",
    "two_processes",
}
CHECKS = ["invariants", "lineage", "world", "replay", "verify", "once"]

PAYING = """title: A payment
store: sqlite
toolboxes:
  bank:
    tools:
      pay: [append, hold]
agents:
  - slug: clerk
    toolboxes: [bank]
    script:
      - calls: [{tool: pay, arguments: {text: "{input}"}}]
      - text: "{results}"
steps:
  - start: clerk
  - ask: {text: a, background: true}
  - wait_for: {held: 1}
"""

Write = Callable[[str], Path]


class Held(msgspec.Struct, frozen=True):
    """What a process holds now."""

    tasks: int
    files: int
    threads: int
    children: int
    temporary: int


def held(temporary: Path) -> Held:
    gc.collect()
    tasks = [found for found in gc.get_objects() if isinstance(found, asyncio.Task) and not found.done()]
    return Held(
        len(tasks),
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(psutil.Process().children(recursive=True)),
        len(list(temporary.rglob("*"))),
    )


class Session(msgspec.Struct):
    """All scenarios, one after the other in one process."""

    results: Mapping[str, ScenarioResult]
    before: Held
    after: Held


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    temporary = tmp_path_factory.mktemp("scenarios")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        before = held(temporary)
        results = {path.stem: run_scenario(path) for path in find_scenarios()}
        after = held(temporary)
        for _ in range(3_000):  # a dropped store lets its threads end by themselves
            if after == before:
                break
            time.sleep(0.02)
            after = held(temporary)
        yield Session(results, before, after)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_(text: str) -> Path:
        path = tmp_path / "a.yaml"
        path.write_text(text)
        return path

    return write_


@pytest.mark.parametrize("name", [path.stem for path in find_scenarios()])
def test_a_scenario_holds(session: Session, name: str) -> None:
    result = session.results[name]

    assert result.failed == [], result.text()
    assert [step.word for step in result.steps if not step.line] == CHECKS
    assert result.skipped == 0


def test_the_named_scenarios_are_there() -> None:
    assert {path.stem for path in find_scenarios()} >= NAMED


def test_all_scenarios_give_everything_back(session: Session) -> None:
    assert session.after == session.before


def test_crash_and_resume_tells_what_a_stranger_has_to_know(session: Session) -> None:
    text = session.results["crash_and_resume"].text()

    assert "kernel 1, in a child process:" in text
    assert "SIGKILL while pay ran: the process ended by signal 9" in text
    assert text.count("the effect file has 1 line: invoice 17") == 2
    assert "1 call of clerk in doubt after the crash: pay (call_" in text
    assert "clerk ended: completed" in text


def test_a_wrong_expectation_fails_and_names_its_step(write: Write) -> None:
    result = run_scenario(write(PAYING + "  - expect: {effects: [b]}\n  - release: pay\n"))

    assert [(step.word, step.line, step.wrong) for step in result.failed] == [
        ("expect", 17, ['the effect file has 1 line: a, expected ["b"]'])
    ]
    assert result.skipped == 1
    assert "a.yaml:17: expect; 1 step not run" in result.text()


def test_a_wrong_expectation_in_a_child_process_fails_the_same_way(write: Write) -> None:
    before = own_children()
    result = run_scenario(write(PAYING + "  - expect: {calls: {done: 1}}\n  - kill\n  - reopen\n"))

    assert [(step.word, step.line, step.child) for step in result.failed] == [("expect", 17, True)]
    assert result.skipped == 2
    assert new_processes(before) == []


def test_what_is_waited_for_in_vain_fails_and_says_how_it_stands(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_life, "ROUNDS", 300)

    result = run_scenario(write(PAYING + "  - wait_for: {ended: clerk, held: 2}\n"))

    assert [step.wrong for step in result.failed] == [
        ["it never came true: held is 1, not 2", "it never came true: clerk is running"]
    ]


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (("title:", "titel:"), 1, "unknown key 'titel'; did you mean title?"),
        (("wait_for:", "wait_fro:"), 16, "unknown key 'wait_fro'; did you mean wait_for?"),
        (("held: 1", "hold: 1"), 16, "unknown key 'hold'"),
        (("slug: clerk", "slug: clerk\n    tools: [bank]"), 9, "unknown key 'tools'"),
        (("[append, hold]", "[append, hodl]"), 6, "Input should be 'append', 'count' or 'hold'"),
        (("held: 1", "entry: call.begun"), 16, "no entry is of kind 'call.begun'"),
        (("  - start", "  - {crash: {}, kill: {}}\n  - start"), 14, "a step is one of start, ask"),
        (("  - start", "  - reopen\n  - start"), 1, "step 1: reopen comes right after crash, kill or close"),
        (("  - wait", "  - kill\n  - wait"), 1, "step 4: after crash, kill or close comes reopen"),
        (("title:", "settings: {depth: 3}\ntitle:"), 1, "no setting 'depth'"),
        (("title:", "systems: [os.system]\ntitle:"), 1, "no system 'os.system'; there are raises_on_boom"),
        (("store: sqlite", "store: memory"), 1, "kill and command need 'store: sqlite'"),
        (("- text: ", "- txet: "), 10, "Object contains unknown field `txet`"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_file_and_line(
    write: Write, change: tuple[str, str], line: int, said: str
) -> None:
    path = write((PAYING + "  - kill\n").replace(*change, 1))

    with pytest.raises(ConfigurationError) as refused:
        run_scenario(path)

    assert f"{path}:{line}:" in str(refused.value)
    assert said in str(refused.value)


def test_agents_and_toolboxes_that_do_not_fit_together_are_refused_before_anything_runs(write: Write) -> None:
    path = write(PAYING.replace("toolboxes: [bank]", "toolboxes: [bnak]\n    subagents: [boss]"))

    with pytest.raises(ConfigurationError, match=f"{path}: agent clerk: no toolbox 'bnak' is open; open: bank"):
        run_scenario(path)


def test_a_folder_that_is_not_empty_is_refused(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not empty"):
        run_scenario(write(PAYING), folder=tmp_path)


def test_the_page_for_people_names_every_step_and_every_expectation() -> None:
    page = (find_scenarios()[0].parent / "README.md").read_text()

    steps = [field.alias or name for name, field in Step.model_fields.items()]
    words = [*steps, *Expect.model_fields, *(path.stem for path in find_scenarios())]
    assert [word for word in words if f"`{word}" not in page and f"[{word}]" not in page] == []


def test_a_call_that_ran_twice_is_found(tmp_path: Path) -> None:
    outside = Outside(tmp_path, ManualClock(), [], {})
    for attempt, effect in ((1, EffectClass.PURE), (2, EffectClass.PURE), (1, EffectClass.ONCE), (2, EffectClass.ONCE)):
        outside.note(Run(f"call of {effect.value}", attempt, "pay", effect))
    assert outside.ran_twice() == ["pay (call of once), a `once` tool, ran 2 times"]

    outside.note(Run("call of pure", 2, "pay", EffectClass.PURE))
    outside.append(Effect("a", "pay", "call of pure"))

    assert outside.ran_twice()[0] == "attempt 2 of pay (call of pure) ran 2 times"
    assert [effect.text for effect in outside.effects()] == ["a"]


def test_a_world_that_is_not_found_again_is_named_component_by_component(write: Write, tmp_path: Path) -> None:
    scenario = load_scenario(write(PAYING))

    async def crashed() -> Carried:
        life = Life(scenario, tmp_path, Carried())
        await life.open()
        await life.kernel.start("clerk")
        return await life.crash()

    async def reopened(carried: Carried) -> str:
        life = Life(scenario, tmp_path, carried)
        await life.open()
        try:
            return await life.world_as_before()
        finally:
            await life.close()

    before = asyncio.run(crashed())
    assert asyncio.run(reopened(before)).startswith("the World is as it was before: 9 components of 3 entities")

    (conversation,) = [entity for entity in before.world if entity.startswith("conversation_")]
    before.world[conversation]["conversation_state"]["turns"] = 7
    with pytest.raises(StepFailed, match=f"{conversation}, conversation_state: before .*7"):
        asyncio.run(reopened(before))


BESIDE = PAYING.replace("steps:", "processes: [one, two]\nsteps:")


def test_two_processes_tell_who_has_what_and_what_a_frozen_one_may_not_do(session: Session) -> None:
    text = session.results["two_processes"].text()

    assert "process second:" in text
    assert " ".join(text.split()).count("at work in another process (process first)") == 2
    assert "SIGSTOP: first stands still" in text
    assert "calls of clerk: done 2, unknown 1" in text
    assert not re.search(r"pid \d", text)


def test_a_process_is_killed_and_comes_back_while_another_takes_over(write: Write) -> None:
    before = own_children()
    steps = """  - kill
  - {in: two, recover: }
  - {in: two, wait_for: {ended: clerk}}
  - reopen
  - {ask: again, refused: at work in another process (process two)}
  - {in: two, close: }
  - ask: {text: b, background: true}
  - wait_for: {held: 1}
  - release: pay
  - wait_for: {ended: clerk}
  - expect: {effects: [a, b], calls: {done: 1, unknown: 1}}
"""
    script = '      - calls: [{tool: pay, arguments: {text: "{input}"}}]\n      - text: "{results}"\n'
    result = run_scenario(write(BESIDE.replace(script, script * 2) + steps))

    assert result.failed == [], result.text()
    assert "process one, kernel 2:" in result.text()
    assert new_processes(before) == []


def test_a_step_that_is_not_refused_though_it_should_be_fails(write: Write) -> None:
    before = own_children()
    result = run_scenario(write(BESIDE + "  - {in: two, send: b, refused: [at work, nobody]}\n  - freeze\n"))

    assert [(step.word, step.process, step.wrong) for step in result.failed] == [
        ("send", "two", ["it was not refused: at work", "it was not refused: nobody"])
    ]
    assert new_processes(before) == []


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("  - {in: three, recover: }\n", "step 4: no process 'three'; there are one, two"),
        ("  - {declare_dead: three, in: two}\n", "step 4: no process 'three'; there are one, two"),
        ("  - crash\n", "step 4: crash: the process one is here; with processes, a kernel ends by kill or close"),
        ("  - freeze\n  - recover\n", "step 5: recover: the process one is frozen"),
        ("  - close\n  - kill\n", "step 5: kill: the process one is gone"),
        ("  - thaw\n", "step 4: thaw: the process one is here"),
        ("  - {recover: , freeze: }\n", "a step is one of start, ask"),
    ],
)
def test_steps_of_processes_that_make_no_sense_are_refused(write: Write, steps: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        load_scenario(write(BESIDE + steps))


def test_steps_for_one_of_several_processes_need_several(write: Write) -> None:
    with pytest.raises(ConfigurationError, match="this needs 'processes"):
        load_scenario(write(PAYING + "  - {in: two, recover: }\n"))


def test_a_scenario_runs_on_another_store_that_is_empty(write: Write, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    path = write(PAYING + "  - kill\n  - reopen\n  - recover\n  - wait_for: {ended: clerk}\n")
    result = run_scenario(path, store=url)

    assert result.failed == [], result.text()
    assert (tmp_path / "elsewhere.db").exists()
    with pytest.raises(ConfigurationError, match="a scenario begins with nothing"):
        run_scenario(path, store=url)


CROWD = """
title: A crowd
toolboxes:
  bank: {tools: {pay: append}}
agents:
  - slug: clerk
    copies: 3
    toolboxes: [bank]
    script:
      - calls: [{tool: pay, arguments: {text: "{input}"}}]
      - text: "{results}"
steps:
  - crowd: {agent: clerk, text: "{agent}", says: "SAYS"}
  - expect: {effects: 3}
"""


def test_every_answer_of_a_crowd_is_compared(write: Write) -> None:
    good = run_scenario(write(CROWD.replace("SAYS", "wrote {agent}")))
    wrong = run_scenario(write(CROWD.replace("SAYS", "wrote clerk-002")))

    assert good.failed == [], good.text()
    assert [step.wrong[0] for step in wrong.failed] == ["2 of 3 answers are wrong"]
    assert "clerk-003, round 1: completed, 'wrote clerk-003', expected 'wrote clerk-002'" in wrong.failed[0].wrong


def test_processes_that_are_left_are_counted_and_a_file_is_waited_for(write: Write) -> None:
    path = write(
        """
title: A script that leaves a child
files:
  leave: |
    #!/bin/sh
    case "$1" in
      describe) echo '{"slug": "leave", "args": []}' ;;
      run) sleep 1000 & : > there; wait ;;
    esac
toolboxes:
  scripts: {kind: script, path: leave}
agents:
  - slug: main
    tool_s: 5
    toolboxes: [scripts]
    script:
      - calls: [{tool: leave, arguments: {}}]
      - text: done
steps:
  - start: main
  - ask: {text: go, background: true}
  - wait_for: {file: there}
  - expect: {processes: 2}
  - advance: 6
  - wait_for: {ended: main}
  - expect: {processes: 1}
"""
    )

    result = run_scenario(path)

    assert [step.wrong for step in result.failed] == [["processes below: 0, expected 1"]]


def test_a_command_that_says_something_else_fails_its_step(write: Write) -> None:
    text = CROWD.replace("SAYS", "wrote {agent}").replace("title: A crowd", "title: A crowd\nstore: sqlite")
    result = run_scenario(write(text + '  - command: {run: ps, says: ["no such word"], exit: 3}\n'))

    (failed,) = result.failed
    assert failed.wrong[0] == "it did not say 'no such word'"
    assert failed.wrong[1].startswith("it ended with 0, expected 3")
