"""What is installed, opened and removed while a kernel runs: what logs and World say of it, and what is left of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentos.components import AgentState, ToolboxState, ToolboxStatus
from agentos.definitions import AgentSpec
from agentos.errors import ConfigurationError, StoreUnavailable, UnknownAgent
from agentos.events.effects import RunCall
from agentos.ids import Kind, Name, agent_id, hashed_id
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from agentos.resources.scope import Level
from agentos.testing.clock import ManualClock
from agentos.testing.faults import Fault, FaultPlan, FaultyStore
from agentos.toolboxes.python import PythonToolbox
from tests.support import Mind, call, calls, lab, results, settled, until


async def installed(store: MemoryStore, *announcements: str) -> AgentState | None:
    """The agent's state after these definitions were installed, in a kernel of their own."""
    async with Kernel(store) as kernel:
        for announce in announcements:
            await kernel.install(AgentSpec(slug="main", announce=announce), model=Mind())
        return kernel.world.get(agent_id("main"), AgentState)


async def test_definitions_are_counted_over_all_processes() -> None:
    store = MemoryStore()

    assert await installed(store, "first", "second") == AgentState(revision=2)
    assert await installed(store, "second") == AgentState(revision=2)
    assert await installed(store, "third") == AgentState(revision=3)


async def test_an_agent_that_was_removed_and_installed_again_is_counted_on() -> None:
    store = MemoryStore()
    await installed(store, "first")

    async with Kernel(store) as kernel:
        await kernel.install(AgentSpec(slug="main", announce="first"), model=Mind())
        await kernel.remove("main")
        removed = kernel.world.get(agent_id("main"), AgentState)

    assert removed == AgentState(revision=1, removed=True)
    assert await installed(store, "first") == AgentState(revision=2)


SCRIPT = """#!/bin/sh
case "$1" in
describe) echo '{"slug": "say", "description": "Says.", "args": []}' ;;
run) echo said ;;
esac
"""
OWN = "toolboxes:\n  - {kind: script, name: own, path: tools}\n"


def agent_file(folder: Path, text: str = OWN, slug: str = "main") -> Path:
    """An agent file beside a folder with one script."""
    tool = folder / "tools" / "say"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(SCRIPT)
    tool.chmod(0o755)
    path = folder / f"{slug}.yaml"
    path.write_text(f"slug: {slug}\n{text}")
    return path


def scopes(kernel: Kernel) -> list[str]:
    """The open scopes in which something has to be given back."""
    waiting, found = [kernel.scope], []
    while waiting:
        scope = waiting.pop()
        waiting.extend(scope.children)
        if scope.open and scope is not kernel.scope:
            found.append("/".join(scope.path[1:]))
    return sorted(found)


def toolbox_state(kernel: Kernel, name: str) -> ToolboxState | None:
    return kernel.world.get(hashed_id(Kind.TOOLBOX, name), ToolboxState)


async def toolbox_log(kernel: Kernel, name: str) -> list[str]:
    return [entry.data.kind for entry in await kernel.history(hashed_id(Kind.TOOLBOX, name))]


class Traced(PythonToolbox):
    """Counts its openings and closings."""

    def __init__(self, name: str, *functions: Any) -> None:
        super().__init__(name, functions)
        self.opened = self.closed = 0

    async def open(self) -> None:
        self.opened += 1
        await super().open()

    async def close(self) -> None:
        self.closed += 1
        await super().close()


async def test_a_toolbox_of_an_agents_own_is_open_below_the_agent_and_goes_with_it(tmp_path: Path) -> None:
    mind = Mind(calls(call("say")), "done")
    async with Kernel(MemoryStore()) as kernel:
        before = len(kernel.catalog.toolboxes)
        await kernel.install(agent_file(tmp_path), model=mind)
        conversation = await kernel.start("main")
        await conversation.ask("go")
        open_, state = scopes(kernel), toolbox_state(kernel, "main/own")
        await kernel.remove("main")

        assert await results(conversation) == [("done", "said\n")]
        assert open_ == ["main", "main/main/own"]
        assert state == ToolboxState(status=ToolboxStatus.READY, tools=1)
        assert scopes(kernel) == []
        assert kernel.scope.find(Level.AGENT, "main") is None
        assert len(kernel.catalog.toolboxes) == before
        assert toolbox_state(kernel, "main/own") == ToolboxState(status=ToolboxStatus.CLOSED)
        assert await toolbox_log(kernel, "main/own") == ["toolbox.opened", "toolbox.closed"]


async def test_two_agents_may_name_their_own_toolboxes_alike(tmp_path: Path) -> None:
    async with Kernel(MemoryStore()) as kernel:
        for slug in ("main", "other"):
            await kernel.install(agent_file(tmp_path, slug=slug), model=Mind())
        kernel.check()
        await kernel.remove("other")

        assert sorted(kernel.catalog.toolboxes) == ["main/own"]
        assert scopes(kernel) == ["main", "main/main/own"]


