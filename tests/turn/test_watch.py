"""Watching a conversation of a kernel: what was, what is, and the pieces of an answer while it is made."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentos.components import CallState
from agentos.definitions import AgentSpec
from agentos.errors import UnknownConversation
from agentos.events.entry import Entry
from agentos.events.model import ModelDelta, ModelReply
from agentos.kernel import open as open_kernel
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from tests.support import Mind, call, calls, hang, kinds, lab, settled, until


class Talkative(Mind):
    """A model that says its answer in pieces, and waits for its door before the last one."""

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces
        self.door = asyncio.Event()

    async def complete(self, request: Any, on_delta: Any) -> ModelReply:
        for piece in self.pieces[:-1]:
            on_delta(piece)
            await asyncio.sleep(0)
        await self.door.wait()
        on_delta(self.pieces[-1])
        return ModelReply("".join(self.pieces))


async def gather(stream: Any, seen: list[Any]) -> None:
    """Keeps what is seen, at once: whoever looks at the list shall not have to wait for the end."""
    async for item in stream:
        seen.append(item)  # noqa: PERF401


async def test_a_watcher_sees_what_was_stored_and_then_what_happens() -> None:
    async with lab(Mind("one", "two")) as here:
        conversation = await here.start()
        await conversation.ask("first")
        seen: list[Any] = []
        watching = asyncio.create_task(gather(conversation.watch(), seen))
        await settled(here.kernel)
        before = len(seen)
        await conversation.ask("second")
        await settled(here.kernel)
        entries = [item for item in seen if isinstance(item, Entry)]
        watching.cancel()

        assert before == 6
        assert [entry.seq for entry in entries] == list(range(1, 12))
        assert [entry.data.kind for entry in entries] == await kinds(conversation)


async def test_a_live_entry_is_the_one_that_is_stored() -> None:
    async def add(a: int) -> int:
        return a + 1

    async with lab(Mind(calls(call("add", a=1)), "two"), [add]) as here:
        conversation = await here.start()
        seen: list[Any] = []
        watching = asyncio.create_task(gather(conversation.watch(), seen))
        await settled(here.kernel)
        await conversation.ask("go")
        await settled(here.kernel)
        watching.cancel()
        stored = await conversation.history()

        for live, entry in zip([item for item in seen if isinstance(item, Entry)], stored, strict=True):
            for field in ("log", "seq", "unit", "at", "writer", "data", "turn", "call", "changes", "private", "by"):
                assert getattr(live, field) == getattr(entry, field), (entry.seq, field)


async def test_pieces_of_an_answer_come_before_it_and_add_up_to_it() -> None:
    mind = Talkative("Hel", "lo ", "there")
    async with lab(mind) as here:
        conversation = await here.start()
        seen: list[Any] = []
        watching = asyncio.create_task(gather(conversation.watch(), seen))
        asked = asyncio.create_task(conversation.ask("hi"))
        await settled(here.kernel)
        halfway = [item.text for item in seen if isinstance(item, ModelDelta)]
        mind.door.set()
        await asked
        await settled(here.kernel)
        watching.cancel()

        deltas = [item for item in seen if isinstance(item, ModelDelta)]
        reply = next(n for n, item in enumerate(seen) if isinstance(item, Entry) and item.data.kind == "model.finished")
        assert halfway == ["Hel", "lo "]
        assert "".join(item.text for item in deltas) == "Hello there"
        assert max(seen.index(item) for item in deltas) < reply


async def test_a_watcher_that_begins_late_begins_after_the_seq_it_names() -> None:
    async with lab(Mind("one")) as here:
        conversation = await here.start()
        await conversation.ask("first")
        seen: list[Any] = []
        watching = asyncio.create_task(gather(conversation.watch(after_seq=4), seen))
        await settled(here.kernel)
        watching.cancel()

        assert [item.seq for item in seen] == [5, 6]


async def test_a_watcher_of_another_process_sees_what_is_written_here() -> None:
    """It is not told; it looks at the store, by the clock."""
    store = MemoryStore()
    async with lab(Mind("one"), store=store) as here, lab(store=MemoryStore(store), first_id=50) as there:
        conversation = await here.start()
        seen: list[Any] = []
        watching = asyncio.create_task(gather(there.kernel.watch(conversation.id), seen))
        await settled(there.kernel)
        await conversation.ask("go")
        await until(lambda: len(seen) == 6)
        watching.cancel()

        assert [item.seq for item in seen] == list(range(1, 7))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_watcher_ends_when_its_kernel_closes(tmp_path: Path, kind: str) -> None:
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'a.db'}"
    seen: list[Any] = []
    async with open_kernel(url) as kernel:
        await kernel.install(AgentSpec(slug="main"), model=Mind("hello"))
        conversation = await kernel.start("main")
        watching = asyncio.create_task(gather(conversation.watch(), seen))
        await until(lambda: seen)
        await conversation.ask("hi")
    await asyncio.wait_for(watching, 30)

    assert [item.seq for item in seen if isinstance(item, Entry)] == list(range(1, 7))


async def test_a_watcher_that_never_looks_costs_a_bounded_queue() -> None:
    async def work() -> str:
        return "worked"

    settings = Settings(watch_queue_max=5)
    async with lab(Mind(*[calls(call("work"))] * 20), [work], options={"settings": settings}) as here:
        conversation = await here.start()
        stream = conversation.watch()
        first = await anext(stream)
        await conversation.ask("go")
        (watcher,) = next(iter(here.kernel.watchers._by_log.values()))
        waiting = watcher.waiting
        rest = [await anext(stream) for _ in range(80)]
        await stream.aclose()  # type: ignore[attr-defined]

        assert waiting <= 5
        seqs = [item.seq for item in (first, *rest) if isinstance(item, Entry)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) > 70


@pytest.mark.parametrize("unknown", ["conversation_01m8q5v3p3e4zs7gwpfax9rn6k", "nonsense", ""])
async def test_who_watches_what_there_is_not_is_told_so(unknown: str) -> None:
    async with lab() as here:
        with pytest.raises(UnknownConversation, match="'agentos ps' lists them"):
            await anext(aiter(here.kernel.watch(unknown)))


async def test_a_subagent_is_watched_from_its_first_entry_on_as_soon_as_its_call_names_it() -> None:
    helper = Mind(hang)
    main = Mind(calls(call("ask_helper", task="count")))
    async with lab(main, subagents=["helper"], others={"helper": (helper, {})}) as here:
        conversation = await here.start()
        await conversation.send("go")
        children: list[str] = []
        seen: list[Any] = []
        async with aclosing(conversation.watch()) as items:  # type: ignore[type-var]
            async for item in items:
                children += [
                    component.child
                    for _, component in getattr(item, "changes", ())
                    if isinstance(component, CallState) and component.child is not None
                ]
                if children:
                    break
        watching = asyncio.create_task(gather(here.kernel.watch(children[0]), seen))
        await until(lambda: helper.requests)
        await settled(here.kernel)
        watching.cancel()

        assert [entry.seq for entry in seen if isinstance(entry, Entry)] == [1, 2, 3, 4]
