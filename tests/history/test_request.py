"""The request of a step, rebuilt from the log, is what the model was asked."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentos.errors import ConfigurationError, UnknownConversation
from agentos.events.model import ModelReply, ModelRequest
from agentos.history import request_of
from agentos.models import DirectModel
from agentos.persistence.base import Store
from agentos.persistence.sqlite import SQLiteStore
from agentos.settings import Settings
from tests.history.support import Desk, office


class Listening:
    """The direct model, and every request that it got as plain data."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[Any]]] = []
        self._inner = DirectModel()

    def __call__(self, request: ModelRequest) -> ModelReply:
        self.requests.append((request.digest, [msgspec.to_builtins(message) for message in request.messages]))
        return self._inner._reply(request)


async def test_every_request_is_rebuilt_as_the_model_got_it(store: Store, desk: Desk) -> None:
    model = Listening()
    async with office(store, desk, reply=model, settings=Settings(snapshot_entries=20)) as kernel:
        clerk = await kernel.start("clerk")
        for n in range(4):
            await clerk.ask(f"note text={n}\nask_aide task='note text=b'\nfail text=c", ephemeral=n == 1)
        seqs = [entry.seq for entry in await kernel.history(clerk.id) if entry.data.kind == "model.requested"]
        rebuilt = [await request_of(store, clerk.id, seq) for seq in seqs]
        last = await request_of(store, clerk.id)

    assert [(request.digest, request.messages) for request in rebuilt] == model.requests
    assert all(request.matches for request in rebuilt)
    assert [(request.step, request.attempt) for request in rebuilt] == [(0, 1), (1, 1)] * 4
    assert last == rebuilt[-1]


async def test_it_is_plain_data_with_model_prompt_and_tools(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("hello")
        request = await request_of(store, clerk.id)

    plain = json.loads(json.dumps(msgspec.to_builtins(request)))
    assert plain["agent"] == "clerk"
    assert plain["model"]["kind"] == "direct"
    assert plain["prompt"] == ["Keep order."]
    assert [tool["name"] for tool in plain["tools"]] == ["ask_aide", "ask_helper", "fail", "note", "peek", "wait"]
    assert plain["messages"] == [{"role": "user", "text": "hello"}]
    assert plain["turn"] == f"turn_{clerk.id.partition('_')[2]}_3"


async def test_an_edited_message_no_longer_matches(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "edited.db"
    async with office(SQLiteStore(str(path)), desk) as kernel:
        clerk = await kernel.start("clerk")
        await clerk.ask("hello")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update messages set text = 'hullo' where role = 'user'")
    db.close()
    store = SQLiteStore(str(path))
    request = await request_of(store, clerk.id)
    await store.close()

    assert not request.matches
    assert request.messages[0]["text"] == "hullo"


async def test_where_no_model_was_asked_there_is_no_request(store: Store, desk: Desk) -> None:
    async with office(store, desk) as kernel:
        clerk = await kernel.start("clerk")
        with pytest.raises(ConfigurationError, match="no model yet"):
            await request_of(store, clerk.id)
        await clerk.ask("hello")
        for seq in (2, 5, 99):
            with pytest.raises(ConfigurationError, match=f"no model at seq {seq}"):
                await request_of(store, clerk.id, seq)
        with pytest.raises(UnknownConversation):
            await request_of(store, "conversation_nowhere")
