"""The live line: what an open turn is doing, on stderr, where a person looks on."""

from __future__ import annotations

import asyncio
from typing import Any

from agentos.errors import ModelError
from agentos.interfaces.cli.progress import progress_of
from agentos.toolboxes.python import tool
from tests.cli.person import at_a_terminal
from tests.cli.support import Cli
from tests.support import Lab, Mind, call, calls, hang, lab

HOLD = """#!/bin/sh
[ "$1" = describe ] && { echo '{"slug": "hold", "description": "waits for the file go", "args": []}'; exit; }
touch held
while [ ! -e go ]; do sleep 0.02; done
echo released
"""
SHOWN = "step 1 · hold running · "


def test_it_is_drawn_for_long_work_and_gone_before_the_answer(project: Cli) -> None:
    project.write("tools/hold", HOLD, executable=True)

    with at_a_terminal(project, "run", "-p", "hold") as person:
        person.sees(SHOWN)
        (project.folder / "go").touch()
        code = person.leaves()

    assert code == 0
    drawn, _, after = person.raw.rpartition(SHOWN)
    assert after.rpartition("\r\x1b[K")[2].startswith("hold: released")
    assert "\n" not in drawn


def test_nobody_sees_it_in_a_pipe_or_where_animations_are_unwanted(project: Cli) -> None:
    project.write("tools/hold", HOLD.replace("touch held", "sleep 1.5; touch go"), executable=True)

    piped = project("run", "-p", "hold")
    (project.folder / "go").unlink()
    with at_a_terminal(project, "run", "-p", "hold", env={"NO_COLOR": "1"}) as person:
        person.leaves()

    assert len(piped.err.splitlines()) == 1
    assert "running" not in person.seen


async def seen(here: Lab, after_s: float = 0.0) -> str:
    """The line once nothing goes on by itself, so many seconds later."""
    talk = await here.start()
    asked = asyncio.get_running_loop().create_task(talk.ask("go"))
    await here.advance(after_s)
    told = progress_of(here.kernel, talk.id)
    await talk.interrupt()
    await asked
    assert progress_of(here.kernel, talk.id) == ""
    return told


@tool(effect="pure")
async def wait() -> str:
    """Wait."""
    return str(await hang())


async def test_it_tells_that_a_model_is_asked_and_for_how_long() -> None:
    async with lab(Mind(hang)) as here:
        assert await seen(here, 12.9) == "step 1 · asking the model · 12 s"


async def test_it_tells_the_tools_that_run_and_the_tokens_so_far() -> None:
    mind = Mind(calls(*[call("wait")] * 5))

    async with lab(mind, [wait]) as here:
        told = await seen(here)

    assert told == "step 1 · wait running, wait running, wait running, 2 more · 0 s · 10+5 tokens"


async def test_it_tells_what_waits_for_a_person() -> None:
    options: dict[str, Any] = {"policy": [{"tool": "wait", "verdict": "ask"}], "approval": "park"}

    async with lab(Mind(calls(call("wait"))), [wait], **options) as here:
        assert await seen(here) == "step 1 · wait waiting for approval · 0 s · 10+5 tokens"


async def test_it_tells_when_a_busy_model_is_asked_again() -> None:
    async with lab(Mind(ModelError("rate_limit", "later", retry_after_s=30))) as here:
        assert await seen(here, 10) == "step 1 · model busy, again in 20 s · 10 s"


async def test_subagents_are_a_number_and_what_the_last_one_does() -> None:
    lead = Mind(calls(call("ask_sub", task="one"), call("ask_sub", task="two")))

    async with lab(lead, others={"sub": (Mind(hang, hang), {})}, subagents=["sub"]) as here:
        told = await seen(here)

    assert told == (
        "step 1 · ask_sub running, ask_sub running · 0 s · 10+5 tokens · 2 subagents, sub: asking the model"
    )
