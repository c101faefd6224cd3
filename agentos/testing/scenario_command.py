"""Commands of this program in a scenario: they run in a process of their own, and ask the kernel as any terminal would."""

from __future__ import annotations

import asyncio
import shlex
import sys

from agentos.resources.process import Command as Run
from agentos.resources.process import ProcessLimits, run_process
from agentos.testing.scenario_boxes import environment
from agentos.testing.scenario_life import Life, StepFailed
from agentos.testing.scenario_words import Command

MARK = "scenario"


async def run_command(life: Life, said: Command) -> list[str]:
    """Raises StepFailed when it ends with another code than it should, or does not say what it should."""
    running = asyncio.ensure_future(run_process(_run_of(life, said), ProcessLimits()))
    try:
        await life.until(lambda: [] if running.done() else [f"{said.run} has ended"])
    finally:
        running.cancel()
        await asyncio.wait([running])
    ended = running.result()
    printed, complained = (" ".join(output.take_text().split()) for output in (ended.out, ended.err))
    parts = [said.says] if isinstance(said.says, str) else said.says
    wrong = [f"it did not say {part!r}" for part in parts if part not in printed]
    if ended.code != said.exit:
        wrong.append(f"it ended with {ended.code}, expected {said.exit}: {complained}")
    if wrong:
        raise StepFailed([*wrong, f"it said: {printed}"])
    return [f"agentos {said.run}", printed]


def _run_of(life: Life, said: Command) -> Run:
    words = [sys.executable, "-m", "agentos", *shlex.split(said.run), "--store", life.store.url]
    wide = {**environment(), "COLUMNS": "200", "NO_COLOR": "1"}
    return Run(argv=words, environment=wide, cwd=str(life.folder), mark=MARK)
