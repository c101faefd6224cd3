"""The agent of a fork may be installed in the process alone that forked: another process has it from the store, and what
runs from its own project."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agentos import tool
from agentos.definitions import AgentSpec
from agentos.definitions.private_toolbox import PrivatePython
from agentos.errors import ConfigurationError, UnknownAgent
from agentos.history import verify_store
from agentos.kernel import Kernel
from agentos.persistence.memory import MemoryStore
from agentos.toolboxes.python import PythonToolbox

TOOLS = '''from agentos import tool


@tool
async def mark(text: str) -> str:
    """Leaves a mark."""
    with open({path!r}, "a") as file:
        file.write(text)
    return "marked"
'''
SAID = "the system prompt says"


@tool
async def prompt_of(slug: str) -> str:
    """Says it."""
    return f"{SAID} {slug}"


def main(**more: Any) -> AgentSpec:
    return AgentSpec(slug="main", model="direct", system_prompt="Be long.", toolboxes=["box"], **more)


async def opened(store: MemoryStore, *specs: AgentSpec) -> Kernel:
    kernel = Kernel(MemoryStore(store))
    await kernel.__aenter__()
    await kernel.add_toolbox(PythonToolbox("box", [prompt_of]))
    for spec in specs:
        await kernel.install(spec)
    return kernel


async def forked(store: MemoryStore, spec: AgentSpec, **varied: Any) -> tuple[str, str]:
    """A fork with a variant, made in a process of its own; and the agent that it has."""
    kernel = await opened(store, spec)
    talk = await kernel.start(spec.slug)
    await talk.ask("prompt_of slug=a")
    fork = await kernel.fork(talk.id, **varied)
    await fork.ask("prompt_of slug=b")
    await kernel.close()
    return fork.id, fork.agent


async def test_another_process_goes_on_with_the_prompt_and_the_limits_of_the_variant() -> None:
    store = MemoryStore()
    id_, agent = await forked(store, main(step_limit=7), prompt="Be terse.")
    kernel = await opened(store, main(step_limit=9))
    outcome = await (await kernel.get(id_)).ask("prompt_of slug=c")
    spec = kernel.catalog.spec(agent)
    again = await kernel.fork(id_)
    last = await again.ask("prompt_of slug=d")
    report = await verify_store(kernel.store)
    await kernel.close()

    assert agent.startswith("main-")
    assert (outcome.completed, outcome.agent, outcome.calls) == (True, agent, 1)
    assert (spec.prompt, spec.step_limit) == (("Be terse.",), 7)
    assert (last.completed, last.agent) == (True, agent)
    assert report.ok


async def test_a_file_that_only_the_first_process_knew_is_taken_from_the_store_too() -> None:
    store = MemoryStore()
    other = AgentSpec(slug="other", model="direct", toolboxes=["box"])
    id_, agent = await forked(store, main(), agent=other)
    kernel = await opened(store, main())
    outcome = await (await kernel.get(id_)).ask("prompt_of slug=c")
    await kernel.close()

    assert agent == "other"
    assert outcome.completed


async def test_a_toolbox_that_stands_in_the_store_alone_is_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, mark = MemoryStore(), tmp_path / "mark"
    (tmp_path / "own.py").write_text(TOOLS.format(path=str(mark)))
    own = PrivatePython(kind="python", name="own", path=str(tmp_path / "own.py"))
    with_own = main().model_copy(update={"toolboxes": ["box", own]})
    id_, _ = await forked(store, with_own, prompt="Be terse.")
    kernel = await opened(store, main())
    with caplog.at_level(logging.WARNING):
        talk = await kernel.get(id_)
        with pytest.raises(ConfigurationError, match="its toolbox 'own' stands in the store alone"):
            await kernel.take_agent(talk.id)
        with pytest.raises(UnknownAgent, match="installed: main"):
            await talk.ask("mark text=x")
    await kernel.close()
    ran = mark.exists()
    kernel = await opened(store, with_own)
    outcome = await (await kernel.get(id_)).ask("mark text=y")
    await kernel.close()

    assert "its toolbox 'own' stands in the store alone, and nothing is run from there" in caplog.text
    assert not ran
    assert outcome.completed
    assert mark.read_text() == "xy"


async def test_an_agent_that_was_taken_out_is_not_brought_back_by_a_conversation_that_is_no_fork() -> None:
    store = MemoryStore()
    kernel = await opened(store, main(), AgentSpec(slug="gone", model="direct"))
    talk = await kernel.start("gone")
    await talk.ask("hello")
    await kernel.close()
    kernel = await opened(store, main())
    talk = await kernel.get(talk.id)
    with pytest.raises(UnknownAgent, match="gone"):
        await kernel.fork(talk.id, prompt="Be terse.")
    with pytest.raises(UnknownAgent, match="gone"):
        await kernel.take_agent(talk.id)
    await kernel.close()

    assert "gone" not in kernel.catalog.agents
