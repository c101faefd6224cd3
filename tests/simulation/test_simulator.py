"""The simulator: one seed tells one story, nothing is broken in it, and it notices when something is."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agentos.components import CallState, CallStatus
from agentos.effects import Runner
from agentos.events.intake import CallReport, Item
from agentos.ids import LogId
from agentos.kernel import Kernel
from agentos.kernel.host import LiveHost
from agentos.testing.invariants import InvariantBroken
from agentos.testing.simulate import RATES, Simulation, main, simulate
from agentos.world import Slice, World

SEEDS = tuple(range(1, 9))
ROUNDS = 100


def told(seed: int, rounds: int, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "agentos.testing.simulate", "--seed", str(seed), "--rounds", str(rounds)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_the_same_seed_tells_the_same_story_in_every_process() -> None:
    once, again = told(2, 60, "0"), told(2, 60, "1")

    assert once == again
    assert len(bytes.fromhex(once[-1])) == 32


def test_another_seed_tells_another_story() -> None:
    assert simulate(1, 20).digest != simulate(2, 20).digest


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_broken_whatever_happens(seed: int) -> None:
    report = simulate(seed, ROUNDS)

    assert report.counts["ticks checked"] > ROUNDS
    assert report.counts["requests checked"] > 10
    assert report.counts["tool runs"] > 10


def test_every_kind_of_fault_is_met() -> None:
    expected = {f"{point} {kind}" for point, kinds in RATES.items() for kind in kinds}
    met: set[str] = set()
    for seed in SEEDS:
        simulation = Simulation(seed)
        simulation.run(ROUNDS)
        met |= simulation.plan.counts().keys()

    assert expected - met == set()


def test_the_command_prints_a_table_and_the_digest_at_last(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--seed", "4", "--rounds", "20"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert lines[-1] == simulate(4, 20).digest
    assert any(line.startswith("ticks checked") for line in lines)


# What it notices: each breaks one thing on purpose.


def broken(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, replacement: Any) -> str:
    monkeypatch.setattr(target, name, replacement)
    with pytest.raises(InvariantBroken) as caught:
        _all_seeds()
    return str(caught.value)


def _all_seeds() -> None:
    for seed in SEEDS:
        simulate(seed, ROUNDS)


def test_a_slot_that_is_not_given_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = broken(monkeypatch, LiveHost, "give_slot_back", lambda self, log, call: None)

    assert "holds a slot of" in said


def test_a_report_that_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = LiveHost.reported

    def forgetful(self: LiveHost, log: LogId, item: Item) -> None:
        if not isinstance(item, CallReport) or item.call % 5:
            reported(self, log, item)

    said = broken(monkeypatch, LiveHost, "reported", forgetful)

    assert "is started, but nothing runs it and no report came" in said


def test_an_effect_that_runs_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Runner.start

    def eager(self: Runner, effect: Any) -> None:
        start(self, effect)
        start(self, effect)

    said = broken(monkeypatch, Runner, "start", eager)

    assert "runs 2 times, but is wanted 1 times" in said


def test_a_component_that_is_not_what_its_log_says_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    landing = import_module("agentos.kernel.landing")
    apply = landing.apply

    def careless(world: World, slice_: Slice, *more: Any) -> None:
        apply(world, slice_, *more)
        for row in slice_.rows.values():
            state = row.get(CallState)
            if state is not None and state.status is CallStatus.DONE:
                row[CallState] = msgspec.structs.replace(state, attempt=99)

    said = broken(monkeypatch, landing, "apply", careless)

    assert "call_state: the World has" in said


def test_an_acknowledged_input_that_is_not_stored_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hasty(self: Kernel, id_: str, text: str, **more: Any) -> int:
        return 1_000

    said = broken(monkeypatch, Kernel, "send", hasty)

    assert "was acknowledged, stored is []" in said


def test_a_once_tool_that_is_run_again_after_a_crash_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = import_module("agentos.systems.recover")

    said = broken(monkeypatch, recover, "EffectClass", SimpleNamespace(ONCE=None))

    assert "a `once` tool, ran 2 times" in said
