"""Scripts as the tools of an agent: what the log and the model get of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agentos.components import Verdict
from agentos.events.model import ToolCall
from agentos.kernel.rest import open_requests
from agentos.resources.process.process import ProcessLimits
from agentos.toolboxes.script import ScriptToolbox
from tests.support import Mind, call, calls, entries_of, lab, until
from tests.toolboxes.test_script_portal import ASK, TOOL

Write = Callable[..., Path]


def box(folder: Path) -> ScriptToolbox:
    return ScriptToolbox("scripts", directories=[folder / "scripts"], cwd=folder, limits=ProcessLimits(progress_s=0.0))


async def test_the_progress_of_a_script_stands_in_the_log(script: Write, tmp_path: Path) -> None:
    script("work", "echo begun; until [ -e go ]; do sleep 0.01; done; echo ended", progress=True)
    async with lab(Mind(calls(call("work")), "done"), toolboxes=[box(tmp_path)]) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: entries_of(conversation, "call.progress"))
        (tmp_path / "go").touch()
        await asked

        told = [entry.private[0][1] for entry in await entries_of(conversation, "call.progress")]

    assert told[0] == {"line": "begun"}


async def test_a_picture_is_one_line_for_the_model_and_whole_in_the_store(script: Write, tmp_path: Path) -> None:
    script("draw", "head -c 5000 /dev/zero", **{"output-media-type": "image/png"})
    mind = Mind(calls(call("draw")), "done")
    async with lab(mind, toolboxes=[box(tmp_path)]) as here:
        conversation = await here.start()
        await conversation.ask("go")

        (finished,) = await entries_of(conversation, "call.finished")

    line = "(image/png, 5,000 bytes that are no text: they are kept with the call, not shown here)"
    assert mind.results == [line]
    assert finished.private[0][1] == line
    assert any(str(body).startswith("data:image/png;base64,AAAA") for _, body in finished.private)


async def test_what_a_script_calls_is_judged_like_a_call_of_the_model(script: Write, tmp_path: Path) -> None:
    script("asking", ASK, TOOL, portal=True)
    number = [{**TOOL[0], "name": "n"}]
    script("secret", "echo told", number)
    script("open", 'echo "open to $1"', number)
    asked = [ToolCall("asking", {"tool": tool}) for tool in ("open", "secret", "gone")]
    mind = Mind(calls(*asked), "done")
    policy = [{"tool": "secret", "verdict": "deny"}]
    async with lab(mind, toolboxes=[box(tmp_path)], policy=policy) as here:
        conversation = await here.start()
        await conversation.ask("go")
        sql = "select tool, status, parent_call is not null from tool_calls order by 3, 1"
        rows = (await here.kernel.query(sql)).rows

    allowed, denied, unknown = mind.results
    assert allowed.strip() == "open to 1"
    assert denied.strip() == "not run: a rule denies secret"
    assert unknown.startswith("there is no tool 'gone'.")
    assert [tuple(row) for row in rows] == [
        ("asking", "done", 0),
        ("asking", "done", 0),
        ("asking", "done", 0),
        ("gone", "failed", 1),
        ("open", "done", 1),
        ("secret", "denied", 1),
    ]


async def test_a_script_waits_for_a_person_as_long_as_that_takes(script: Write, tmp_path: Path) -> None:
    script("asking", ASK, TOOL, portal=True)
    script("open", 'echo "open to $1"', [{**TOOL[0], "name": "n"}])
    mind = Mind(calls(ToolCall("asking", {"tool": "open"})), "done")
    policy = [{"tool": "open", "verdict": "ask"}]
    async with lab(mind, toolboxes=[box(tmp_path)], policy=policy, approval="park", tool_s=5) as here:
        conversation = await here.start()
        asked = asyncio.ensure_future(conversation.ask("go"))
        await until(lambda: open_requests(here.kernel))
        await here.advance(500)
        await conversation.answer(open_requests(here.kernel)[0], Verdict.ALLOW, by="ann")
        await asked

    assert mind.results[0].strip() == "open to 1"
