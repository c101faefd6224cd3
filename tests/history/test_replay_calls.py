"""Strict replay is identical for calls that hooks change, that tell of themselves, end the turn, or end too late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import agentos
from agentos import AgentSpec, CallContext, tool
from agentos.components import CallStatus, Verdict
from agentos.ids import CallId, Name
from agentos.persistence.base import Store
from agentos.ports import HookVerdict
from agentos.toolboxes.base import Doubt, Finish
from agentos.toolboxes.python import PythonToolbox
from tests.history.support import Desk, assert_history_holds, crash, kinds_of, office, settled, until


class Editor:
    """A hook: changes `b`, denies `c`, has a person asked about `d`, and says nothing of others."""

    name = Name("editor")

    async def before_call(self, call: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
        return {
            "b": HookVerdict(arguments={"text": "changed"}, reason="better"),
            "c": HookVerdict(verdict=Verdict.DENY, reason="not that"),
            "d": HookVerdict(verdict=Verdict.ASK),
        }.get(arguments["text"])


async def test_what_hooks_decided_is_decided_again(store: Store, desk: Desk) -> None:
    async with office(store, desk, hooks=[Editor()], clerk={"approval": "allow"}) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("note text=a\nnote text=b\nnote text=c\nnote text=d")

        assert outcome.completed
        assert sorted(desk.notes) == ["a", "changed", "d"]
        assert (await kinds_of(kernel, clerk.id)).count("hook.decided") == 4
        await assert_history_holds(store)


async def test_an_approval_that_nobody_gives_in_time_is_decided_again(store: Store, desk: Desk) -> None:
    ask = {"policy": [{"tool": "note", "verdict": "ask"}], "approval": "park", "approval_s": 0.05}
    async with office(store, desk, clerk=ask) as kernel:
        clerk = await kernel.start("clerk")
        outcome = await clerk.ask("note text=a")

        assert outcome.completed
        assert not desk.notes
        assert "wake.fired" in await kinds_of(kernel, clerk.id)
        await assert_history_holds(store)


async def test_progress_and_a_call_that_ends_the_turn_are_decided_again(store: Store) -> None:
    @tool
    async def work(count: int, context: CallContext) -> Finish:
        """Tells of itself, and is the answer."""
        for n in range(count):
            context.progress({"n": n, "share": n / count, "big": 2**70})
        await asyncio.sleep(0)
        return Finish({"count": count})

    async with agentos.open(store) as kernel:
        await kernel.add_toolbox(PythonToolbox("works", [work]))
        await kernel.install(AgentSpec(slug="worker", toolboxes=["works"]))
        worker = await kernel.start("worker")
        outcome = await worker.ask("work count=3")

        assert "3" in outcome.text
        kinds = await kinds_of(kernel, worker.id)
        assert (kinds.count("call.progress"), kinds.count("model.requested")) == (3, 1)
        await assert_history_holds(store)


async def test_a_child_that_ends_too_late_is_decided_again(store: Store) -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Is not to be stopped."""
        started.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "done all the same"

    async with agentos.open(store) as kernel:
        await kernel.add_toolbox(PythonToolbox("walls", [stubborn]))
        await kernel.install(AgentSpec(slug="child", toolboxes=["walls"]))
        await kernel.install(AgentSpec(slug="parent", subagents=["child"], cancel_grace_s=0.02))
        parent = await kernel.start("parent")
        asking = asyncio.ensure_future(parent.ask("ask_child task=stubborn"))
        await started.wait()
        await parent.interrupt()
        assert str(await asking) == "cancelled(interrupt)"
        gate.set()
        await settled(kernel, await kernel.conversations())
        await until(lambda: kernel.ticker.quiet)

        kinds = await kinds_of(kernel, parent.id)
        assert kinds[-1] == "child.late"
        await assert_history_holds(store)


class Asking(PythonToolbox):
    """A toolbox that can tell what became of a call."""

    async def probe(self, tool: Name, arguments: dict[str, Any], key: str) -> Doubt | None:
        return Doubt(CallStatus.DONE, f"{arguments['text']} was done")


async def test_what_a_probe_found_after_a_crash_is_decided_again(store: Store, desk: Desk) -> None:
    def toolbox() -> Asking:
        return Asking("desk", functions(desk))

    async with agentos.open(store) as kernel:
        await kernel.add_toolbox(toolbox())
        await kernel.install(AgentSpec(slug="clerk", toolboxes=["desk"]))
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask("wait text=a"))
        await desk.until_started(1)
        found = await crash(kernel)
        await asyncio.gather(asking, return_exceptions=True)
    async with agentos.open(found) as kernel:
        await kernel.add_toolbox(toolbox())
        await kernel.install(AgentSpec(slug="clerk", toolboxes=["desk"]))
        await kernel.recover()
        await settled(kernel, [clerk.id])

        kinds = await kinds_of(kernel, clerk.id)
        assert kinds[7:10] == ["turn.resumed", "call.doubted", "call.finished"]
        await assert_history_holds(found)


def functions(desk: Desk) -> Sequence[Any]:
    @tool
    async def wait(text: str) -> str:
        """Waits."""
        desk.started += 1
        await desk.gate.wait()
        return text

    return [wait]
