"""A kernel's life in a process of its own, which ends by SIGKILL in the middle of whatever its tools do.

The child does the steps and tells each on a line of its stdout. Where the scenario says `kill` it tells its last words and
stands still, its event loop too; then the parent kills it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from agentos.testing.scenario_boxes import environment
from agentos.testing.scenario_file import Scenario, load_scenario
from agentos.testing.scenario_life import Carried, Life
from agentos.testing.scenario_result import StepResult
from agentos.testing.scenario_steps import Tell, live
from agentos.testing.scenario_world import at_work

MODULE = "agentos.testing.scenario_child"
Line = StepResult | Carried


class Job(msgspec.Struct, kw_only=True):
    """What a child has to know: which steps of which scenario, and what the lives before it left."""

    file: str
    folder: str
    number: int
    first: int
    last: int
    carried: Carried
    url: str


def live_in_child(
    scenario: Scenario, folder: Path, number: int, steps: range, carried: Carried, tell: Tell, url: str
) -> Carried | None:
    """Has a child do these steps, then kills it; None when a step failed."""
    job = Job(
        file=str(scenario.path.absolute()),
        folder=str(folder),
        number=number,
        first=steps.start,
        last=steps.stop,
        carried=carried,
        url=url,
    )
    with subprocess.Popen(
        [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as child:
        try:
            return _listen(scenario, child, job, tell)
        finally:
            child.kill()


def _listen(scenario: Scenario, child: subprocess.Popen[bytes], job: Job, tell: Tell) -> Carried | None:
    assert child.stdin is not None and child.stdout is not None, "both are pipes"
    child.stdin.write(msgspec.json.encode(job) + b"\n")
    child.stdin.flush()
    ok = True
    for line in child.stdout:
        told = msgspec.json.decode(line, type=Line)
        if isinstance(told, StepResult):
            tell(told)
            ok = told.ok
        else:
            tell(_killed(scenario, child, job, told))
            return told
    if ok:
        raise RuntimeError(f"the child process ended by itself, with code {child.wait()}")
    return None


def _killed(scenario: Scenario, child: subprocess.Popen[bytes], job: Job, last: Carried) -> StepResult:
    child.send_signal(signal.SIGKILL)
    code = child.wait()
    line = scenario.line(job.last - 1)
    wrong = [] if code == -signal.SIGKILL else [f"the process ended with {code}, not by the signal"]
    saw = f"SIGKILL {at_work(last.world)}: the process ended by signal {-code}"
    return StepResult(life=job.number, line=line, word="kill", saw=[saw], wrong=wrong, child=True)


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    asyncio.run(_live(job))


async def _live(job: Job) -> None:
    life = Life(load_scenario(Path(job.file)), Path(job.folder), job.carried, url=job.url)
    await life.open()
    if not await live(life, job.number, range(job.first, job.last), _tell, child=True):
        await life.crash()
        return
    _tell(life.last_words())
    sys.stdin.buffer.read()  # stands still: the kill finds all as it is. When the parent is gone, this ends.
    os._exit(1)


def _tell(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
