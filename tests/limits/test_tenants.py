"""Tenants: on whose account a conversation runs, from the outside to the bounds and the shares that hold for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.components import ConversationConfig, ToolboxSharing
from agentos.definitions import AgentSpec
from agentos.errors import ConversationBusy, InputRefused
from agentos.events.intake import Control
from agentos.history import Identical, Skipped, replay_all, verify_store
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.arrival import import_bundle
from agentos.history.bundle.export import export_bundle
from agentos.ids import CONVERSATION
from agentos.kernel import Kernel, Listing, RunOutcome
from agentos.persistence.base import Store
from agentos.persistence.memory import MemoryStore
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from agentos.toolboxes.python import PythonToolbox
from tests.limits.test_calls_at_once import Works, asks
from tests.limits.test_turns_at_once import Desk
from tests.support import Mind, call, calls, hang, settled, until

Asked = asyncio.Task[RunOutcome]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SQLiteStore(str(tmp_path / "agents.db"))


@asynccontextmanager
async def hosting(
    store: Store,
    *agents: str,
    model: Any,
    works: Works | None = None,
    sharing: ToolboxSharing | None = None,
    **said: Any,
) -> AsyncIterator[Kernel]:
    """A kernel whose agents have one model, and the tool of `works`."""
    async with Kernel(store, settings=Settings(**said)) as kernel:
        boxes = ["box"] if works is not None else []
        if works is not None:
            await kernel.add_toolbox(PythonToolbox("box", [works.work], sharing or ToolboxSharing.STATELESS))
        for slug in agents:
            await kernel.install(AgentSpec(slug=slug, toolboxes=boxes), model=model)
        yield kernel
        await kernel.close(0)


async def asking(kernel: Kernel, *texts: str, tenant: str | None, agent: str = "main") -> list[Asked]:
    """A conversation of its own for each text, asked in this order."""
    asked = []
    for text in texts:
        asked.append(asyncio.create_task((await kernel.start(agent, tenant=tenant)).ask(text)))
        await settled(kernel)
    return asked


async def ended(kernel: Kernel, desk: Desk | Works, asked: list[Asked]) -> list[RunOutcome]:
    """The outcomes of all, with one thing after the other answered or ended."""
    step = desk.answer if isinstance(desk, Desk) else desk.end_one

    async def done() -> bool:
        step()
        await settled(kernel)
        return all(one.done() for one in asked)

    await until(done)
    return [one.result() for one in asked]


def first(texts: list[str], count: int) -> Counter[str]:
    """How many of the first so many have each beginning: `acme-7` begins with acme."""
    return Counter(text.partition("-")[0] for text in texts[:count])


def many(name: str, count: int) -> list[str]:
    return [f"{name}-{n}" for n in range(count)]


async def test_a_tenant_is_told_of_a_conversation_by_its_log_its_component_and_its_row(store: Store) -> None:
    async with hosting(store, "main", model=Mind()) as kernel:
        conversation = await kernel.start("main", tenant="acme")
        other = await kernel.start("main")
        config = kernel.world.slice(conversation.id).get(CONVERSATION, ConversationConfig)  # type: ignore[union-attr, arg-type]
        row = await kernel.store.log(conversation.id)
        pages = [await kernel.page(Listing(tenant=tenant)) for tenant in ("acme", None, "nobody")]

        assert config is not None
        assert row is not None
        assert (config.tenant, row.tenant) == ("acme", "acme")
        assert [{one.id: one.tenant for one in page.conversations} for page in pages] == [
            {conversation.id: "acme"},
            {conversation.id: "acme", other.id: None},
            {},
        ]


@pytest.mark.parametrize("tenant", ["", "two words", "x" * 129, "naïve", "a\nb", "\0"])
async def test_a_tenant_that_is_no_name_is_refused_and_nothing_is_stored(tenant: str) -> None:
    async with hosting(MemoryStore(), "main", model=Mind()) as kernel:
        with pytest.raises(InputRefused, match=r"letters, digits and _\.:/@\+-, at most 128.*(such as|leave it out)"):
            await kernel.start("main", tenant=tenant)

        assert await kernel.conversations() == []


async def test_a_key_is_that_of_a_tenant_so_that_nobody_comes_to_the_conversation_of_another(store: Store) -> None:
    async with hosting(store, "main", model=Mind()) as kernel:
        ids = [await kernel.begin("main", "k", tenant=tenant) for tenant in ("acme", "acme", "globex", None, None)]

        assert len(set(ids)) == 3
        assert (ids[0], ids[3]) == (ids[1], ids[4])


async def test_children_and_forks_have_the_tenant_of_what_they_come_from(store: Store) -> None:
    lead = Mind(calls(call("ask_helper", task="help")), "thanks")
    async with Kernel(store) as kernel:
        await kernel.install(AgentSpec(slug="helper"), model=Mind("helped"))
        await kernel.install(AgentSpec(slug="lead", subagents=["helper"]), model=lead)
        conversation = await kernel.start("lead", tenant="acme")
        await conversation.ask("go")
        fork = await kernel.fork(conversation.id, run=False)
        of_fork = await kernel.fork(fork.id, run=False)
        page = await kernel.page(Listing(sort="started"))
        agents = [(row.agent, row.tenant) for row in reversed(page.conversations)]

        assert {fork.id, of_fork.id} < {row.id for row in page.conversations}
        assert agents == [("lead", "acme"), ("helper", "acme"), ("lead", "acme"), ("lead", "acme")]


async def test_no_more_turns_of_a_tenant_run_than_its_bound_and_others_are_not_held_up(store: Store) -> None:
    desk = Desk()
    async with hosting(store, "main", "other", model=desk.mind(), tenant_turns_max=2) as kernel:
        asked = await asking(kernel, *many("acme", 3), tenant="acme")
        asked += await asking(kernel, "acme-3", tenant="acme", agent="other")
        asked += await asking(kernel, *many("globex", 3), tenant="globex")
        asked += await asking(kernel, *many("free", 3), tenant=None)
        began, waiting = first(desk.asked, len(desk.asked)), kernel.turns_waiting
        limits = {(one.of, one.name, one.held, one.waiting) for one in (await kernel.top()).limits}
        outcomes = await ended(kernel, desk, asked)

        assert began == Counter(acme=2, globex=2, free=3)
        assert waiting == 3
        assert limits == {("turns", "acme", 2, 2), ("turns", "globex", 2, 1)}
        assert [outcome.completed for outcome in outcomes] == [True] * 10


async def test_a_full_line_of_one_tenant_refuses_nobody_who_has_room(store: Store) -> None:
    desk = Desk()
    async with hosting(store, "main", model=desk.mind(), tenant_turns_max=1, waiting_turns_max=1) as kernel:
        asked = await asking(kernel, *many("acme", 2), tenant="acme")
        late = await kernel.start("main", tenant="acme")
        with pytest.raises(ConversationBusy):
            await late.send("acme-late")
        asked += await asking(kernel, "globex-0", tenant="globex")
        other = await kernel.start("main", tenant="globex")
        with pytest.raises(ConversationBusy):
            await other.send("globex-late")
        begun = list(desk.asked)
        await ended(kernel, desk, asked)

        assert begun == ["acme-0", "globex-0"]


async def test_no_more_calls_of_a_tenant_run_than_its_bound_and_others_are_not_held_up(store: Store) -> None:
    works = Works()
    async with hosting(store, "main", "other", model=Mind(*[asks] * 20), works=works, tenant_calls_max=2) as kernel:
        asked = await asking(kernel, "acme-0 acme-1", "acme-2", tenant="acme")
        asked += await asking(kernel, "acme-3", tenant="acme", agent="other")
        asked += await asking(kernel, "globex-0 globex-1 globex-2", tenant="globex")
        asked += await asking(kernel, "free-0 free-1 free-2", tenant=None)
        began = first(works.began, len(works.began))
        await ended(kernel, works, asked)

        assert began == Counter(acme=2, globex=2, free=3)
        assert first(works.began, 20) == Counter(acme=4, globex=3, free=3)


async def test_a_bound_of_a_tenant_holds_for_its_children_too(store: Store) -> None:
    works = Works()
    lead = Mind(calls(call("ask_helper", task="acme-0 acme-1")), "thanks")
    async with Kernel(store, settings=Settings(tenant_calls_max=1)) as kernel:
        await kernel.add_toolbox(PythonToolbox("box", [works.work]))
        await kernel.install(AgentSpec(slug="helper", toolboxes=["box"]), model=Mind(*[asks] * 9))
        await kernel.install(AgentSpec(slug="lead", subagents=["helper"]), model=lead)
        asked = await asking(kernel, "go", tenant="acme", agent="lead")
        asked += await asking(kernel, "acme-2", tenant="acme", agent="helper")
        await ended(kernel, works, asked)

        assert (works.most, len(works.began)) == (1, 3)


@pytest.mark.parametrize(("weight", "expected"), [(1, Counter(acme=12, globex=12)), (3, Counter(acme=18, globex=6))])
async def test_turns_of_tenants_share_places_by_weight_whatever_agents_they_ask(
    store: Store, weight: float, expected: Counter[str]
) -> None:
    desk = Desk()
    async with hosting(store, "main", "other", model=desk.mind(), turns_max=1) as kernel:
        await kernel.renice("acme", weight, tenant=True)
        blocking = await asking(kernel, "first", tenant=None)
        asked = await asking(kernel, *many("globex", 15), tenant="globex")
        asked += await asking(kernel, *many("globex", 15), tenant="globex", agent="other")
        asked += await asking(kernel, *many("acme", 20), tenant="acme")
        await ended(kernel, desk, [*blocking, *asked])

        assert first(desk.asked[1:], 24) == expected


async def test_calls_of_tenants_share_a_toolbox_by_weight(store: Store) -> None:
    works = Works()
    exclusive = ToolboxSharing.EXCLUSIVE
    async with hosting(store, "main", model=Mind(*[asks] * 20), works=works, sharing=exclusive) as kernel:
        await kernel.renice("acme", 3, tenant=True)
        asked = await asking(kernel, " ".join(many("globex", 24)), tenant="globex")
        asked += await asking(kernel, " ".join(many("acme", 24)), tenant="acme")
        await ended(kernel, works, asked)
        shared = first(works.began[1:], 24)

        assert shared == Counter(acme=18, globex=6)


async def test_turns_with_tenants_replay_as_they_were_and_their_store_verifies(store: Store) -> None:
    works = Works()
    said: dict[str, Any] = {"tenant_turns_max": 1, "tenant_calls_max": 1}
    async with hosting(store, "main", model=Mind(*[asks] * 40), works=works, **said) as kernel:
        asked = await asking(kernel, "acme-0 acme-1", "acme-2", tenant="acme")
        asked += await asking(kernel, "globex-0", tenant="globex")
        outcomes = await ended(kernel, works, asked)
        forks = [await kernel.fork(outcome.conversation) for outcome in outcomes]
        replayed = [one async for one in replay_all(store)]
        report = await verify_store(store)

        assert Counter(map(type, replayed)) == {
            Identical: len(outcomes) + len(forks),
            Skipped: 2,
        }  # the agent, its toolbox
        assert report.ok, report.differences


async def test_a_bundle_brings_the_tenant_along_and_the_bound_holds_where_it_comes_to(
    store: Store, tmp_path: Path
) -> None:
    async with hosting(store, "main", model=Mind()) as kernel:
        conversation = await kernel.start("main", tenant="acme")
        await conversation.ask("hello")
        await export_bundle(kernel.store, tmp_path / "talk.zip", conversation=conversation.id)
    desk, there = Desk(), MemoryStore()
    with BundleReader(tmp_path / "talk.zip") as bundle:
        await import_bundle(there, bundle)
    async with hosting(there, "main", model=desk.mind(), tenant_turns_max=1) as kernel:
        asked = await asking(kernel, "acme-0", tenant="acme")
        await kernel.control(conversation.id, Control.UNPAUSE)
        asked.append(asyncio.create_task((await kernel.get(conversation.id)).ask("acme-1")))
        await settled(kernel)
        began, rows = list(desk.asked), (await kernel.page(Listing(tenant="acme"))).conversations
        await ended(kernel, desk, asked)

        assert began == ["acme-0"]
        assert conversation.id in {row.id for row in rows}


async def test_the_tenant_of_an_open_turn_is_told_by_top(store: Store) -> None:
    async with hosting(store, "main", model=Mind(hang, hang)) as kernel:
        for tenant in ("acme", None):
            await (await kernel.start("main", tenant=tenant)).send("go")
        await settled(kernel)

        assert [turn.tenant for turn in (await kernel.top()).turns] == ["acme", None]


async def test_a_conversation_keeps_its_tenant_when_it_is_loaded_again(store: Store) -> None:
    desk = Desk()
    async with hosting(store, "main", model=desk.mind(), tenant_turns_max=1, live_conversations_max=1) as kernel:
        talks = [await kernel.start("main", tenant="acme") for _ in range(3)]
        for _ in range(3):
            await kernel.start("main")
        states = [talk.state for talk in talks]
        asked = [asyncio.create_task(talk.ask(f"acme-{n}")) for n, talk in enumerate(talks)]
        outcomes = await ended(kernel, desk, asked)

        assert states == ["unloaded"] * 3
        assert desk.most == 1
        assert [outcome.completed for outcome in outcomes] == [True] * 3