async def test_an_own_toolbox_is_reopened_only_when_its_definition_changed(tmp_path: Path) -> None:
    file = agent_file(tmp_path)
    async with Kernel(MemoryStore()) as kernel:
        await kernel.install(file, model=Mind())
        first = kernel.catalog.toolboxes[Name("main/own")]
        agent_file(tmp_path, f"announce: says\n{OWN}")
        await kernel.refresh()
        second = kernel.catalog.toolboxes[Name("main/own")]
        agent_file(tmp_path, OWN.replace("path: tools", "path: tools, prefix: my_"))
        await kernel.refresh()
        third = kernel.catalog.toolboxes[Name("main/own")]
        names = [tool.name for tool in third.tools()]
        agent_file(tmp_path, "announce: alone\n")
        await kernel.refresh()

        assert first is second
        assert third is not first
        assert names == ["my_say"]
        assert [*first.tools(), *third.tools()] == []  # both are closed
        assert scopes(kernel) == []
        assert await toolbox_log(kernel, "main/own") == ["toolbox.opened", "toolbox.changed", "toolbox.closed"]
        assert kernel.world.get(agent_id("main"), AgentState) == AgentState(revision=4)


async def test_two_toolboxes_of_one_agent_may_not_have_one_name(tmp_path: Path) -> None:
    async with Kernel(MemoryStore()) as kernel:
        with pytest.raises(ConfigurationError, match="toolboxes"):
            await kernel.install(agent_file(tmp_path, OWN + OWN.partition("\n")[2]))

        assert scopes(kernel) == []
        assert sorted(kernel.catalog.agents) == []


async def test_an_install_that_fails_opens_nothing_and_changes_nothing(tmp_path: Path) -> None:
    async with Kernel(MemoryStore()) as kernel:
        await kernel.install(AgentSpec(slug="main", announce="as it was"), model=Mind())
        await kernel.add_toolbox(PythonToolbox("main/own", []))
        with pytest.raises(ConfigurationError, match="a toolbox named 'main/own' is open already"):
            await kernel.install(agent_file(tmp_path))

        assert kernel.catalog.spec("main").announce == "as it was"
        assert scopes(kernel) == ["main/own"]


@pytest.mark.parametrize(
    "text", ["toolboxes:\n  - {kind: mcp, name: own, command: [x]}\n", OWN.replace("tools}", "nowhere}")]
)
async def test_a_toolbox_in_state_error_says_why_and_the_agent_resolves(tmp_path: Path, text: str) -> None:
    """Nothing is known of its tools, so that what the file says of them is no error."""
    text = text.replace("}\n", ", expose: [anything]}\n") + "effects: {anything: pure}\n"
    mind = Mind("done")
    async with Kernel(MemoryStore()) as kernel:
        await kernel.install(agent_file(tmp_path, text), model=mind)
        kernel.check()
        await (await kernel.start("main")).ask("go")
        state = toolbox_state(kernel, "main/own")

        assert state is not None
        assert (state.status, state.tools) == (ToolboxStatus.ERROR, 0)
        assert "not in this version" in state.problem or "does not exist" in state.problem
        assert mind.requests[0].context.tools == ()


async def test_a_toolbox_in_state_error_is_looked_at_again_when_its_agent_is_installed_anew(tmp_path: Path) -> None:
    file = agent_file(tmp_path, OWN.replace("tools", "later"))
    async with Kernel(MemoryStore()) as kernel:
        await kernel.install(file, model=Mind())
        (tmp_path / "tools").rename(tmp_path / "later")
        await kernel.install(file)

        assert toolbox_state(kernel, "main/own") == ToolboxState(status=ToolboxStatus.READY, tools=1)
        assert scopes(kernel) == ["main", "main/main/own"]


