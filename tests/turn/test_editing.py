"""Files that are edited while turns run: a new version at the next turn; a broken edit changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.components import AgentProblem, AgentState, ToolboxConfig, ToolboxState, ToolboxStatus
from agentos.definitions import AgentSpec, load_agent
from agentos.events.kinds import EntryData
from agentos.history import Identical, lineage_of, render_tree, replay_all
from agentos.ids import Kind, agent_id, hashed_id
from agentos.kernel import Conversation, Kernel
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.clock import ManualClock
from agentos.testing.ids import SequentialIds, SequentialSalts
from agentos.toolboxes.python import PythonToolbox
from agentos.toolboxes.python_file import load_python_toolbox
from agentos.toolboxes.script import ScriptToolbox
from tests.support import Mind, call, calls, entries_of, results, settled, until

SCRIPT = """#!/bin/sh
# {comment}
case "$1" in
describe) echo '{{"slug": "{slug}", "description": "{description}", "args": []}}' ;;
run) echo "{answer}" ;;
esac
"""


def script(folder: Path, slug: str, answer: str = "answered", description: str = "Says.", comment: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / slug
    path.write_text(SCRIPT.format(slug=slug, answer=answer, description=description, comment=comment))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def agent(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([f"slug: {path.stem}", *lines]) + "\n")
    return path


@asynccontextmanager
async def kernel(store: MemoryStore | None = None, **settings: Any) -> AsyncIterator[Kernel]:
    clock = ManualClock()
    async with Kernel(
        store or MemoryStore(),
        ids=SequentialIds(),
        salts=SequentialSalts(),
        clock=clock,
        settings=Settings(**settings),
    ) as opened:
        yield opened


def prompts(mind: Mind) -> list[str]:
    return ["".join(request.context.prompt) for request in mind.requests]


def tools(mind: Mind) -> list[list[str]]:
    return [[tool.name for tool in request.context.tools] for request in mind.requests]


def problem(kernel: Kernel, slug: str) -> str:
    found = kernel.world.get(agent_id(slug), AgentProblem)
    return found.text if found is not None else ""


def toolbox(kernel: Kernel, name: str) -> tuple[ToolboxStatus, int, str, int]:
    """Its status, how many tools it has, its problem and its revision."""
    id_ = hashed_id(Kind.TOOLBOX, name)
    state, config = kernel.world.get(id_, ToolboxState), kernel.world.get(id_, ToolboxConfig)
    assert state is not None
    assert config is not None
    return state.status, state.tools, state.problem, config.revision


async def log_of(kernel: Kernel, name: str) -> list[EntryData]:
    return [entry.data for entry in await kernel.history(hashed_id(Kind.TOOLBOX, name))]


async def drawn(kernel: Kernel, conversation: Conversation) -> list[str]:
    """The lines of its lineage that are about turns, without their times."""
    tree = render_tree(await lineage_of(kernel.store, conversation.id))
    return [line.split("  completed")[0].strip(" ─├└│") for line in tree.splitlines() if "turn " in line]


async def test_an_edited_agent_file_is_a_new_version_at_the_next_turn(tmp_path: Path) -> None:
    mind = Mind("one", "two", "three")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        agent(file, "system_prompt: another one")
        await conversation.ask("go")
        await conversation.ask("go")

        assert prompts(mind) == ["first", "another one", "another one"]
        assert here.world.get(agent_id("main"), AgentState) == AgentState(revision=2)
        assert await drawn(here, conversation) == ["turn 3 main r1", "turn 8 main r2", "turn 13 main r2"]


async def test_the_versions_that_a_turn_ran_with_are_there_to_be_read(tmp_path: Path) -> None:
    """By SQL alone: from the pinned context to the definition and to the toolset that it names."""
    folder = tmp_path / "tools"
    script(folder, "say")
    file = agent(tmp_path / "main.yaml", "toolboxes: [files]")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(file, model=Mind("one", "two"))
        conversation = await here.start("main")
        await conversation.ask("go")
        script(folder, "say", "answered otherwise")
        agent(file, "toolboxes: [files]", "announce: knows more")
        await conversation.ask("go")
        sql = "select body ->> '$.revision', body ->> '$.toolboxes[0].revision' from definitions where kind = 'context'"
        versions = (await here.query(sql)).rows
        named = (
            "select count(*) from definitions as c join definitions as d on d.digest = c.body ->> '$.definition'"
            " join definitions as t on t.digest = c.body ->> '$.toolboxes[0].toolset'"
            " where c.kind = 'context' and d.kind = 'agent' and t.kind = 'toolset'"
        )

        assert sorted(versions) == [(1, 1), (2, 2)]
        assert (await here.query(named)).rows == [(2,)]
        assert await drawn(here, conversation) == ["turn 3 main r1", "turn 8 main r2 (files r2)"]


async def test_an_open_turn_keeps_what_it_pinned(tmp_path: Path) -> None:
    door = asyncio.Event()

    async def slow(_: object) -> Any:
        await door.wait()
        return calls(call("say"))

    folder = tmp_path / "tools"
    script(folder, "say")
    mind = Mind(slow, "done", "again")
    file = agent(tmp_path / "main.yaml", "system_prompt: first", "toolboxes: [files]")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(file, model=mind)
        conversation = await here.start("main")
        asked = asyncio.create_task(conversation.ask("go"))
        await until(lambda: mind.requests)
        agent(file, "system_prompt: second", "toolboxes: [files]")
        script(folder, "more")
        said = await here.refresh()
        door.set()
        await asked
        await conversation.ask("and now?")

        assert said == ["toolbox files is r2 now: +more", "agent main is r2 now"]
        assert prompts(mind) == ["first", "first", "second"]
        assert tools(mind) == [["say"], ["say"], ["more", "say"]]
        assert await results(conversation) == [("done", "answered\n")]


async def test_a_tool_that_is_gone_fails_in_the_turn_that_still_has_it(tmp_path: Path) -> None:
    async def remove(_: object) -> Any:
        os.unlink(folder / "say")
        await here.refresh()
        return calls(call("say"))

    folder = tmp_path / "tools"
    script(folder, "say")
    script(folder, "stay")
    mind = Mind(remove, "done", "again")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(agent(tmp_path / "main.yaml", "toolboxes: [files]"), model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        await conversation.ask("again")

        assert await results(conversation) == [("failed(unknown_tool)", "toolbox files has no tool say")]
        assert tools(mind) == [["say", "stay"], ["say", "stay"], ["stay"]]


async def test_an_edit_that_no_description_tells_is_a_version_too(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    script(folder, "say", "one")
    mind = Mind(calls(call("say")), "done", calls(call("say")), "done")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(agent(tmp_path / "main.yaml", "toolboxes: [files]"), model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        script(folder, "say", "two or more")
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["one\n", "two or more\n"]
        assert toolbox(here, "files") == (ToolboxStatus.READY, 1, "", 2)
        assert [data.kind for data in await log_of(here, "files")] == ["toolbox.opened", "toolbox.changed"]


async def test_a_broken_edit_keeps_the_version_in_force_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "agentos")
    mind = Mind(*"abcde")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        agent(file, "system_prompt: second", "sytem_prompt: with a typing error")
        told = await here.refresh("main")
        for _ in range(3):
            await conversation.ask("go")
        broken = problem(here, "main")
        agent(file, "system_prompt: third")
        mended = await here.refresh()
        await conversation.ask("go")

    assert len(told) == 1
    assert told[0].startswith(f"agent main keeps r1: {file}:3:1: unknown key 'sytem_prompt'")
    assert [record.message for record in caplog.records] == told
    assert broken.startswith(f"{file}:3:1: ")
    assert mended == ["agent main is r2 now"]
    assert problem(here, "main") == ""
    assert prompts(mind) == ["first", "first", "first", "third"]


async def test_an_edit_that_is_taken_back_is_no_version(tmp_path: Path) -> None:
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(file, model=Mind())
        file.write_text("slug: [")
        await here.refresh()
        agent(file, "system_prompt: first", "# in order again")

        assert await here.refresh() == ["agent main is in order again, and stays r1"]
        assert here.world.get(agent_id("main"), AgentState) == AgentState(revision=1)
        assert await here.refresh() == []


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["subagents: [helper]"], "no subagent 'helper' is installed"),
        (["toolboxes: [nothing]"], "no toolbox 'nothing' is open"),
        (["toolboxes:", "  - {kind: script, name: own, path: nowhere}"], "toolbox main/own: "),
    ],
)
async def test_an_edit_that_names_what_is_not_there_is_a_broken_one(tmp_path: Path, lines: list[str], why: str) -> None:
    mind = Mind("a", "b")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        agent(file, "system_prompt: second", *lines)
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert why in problem(here, "main")
        assert prompts(mind) == ["first"]
        assert [str(scope.path) for scope in here.scope.children if scope.open] == []


async def test_a_file_that_is_gone_or_is_another_agents_changes_nothing(tmp_path: Path) -> None:
    mind = Mind("a", "b")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        file.write_text("slug: other\n")
        (renamed,) = await here.refresh()
        os.unlink(file)
        (gone,) = await here.refresh()
        await conversation.ask("go")

        assert renamed == f"agent main keeps r1: {file}: its slug is 'other' now; install it anew, or name it 'main'"
        assert gone.startswith(f"agent main keeps r1: {file}")
        assert "No such file" in gone
        assert prompts(mind) == ["first"]


async def test_an_edit_may_bring_another_agent_along_by_its_file(tmp_path: Path) -> None:
    file = agent(tmp_path / "main.yaml")
    agent(tmp_path / "helper.yaml", "model: 'direct'", "subagents: [main]")
    mind = Mind("alone", calls(call("ask_helper", task="help")), "helped")
    async with kernel() as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        agent(file, "subagents:", "  - {slug: helper, path: helper.yaml}")
        await conversation.ask("go")

        assert sorted(here.catalog.agents) == ["helper", "main"]
        assert [status for status, _ in await results(conversation)] == ["done"]


async def test_what_a_parent_may_ask_is_followed_with_it(tmp_path: Path) -> None:
    replies: list[Any] = [calls(call("ask_child", task="x")), "done"]
    main, child = Mind(*replies * 2), Mind("a", "b")
    file = agent(tmp_path / "child.yaml", "system_prompt: first")
    async with kernel() as here:
        await here.install(agent(tmp_path / "main.yaml", "subagents: [child]"), model=main)
        await here.install(file, model=child)
        conversation = await here.start("main")
        await conversation.ask("go")
        agent(file, "system_prompt: the second one")
        await conversation.ask("go")

        assert prompts(child) == ["first", "the second one"]
        assert [line for line in await drawn(here, conversation) if "child" in line] == [
            "turn 3 child r1",
            "turn 3 child r2",
        ]


async def test_a_turn_that_no_word_of_this_process_begins_gets_edits_by_a_slow_look(tmp_path: Path) -> None:
    mind = Mind("a", "b")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel(reload_poll_s=5.0) as here:
        await here.install(file, model=mind)
        agent(file, "system_prompt: second one")
        await settled(here)
        before = here.world.get(agent_id("main"), AgentState)
        assert isinstance(here.clock, ManualClock)
        here.clock.advance(5.1)
        await until(lambda: here.world.get(agent_id("main"), AgentState) != before)

        assert before == AgentState(revision=1)
        assert here.world.get(agent_id("main"), AgentState) == AgentState(revision=2)


async def test_a_spec_is_followed_as_long_as_it_says_what_its_file_says(tmp_path: Path) -> None:
    """One that was changed after it was read, as by an option of a command, is no longer that of the file."""
    one, two = agent(tmp_path / "one.yaml", "announce: first"), agent(tmp_path / "two.yaml", "announce: first")
    async with kernel() as here:
        await here.install(load_agent(one))
        await here.install(load_agent(two).model_copy(update={"step_limit": 3}))
        agent(one, "announce: the second")
        agent(two, "announce: the second")

        assert await here.refresh() == ["agent one is r2 now"]
        assert (here.catalog.spec("two").announce, here.catalog.spec("two").step_limit) == ("first", 3)


async def test_an_edit_takes_no_secret_in(tmp_path: Path) -> None:
    file = agent(tmp_path / "main.yaml", "model: direct")
    async with kernel() as here:
        await here.install(file)
        model = "model: {kind: openai, name: x, options: {api_key: sk-live-0123456789}}"
        agent(file, model)
        (said,) = await here.refresh()

        assert said.startswith("agent main keeps r1: ")
        assert "0123456789" not in said + problem(here, "main")
        assert (await here.query("select count(*) from definitions where body like '%0123456789%'")).rows == [(0,)]


async def test_what_an_edit_of_a_child_takes_does_not_stop_its_parent(tmp_path: Path) -> None:
    """The parent narrows by the name of a tool that the child had; it goes on, and the child has what it has."""
    folder = tmp_path / "tools"
    script(folder, "say")
    replies: list[Any] = [calls(call("ask_child", task="x")), "done"]
    main, child = Mind(*replies * 2), Mind("a", "b")
    file = agent(tmp_path / "child.yaml", "toolboxes: [files]")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(agent(tmp_path / "main.yaml", "subagents:", "  - {slug: child, grant: [say]}"), model=main)
        await here.install(file, model=child)
        conversation = await here.start("main")
        await conversation.ask("go")
        agent(file, "announce: has nothing any more")
        outcome = await conversation.ask("go")

        assert outcome.completed
        assert "grant: agent child has no tool 'say'" in problem(here, "main")
        assert tools(child) == [["say"], []]


async def test_files_are_left_alone_when_they_are_not_to_be_followed(tmp_path: Path) -> None:
    mind = Mind("a", "b")
    file = agent(tmp_path / "main.yaml", "system_prompt: first")
    async with kernel(follow_files=False) as here:
        await here.install(file, model=mind)
        conversation = await here.start("main")
        agent(file, "system_prompt: second one")
        await conversation.ask("go")
        said = await here.refresh()
        await conversation.ask("go")

        assert prompts(mind) == ["first", "second one"]
        assert said == ["agent main is r2 now"]


async def test_a_broken_script_leaves_the_others_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "agentos")
    folder = tmp_path / "tools"
    script(folder, "say")
    broken = script(folder, "break")
    mind = Mind("a", "b")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(agent(tmp_path / "main.yaml", "toolboxes: [files]"), model=mind)
        conversation = await here.start("main")
        broken.write_text("#!/bin/sh\nexit 7\n")
        (said,) = await here.refresh()
        await conversation.ask("go")
        status, offered, problem_, revision = toolbox(here, "files")
        script(folder, "break")
        (mended,) = await here.refresh()

    assert said.startswith(f"toolbox files is r2 now: -break; toolbox files: {broken}: ")
    assert (status, offered, revision) == (ToolboxStatus.READY, 1, 2)
    assert problem_.startswith(f"{broken}: ")
    assert tools(mind) == [["say"]]
    assert len(caplog.records) == 1
    assert mended == "toolbox files is r3 now: +break; toolbox files is in order again"


async def test_an_agent_that_names_a_tool_which_broke_goes_on_with_what_it_had(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its file exposes the tool by name: with nothing of that name, the file alone would be refused."""
    folder = tmp_path / "tools"
    script(folder, "say")
    mind = Mind("a", calls(call("say")), "b", "c")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        lines = ["toolboxes:", "  - {name: files, expose: [say]}"]
        await here.install(agent(tmp_path / "main.yaml", *lines), model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        os.unlink(folder / "say")
        await conversation.ask("go")
        wrong = problem(here, "main")
        script(folder, "say")
        await conversation.ask("go")

        assert "toolbox files has no tool 'say'" in wrong
        assert [status for status, _ in await results(conversation)] == ["failed(unknown_tool)"]
        assert problem(here, "main") == ""
        assert tools(mind)[-1] == ["say"]


PYTHON = """
from agentos import tool

@tool
def count() -> int:
    "Counts."
    return {number}
"""


async def test_a_python_file_of_tools_is_followed_and_a_broken_one_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "notes.py"
    file.write_text(PYTHON.format(number=1))
    replies: list[Any] = [calls(call("count")), "done"]
    mind = Mind(*replies * 3)
    async with kernel() as here:
        await here.add_toolbox(load_python_toolbox(file, name="notes"))
        await here.install(agent(tmp_path / "main.yaml", "toolboxes: [notes]"), model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        file.write_text("def count(:\n")
        await conversation.ask("go")
        wrong = toolbox(here, "notes")
        file.write_text(PYTHON.format(number=33))
        await conversation.ask("go")

        assert [text for _, text in await results(conversation)] == ["1", "1", "33"]
        assert wrong[0] is ToolboxStatus.READY
        assert f"{file}:1: SyntaxError" in wrong[2]
        assert wrong[3] == 1
        assert toolbox(here, "notes") == (ToolboxStatus.READY, 1, "", 2)


async def test_versions_are_counted_over_all_processes_and_edits_between_them(tmp_path: Path) -> None:
    store, folder = MemoryStore(), tmp_path / "tools"

    async def opened(answer: str) -> int:
        script(folder, "say", answer)
        async with kernel(store) as here:
            await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
            return toolbox(here, "files")[3]

    assert [await opened("one"), await opened("one"), await opened("three"), await opened("one")] == [1, 1, 2, 3]


async def test_an_edited_and_replayed_log_is_identical(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    script(folder, "say", "one")
    file = agent(tmp_path / "main.yaml", "toolboxes: [files]")
    mind = Mind(calls(call("say")), "a", calls(call("say")), "b")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(file, model=mind)
        conversation = await here.start("main")
        await conversation.ask("go")
        script(folder, "say", "two", description="Says other things.")
        agent(file, "toolboxes: [files]", "system_prompt: new")
        await conversation.ask("go")
        replayed = [one async for one in replay_all(here.store)]

        assert [type(one) for one in replayed].count(Identical) == 1
        assert all(isinstance(one, Identical) or "no passes" in str(one) for one in replayed)
        assert len(await entries_of(conversation, "turn.started")) == 2


async def test_two_that_ask_at_once_find_one_edit(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    script(folder, "say")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(agent(tmp_path / "main.yaml", "toolboxes: [files]"), model=Mind())
        script(folder, "more")
        said = await asyncio.gather(*(here.refresh() for _ in range(5)))

        assert [one for one in said if one] == [["toolbox files is r2 now: +more"]]
        assert toolbox(here, "files") == (ToolboxStatus.READY, 2, "", 2)


async def test_what_was_bound_meanwhile_outlives_an_edit(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    script(folder, "say")
    mind = Mind("a", "b")
    file = agent(tmp_path / "main.yaml")
    async with kernel() as here:
        await here.add_toolbox(ScriptToolbox("files", directories=[folder], cwd=tmp_path))
        await here.install(file, model=mind)
        here.bind("main", "files")
        conversation = await here.start("main")
        await conversation.ask("go")
        agent(file, "system_prompt: new")
        await conversation.ask("go")

        assert tools(mind) == [["say"], ["say"]]
        assert prompts(mind) == ["", "new"]
        assert await drawn(here, conversation) == ["turn 3 main r2", "turn 8 main r3"]


class Crooked(PythonToolbox):
    """A toolbox of one's own that fails when it looks at its files, or when it reads them."""

    def __init__(self, fails: str) -> None:
        super().__init__("crooked", [self.work])
        self._fails = fails

    async def work(self) -> str:
        """Works."""
        return "worked"

    def changed(self) -> bool:
        if self._fails == "changed":
            raise PermissionError("no look")
        return True

    async def reload(self) -> None:
        raise ValueError("no sense")


@pytest.mark.parametrize(
    ("fails", "why"), [("changed", "PermissionError: no look"), ("reload", "ValueError: no sense")]
)
async def test_a_toolbox_that_raises_when_it_is_followed_stays_as_it_was_and_is_told_once(
    fails: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with kernel(reload_poll_s=1.0) as here:
        await here.add_toolbox(Crooked(fails))
        mind = Mind(calls(call("work")), "one", calls(call("work")), "two")
        await here.install(AgentSpec(slug="main", toolboxes=["crooked"]), model=mind)
        conversation = await here.start("main")
        outcomes = [await conversation.ask("go"), await conversation.ask("again")]
        state = here.world.get(hashed_id(Kind.TOOLBOX, "crooked"), ToolboxState)
        said = await results(conversation)

    assert [outcome.text for outcome in outcomes] == ["one", "two"]
    assert said == [("done", "worked")] * 2
    assert state is not None
    assert (state.status, state.problem) == (ToolboxStatus.READY, f"it could not be read again: {why}")
    assert [record.getMessage() for record in caplog.records] == [
        f"toolbox crooked stays as it was: it could not be read again: {why}"
    ]
