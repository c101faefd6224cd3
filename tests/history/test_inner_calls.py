"""Inner calls are decided again as they are stored, verified, and shared by forks."""

from __future__ import annotations

import asyncio
from typing import Any

import agentos
from agentos import AgentSpec, tool
from agentos.components import CallState, Verdict, Waiting
from agentos.history import Identical, lineage_of, replay_log, verify_store
from agentos.kernel import Kernel
from agentos.persistence.base import Store
from agentos.ports import CallContext
from agentos.toolboxes.python import PythonToolbox
from tests.history.forking import ends_of_units, fork
from tests.history.support import Desk, assert_history_holds, crash, until

SPEC: dict[str, Any] = {"approval": "park", "policy": [{"tool": "fail", "verdict": "ask"}]}


async def enter(kernel: Kernel, desk: Desk) -> None:
    """The agent clerk, with a tool that calls those that a text names, one after the other or all at once."""

    def arguments(name: str) -> dict[str, str]:
        return {"task": "note text=below"} if name.startswith("ask_") else {"text": name}

    @tool
    async def each(context: CallContext, names: list[str]) -> str:
        return ", ".join([(await context.call(name, arguments(name))).text for name in names])

    @tool(effect="pure")
    async def together(context: CallContext, names: list[str]) -> str:
        ended = await asyncio.gather(*(context.call(name, arguments(name)) for name in names))
        return ", ".join(f"{inner.status.value}" for inner in ended)

    await kernel.add_toolbox(desk.toolbox())
    await kernel.add_toolbox(PythonToolbox("portal", [each, together]))
    await kernel.install(AgentSpec(slug="aide", toolboxes=["desk"]))
    await kernel.install(AgentSpec(slug="clerk", toolboxes=["desk", "portal"], subagents=["aide"], **SPEC))


async def test_a_turn_with_inner_calls_is_decided_again_and_verified(store: Store, desk: Desk) -> None:
    async with agentos.open(store) as kernel:
        await enter(kernel, desk)
        clerk = await kernel.start("clerk")
        desk.gate.set()
        await clerk.ask('each names=["note", "none", "wait"]\ntogether names=["peek", "note", "each"]')
        asking = asyncio.ensure_future(clerk.ask('together names=["fail", "note"]'))
        await until(lambda: bool(kernel.world.find(CallState, waiting=Waiting.APPROVAL)))
        ((request, _),) = kernel.world.find(CallState, waiting=Waiting.APPROVAL)
        await kernel.answer(request, Verdict.ALLOW)
        await asking
        statuses = (await kernel.query("select status, count(*) from tool_calls group by 1 order by 1")).rows
        await assert_history_holds(store)

    assert statuses == [("done", 8), ("failed", 3)]
    assert desk.notes == ["note", "note", "note"]


async def test_a_fork_at_the_end_of_any_unit_takes_no_inner_call_up(store: Store, desk: Desk) -> None:
    async with agentos.open(store) as kernel:
        await enter(kernel, desk)
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask('together names=["wait", "peek", "fail", "note", "ask_aide"]'))
        await desk.until_started(2)
        await until(lambda: bool(kernel.world.find(CallState, waiting=Waiting.APPROVAL)))
        ((request, _),) = kernel.world.find(CallState, waiting=Waiting.APPROVAL)
        await kernel.answer(request, Verdict.DENY)
        desk.gate.set()
        await asking
        ends = ends_of_units(await store.entries(clerk.id))
        forks = [fork_ for upto in ends if (fork_ := await fork(kernel, clerk.id, upto)) is not None]
        results = [await replay_log(store, fork_) for fork_ in forks]
        trees = [await lineage_of(store, fork_) for fork_ in forks]
        report = await verify_store(store)

    assert len(forks) > 6
    assert all(isinstance(result, Identical) and result.units == 1 for result in results), results
    assert report.ok, [str(difference) for difference in report.differences]
    below = [node for tree in trees for node in _calls(tree.root) if node.name != "together"]
    assert below
    assert {node.status for node in below if "(" in node.status} <= {
        "cancelled(not_started)",
        "denied(approval)",
        "unknown(fork)",
    }
    assert not any(node.status in ("started", "waiting", "proposed") for node in below)


def _calls(node: Any) -> list[Any]:
    return [found for child in node.children for found in ([child] if child.kind == "call" else []) + _calls(child)]


async def test_a_recovered_turn_with_inner_calls_is_decided_again(store: Store, desk: Desk) -> None:
    async with agentos.open(store) as kernel:
        await enter(kernel, desk)
        clerk = await kernel.start("clerk")
        asking = asyncio.ensure_future(clerk.ask('together names=["wait", "peek", "fail", "note"]'))
        await desk.until_started(2)
        await until(lambda: bool(kernel.world.find(CallState, waiting=Waiting.APPROVAL)))
        other = await crash(kernel)
    await asyncio.wait([asking])
    assert asking.exception() is not None
    desk.gate.set()
    async with agentos.open(other) as kernel:
        await enter(kernel, desk)
        await kernel.recover()
        await until(lambda: bool(kernel.world.find(CallState, waiting=Waiting.APPROVAL)))
        ((request, _),) = kernel.world.find(CallState, waiting=Waiting.APPROVAL)
        await kernel.answer(request, Verdict.ALLOW)
        await kernel.outcome(clerk.id)
        await assert_history_holds(other)
        statuses = (await kernel.query("select tool, status, kind from tool_calls order by id")).rows

    assert ("together", "done", None) in statuses
    assert ("fail", "cancelled", "not_started") in statuses
    assert ("wait", "unknown", None) in statuses
    assert ("peek", "cancelled", "interrupted") in statuses