async def test_a_toolbox_that_is_removed_closes_when_its_running_calls_have_ended() -> None:
    door, inside = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        inside.set()
        await door.wait()
        return "waited"

    box = Traced("traced", wait)
    async with lab(Mind(calls(call("wait")), "done"), toolboxes=[box]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await here.kernel.remove("traced")
        before = (box.closed, "traced" in here.kernel.catalog.toolboxes)
        door.set()
        await asked
        await until(lambda: box.closed)

        assert before == (0, False)
        assert await results(conversation) == [("done", "waited")]
        assert scopes(here.kernel) == []
        assert here.kernel.slots.statistics() == []


async def test_a_toolbox_may_take_the_name_of_one_whose_calls_still_run() -> None:
    door, inside = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        inside.set()
        await door.wait()
        return "the old one"

    async def at_once() -> str:
        return "the new one"

    old, new = Traced("traced", wait), Traced("traced", at_once)
    mind = Mind(calls(call("wait")), "done", calls(call("at_once")), "done")
    async with lab(mind, toolboxes=[old]) as here:
        conversation = await here.start()
        asked = asyncio.create_task(conversation.ask("go"))
        await inside.wait()
        await here.kernel.remove("traced")
        await here.kernel.add_toolbox(new)
        door.set()
        await asked
        await until(lambda: old.closed)
        await conversation.ask("again")

        assert (old.closed, new.closed) == (1, 0)
        assert [text for _, text in await results(conversation)] == ["the old one", "the new one"]
        assert await toolbox_log(here.kernel, "traced") == ["toolbox.opened", "toolbox.closed", "toolbox.opened"]
    assert (old.closed, new.closed) == (1, 1)


async def test_an_agent_that_is_removed_keeps_its_toolbox_for_the_call_that_runs(tmp_path: Path) -> None:
    """Its turn ends as it is; the calls that come after find the toolbox gone."""
    file = agent_file(tmp_path)
    go = tmp_path / "go"
    (tmp_path / "tools" / "say").write_text(
        SCRIPT.replace("echo said", f"until [ -e {go} ]; do sleep 0.01; done; echo said")
    )
    mind = Mind(calls(call("say")), calls(call("say")), "done")
    async with Kernel(MemoryStore()) as kernel:
        await kernel.install(file, model=mind)
        conversation = await kernel.start("main")
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: any(isinstance(effect, RunCall) for effect, _ in kernel.runner.running()))
        await asyncio.sleep(0)
        await kernel.remove("main")
        go.touch()
        outcome = await asked
        await until(lambda: kernel.scope.find(Level.AGENT, "main") is None)

        assert outcome.completed
        assert await results(conversation) == [
            ("done", "said\n"),
            ("failed(unavailable)", "not run: toolbox main/own is not open"),
        ]
        assert scopes(kernel) == []


async def test_what_is_installed_and_removed_again_and_again_leaves_nothing_behind(tmp_path: Path) -> None:
    file = agent_file(tmp_path)
    async with Kernel(MemoryStore()) as kernel:

        async def once() -> None:
            await kernel.install(file, model=Mind())
            await kernel.add_toolbox(PythonToolbox("box", []))
            await kernel.remove("main")
            await kernel.remove("box")

        await once()
        before = (len(kernel.scope.children), len(asyncio.all_tasks()), sorted(kernel.world.entities(Kind.TOOLBOX)))
        for _ in range(5):
            await once()

        assert (
            len(kernel.scope.children),
            len(asyncio.all_tasks()),
            sorted(kernel.world.entities(Kind.TOOLBOX)),
        ) == before
        assert scopes(kernel) == []
        with pytest.raises(UnknownAgent):
            await kernel.start("main")


async def test_models_that_were_replaced_are_closed_at_the_end() -> None:
    minds = [Mind(), Mind(), Mind()]
    async with Kernel(MemoryStore()) as kernel:
        for mind in minds[:2]:
            await kernel.install(AgentSpec(slug="main"), model=mind)
        await kernel.remove("main")
        await kernel.install(AgentSpec(slug="main"), model=minds[2])

    assert [mind.closed for mind in minds] == [1, 1, 1]


async def test_a_toolbox_that_could_not_be_recorded_is_not_there(tmp_path: Path) -> None:
    box = Traced("traced")
    plan = FaultPlan([Fault("store.append", 1, "before")])
    async with Kernel(FaultyStore(MemoryStore(), plan)) as kernel:
        with pytest.raises(StoreUnavailable):
            await kernel.add_toolbox(box)
        after = (box.opened, box.closed, scopes(kernel))
        await kernel.add_toolbox(Traced("traced"))

        assert after == (1, 1, [])
        assert scopes(kernel) == ["traced"]


async def test_what_is_bound_at_run_time_is_a_version_in_the_agents_log() -> None:
    mind = Mind("a", "b", "c")
    async with lab(mind, toolboxes=[PythonToolbox("more", [one_more])], announce="x") as here:
        here.kernel.unbind("main", "more")
        await here.ask()
        here.kernel.bind("main", "more")
        await here.ask()
        await settled(here.kernel)
        log = await here.kernel.history(agent_id("main"))

        assert [request.context.revision for request in mind.requests] == [2, 3]
        assert [[tool.name for tool in request.context.tools] for request in mind.requests] == [[], ["one_more"]]
        assert [entry.data.kind for entry in log] == ["agent.installed"] * 3


async def one_more() -> None:
    """One more."""


async def test_what_could_not_be_recorded_of_an_agent_is_recorded_when_the_store_is_back(tmp_path: Path) -> None:
    """It is in force, and turns name it: its log has it in the end, and in the order in which it happened."""
    clock = ManualClock()
    plan = FaultPlan([Fault("store.append", 2, "before"), Fault("store.append", 3, "before")])
    async with Kernel(FaultyStore(MemoryStore(), plan), clock=clock) as kernel:
        await kernel.install(AgentSpec(slug="main", announce="1"), model=Mind())
        for announce in ("2", "3"):
            with pytest.raises(StoreUnavailable):
                await kernel.install(AgentSpec(slug="main", announce=announce))
        await settled(kernel)
        clock.advance(5)
        await settled(kernel)
        states = [entry.changes[1][1] for entry in await kernel.history(agent_id("main"))]

        assert states == [AgentState(revision=1), AgentState(revision=2), AgentState(revision=3)]
