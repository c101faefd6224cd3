"""A log is in memory once, whatever happens while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from agentos.ids import ConversationId, Kind, LogId, hashed_id
from agentos.kernel import Conversation
from agentos.persistence.base import LogRow, StoredEntry
from agentos.persistence.memory import MemoryStore
from agentos.settings import Settings
from agentos.testing.faults import FaultPlan, FaultyStore
from tests.support import Mind, lab, settled

ID = ConversationId(hashed_id(Kind.CONVERSATION, "main", "the key"))


class SlowReads(FaultyStore):
    """Its first look for ID, and its first reading of ID's entries, each wait for a word."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), FaultPlan())
        self.look, self.read = asyncio.Event(), asyncio.Event()
        self._looked = self._has_read = False

    async def log(self, log: str) -> LogRow | None:
        if log == ID and not self._looked:
            self._looked = True
            await self.look.wait()
        return await super().log(log)

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        if log == ID and not self._has_read:
            self._has_read = True
            await self.read.wait()
        return await super().entries(log, after, upto, limit, kinds)


async def test_a_conversation_that_begins_while_it_is_loaded_is_the_one_that_began() -> None:
    """Between its row and its entries it takes a turn: that is no damage."""
    store = SlowReads()
    async with lab(Mind("hello", "again"), store=store) as here:
        loading = asyncio.create_task(here.kernel.outcome(ID))
        await settled(here.kernel)
        conversation = await here.kernel.start("main", "the key")
        store.look.set()
        await settled(here.kernel)
        first = await conversation.ask("go")
        store.read.set()

        assert await loading is None
        assert (first.text, (await conversation.ask("go on")).text) == ("hello", "again")


async def test_one_that_begins_while_it_is_loaded_and_leaves_again_comes_back_whole() -> None:
    store = SlowReads()
    settings = Settings(live_conversations_max=1)
    async with lab(Mind("hello", "other", "again"), store=store, options={"settings": settings}) as here:
        loading = asyncio.create_task(here.kernel.outcome(ID))
        await settled(here.kernel)
        conversation = await here.kernel.start("main", "the key")
        store.look.set()
        await settled(here.kernel)
        first = await conversation.ask("go")
        other = await here.start()
        await other.ask("go")
        away = LogId(ID) not in here.kernel.ticker.loaded
        store.read.set()

        assert away
        assert await loading is None
        assert (first.text, (await Conversation(here.kernel, ID).ask("go on")).text) == ("hello", "again")
