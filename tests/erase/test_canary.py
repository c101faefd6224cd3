"""A text that was said anywhere in a conversation is in no file of the store after it is erased, in no form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentos.components import CallStatus, Resolution
from agentos.definitions import AgentSpec, SubagentUse
from agentos.errors import ModelError
from agentos.events.intake import Input, Resolve
from agentos.events.model import Finish, ModelReply, ToolCall
from agentos.history import search_store
from agentos.ids import CallId, Name, call_id
from agentos.kernel import Conversation, Kernel
from agentos.kernel.inbox_items import inbox_row
from agentos.persistence import open_store
from agentos.persistence.base import Store
from agentos.ports import HookVerdict
from agentos.settings import Settings
from agentos.toolboxes.python import PythonToolbox
from tests.erase.support import check_whole, gone_from
from tests.support import Mind, call, calls

CANARY = 'the "canary" ⚙ sings'
LONG = f"{CANARY} " * 6_000
"""More than a page of any store, so that it stands on pages of its own."""
WORDS = ("canary", "sings")


async def repeat(text: str) -> str:
    """Says it again."""
    return f"again: {text}"


async def fail(text: str) -> str:
    """Says it with an error."""
    raise ValueError(text)


class Changing:
    """A hook that puts other arguments in the place of those of a call."""

    name = Name("changing")

    async def before_call(self, _: CallId, tool: Name, arguments: dict[str, Any]) -> HookVerdict | None:
        if tool != "repeat":
            return None
        return HookVerdict(arguments={"text": f"{CANARY}, changed; {arguments['text']}"}, reason=f"since {CANARY}")


def talker() -> Mind:
    thinking = ModelReply(
        text=f"reply {CANARY}",
        calls=(ToolCall("repeat", {"text": CANARY}), ToolCall("fail", {"text": CANARY})),
        finish=Finish.TOOL_USE,
        thinking=f"thinking {CANARY}",
        opaque={"signed": CANARY},
        kept_for="scripted",
    )
    asking = calls(call("ask_child", task=f"task {CANARY}"))
    broken = ModelError("invalid_request", f"error {CANARY}", text=f"partial {CANARY}")
    return Mind(thinking, calls(call("repeat", text=LONG)), asking, f"answer {CANARY}", broken)


@pytest.fixture(params=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'a.db'}" if request.param == "sqlite" else f"file:{tmp_path / 'a'}"


async def install(kernel: Kernel) -> None:
    await kernel.add_toolbox(PythonToolbox("box", [repeat, fail]))
    await kernel.install(
        AgentSpec(slug="main", toolboxes=["box"], subagents=[SubagentUse(slug="child")]), model=talker()
    )
    await kernel.install(AgentSpec(slug="child", toolboxes=["box"]), model=Mind(f"child {CANARY}"))


async def said(kernel: Kernel) -> Conversation:
    """A conversation in which everything private holds the canary, and another one that does not."""
    conversation = await kernel.start("main")
    await conversation.ask(f"input {CANARY}")
    await conversation.ask(f"{CANARY}, and a model that fails")
    resolved = Resolve(
        call=call_id(conversation.id, 6),
        attempt=1,
        resolution=Resolution.DONE,
        tool=Name("repeat"),
        asked=f"repeat {CANARY}",
        result=f"resolved {CANARY}",
        reason=f"reason {CANARY}",
    )
    kernel.logs.route(conversation.id, resolved, "resolve:x")  # type: ignore[arg-type]
    await kernel.ticker.wait_quiet()
    return conversation


async def test_no_file_holds_it_in_any_form_once_it_is_erased(url: str, tmp_path: Path) -> None:
    async with Kernel(url, hooks=[Changing()]) as kernel:
        await install(kernel)
        conversation = await said(kernel)
        other = await kernel.start("child")
        await other.ask("something else")
        ended = await kernel.query("select status from calls order by seq")
    await _index(url)
    async with Kernel(url, settings=Settings(inbox_poll_ms=10**9)) as kernel:
        await kernel.get(conversation.id)
        await _post(url, conversation.id)
        before = _found_in(tmp_path)
        erasure = await kernel.erase(conversation.id)
        beside = _found_in(tmp_path)
    after = _found_in(tmp_path)
    store = open_store(url)
    try:
        assert {status for (status,) in ended.rows} == {CallStatus.DONE.value, CallStatus.FAILED.value}
        assert len(before) >= 2  # the store and the index
        assert erasure.settled
        assert erasure.index is not None
        assert [beside, after] == [[], []]
        assert await gone_from(store, *(receipt.log for receipt in erasure.receipts))
        assert len(erasure.receipts) == 2
        assert await store.inbox() == []
        await check_whole(store)
    finally:
        await store.close()


async def test_the_index_of_who_came_by_a_link_is_cleaned_too(tmp_path: Path) -> None:
    place, link = tmp_path / "a.db", tmp_path / "link.db"
    async with Kernel(f"sqlite:///{place}") as kernel:
        await install(kernel)
        conversation = await said(kernel)
    link.symlink_to(place)
    await _index(f"sqlite:///{link}")
    before = _found_in(tmp_path)
    async with Kernel(f"sqlite:///{place}") as kernel:
        erasure = await kernel.erase(conversation.id)

    assert before
    assert erasure.index is not None
    assert _found_in(tmp_path) == []


async def _index(url: str) -> None:
    """As somebody leaves it who has searched."""
    store = open_store(url)
    try:
        found = await search_store(store, "canary")
        assert found.hits
    finally:
        await store.close()


async def _post(url: str, conversation: str) -> None:
    """As another process leaves a message that nobody has taken yet."""
    store: Store = open_store(url)
    await store.open("somebody")
    await store.post(inbox_row(conversation, "input:waits", Input(text=f"waits {CANARY}")))
    await store.close()


def _forms() -> Iterator[bytes]:
    """Raw, escaped as JSON once and twice, and in base64 at any offset."""
    raw = CANARY.encode()
    for ascii_ in (True, False):
        once = json.dumps(CANARY, ensure_ascii=ascii_)[1:-1]
        yield once.encode()
        yield json.dumps(once, ensure_ascii=ascii_)[1:-1].encode()
    yield raw
    yield from (word.encode() for word in WORDS)
    for n in range(3):
        yield base64.b64encode(b" " * n + raw)[4 * (n > 0) : -4]


def _found_in(folder: Path) -> list[str]:
    forms = list(_forms())
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [f"{path.name}: {form!r}" for form in forms if form in data]
    return found
