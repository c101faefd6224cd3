"""Which logs are in memory: loads them with ownership first, routes items to them, and lets go of those that are lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from agentos.components import ConversationConfig, ConversationState, ConversationStatus
from agentos.effects import Runner
from agentos.errors import ConversationErased, ConversationHeld, KernelClosed, StoreUnavailable, UnknownConversation
from agentos.events.entry import Registry, seed_digest
from agentos.events.intake import POST_KIND, Delegate, Item, Resume, Start
from agentos.ids import CONVERSATION, Kind, LogId, Name
from agentos.journal import Head, Times
from agentos.kernel.catalog import Catalog
from agentos.kernel.eviction import Eviction
from agentos.kernel.held import Foreign, is_held
from agentos.kernel.inbox_items import inbox_row, item_of
from agentos.kernel.inbox_keys import InboxKeys
from agentos.kernel.loaded import Loaded
from agentos.kernel.search_beside import forget_or_tell
from agentos.kernel.stored_logs import StoredLogs
from agentos.kernel.tick import Ticker
from agentos.kernel.unknown_commits import STORE_RETRY_S
from agentos.kernel.waiters import fail_asks
from agentos.persistence.base import LogRow, Store
from agentos.resources.finishing import unheard
from agentos.world import World

ARRIVAL_S = 1.0
"""How long a kernel that is about to close waits for what is on its way to a log."""


class Logs:
    """The loaded logs of one kernel."""

    def __init__(
        self,
        world: World,
        store: Store,
        catalog: Catalog,
        ticker: Ticker,
        registry: Registry,
        runner: Runner,
        live_max: int,
    ) -> None:
        self._world, self._store, self._catalog = world, store, catalog
        self._ticker, self._runner = ticker, runner
        self.stored = StoredLogs(store, catalog, registry)
        self._loads: dict[LogId, asyncio.Task[Loaded]] = {}
        self._overtaken: set[LogId] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        self._keys = InboxKeys()
        self.take_agent: Callable[[Name], Awaitable[None]] | None = None
        """Has the agent of a fork in force, which may be installed in the process alone that forked."""
        self.eviction = Eviction(ticker, runner, live_max, self.unload, self._patiently)
        self.mine: set[LogId] = set()
        self.closed = False

    def begin(self, log: LogId, start: Start) -> Loaded:
        """A conversation that no store knows yet."""
        row = LogRow(
            id=log,
            kind=Kind.CONVERSATION.value,
            owner=self._ticker.writer,
            epoch=1,
            seq=0,
            digest=seed_digest(log),
            root=start.root,
            parent_call=start.parent_call,
            tenant=start.tenant,
        )
        loaded = Loaded(self._world.load(log), Head(row=row, new=True), Times())
        self._register(loaded)
        if log in self._loads:
            self._overtaken.add(log)
        return loaded

    async def get(self, log: LogId) -> Loaded:
        """The loaded log; loads it, and takes over an open turn of a dead owner.

        It is loaded when the caller goes on: one that was let go in between is loaded again.
        Errors: UnknownConversation; Foreign when a living process owns it.
        """
        while (found := self._ticker.loaded.get(log)) is None:
            if self.closed:
                raise KernelClosed
            task = self._loads.get(log)
            if task is None:
                task = self._loads[log] = asyncio.get_running_loop().create_task(self._loading(log))
                task.add_done_callback(unheard)
            await asyncio.shield(task)
        return found

    def route(self, log: LogId, item: Item, key: str) -> None:
        """An item that was posted to a log with a unit of ours, or read from the inbox."""
        if not self._keys.give(log, key):
            return
        loaded = self._ticker.loaded.get(log)
        if loaded is not None:
            self._ticker.feed(loaded, item, key)
            return
        task = asyncio.get_running_loop().create_task(self._route(log, item, key))
        for tasks in (self._tasks, self._arriving):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def wait_arrived(self) -> bool:
        """Whether items were on their way to logs that are loaded for them, and have come there within ARRIVAL_S. Those of a
        store that is out of reach stay in the inbox."""
        if not self._arriving:
            return False
        _, late = await asyncio.wait(self._arriving, timeout=ARRIVAL_S)
        return not late

    async def _route(self, log: LogId, item: Item, key: str) -> None:
        try:
            loaded = await self._patiently(log)
        except UnknownConversation:
            begun = self._ticker.loaded.get(log)  # by a delegation that was on its way, too
            if begun is None:
                if not isinstance(item, Delegate):
                    self._keys.take_back(log, key)
                    return
                begun = self.begin(log, item.start)
            loaded = begun
        except (Foreign, KernelClosed, ConversationHeld):
            self._keys.take_back(log, key)  # its owner takes it from the inbox
            return
        if not any(known == key for known in loaded.keys.values()):
            self._ticker.feed(loaded, item, key)

    async def _patiently(self, log: LogId) -> Loaded:
        """The loaded log, however long its store is out of reach."""
        while True:
            try:
                return await self.get(log)
            except StoreUnavailable:
                await self._ticker.clock.sleep(STORE_RETRY_S)

    async def poll(self) -> None:
        """Takes what other processes put into the inbox for logs of ours."""
        await self._take_inbox(None)

    async def take_inbox(self, log: LogId) -> None:
        await self._take_inbox(log)

    async def _take_inbox(self, log: LogId | None) -> None:
        with self._keys.reading():
            for row in await self._store.inbox(log):
                if LogId(row.log) in self.mine or row.log == log:
                    self.route(LogId(row.log), item_of(row), row.key)

    def taken(self, log: LogId, keys: Sequence[str]) -> None:
        """The store remembers these keys of items that it was given."""
        self._keys.stored(log, keys)

    def lost(self, loaded: Loaded) -> None:
        """Another writer has the log: what runs for it is stopped, who waits is told, and posted items are handed on.

        Those with a key lie in the inbox already. Who began a conversation that another process began under the same key
        has what was wanted.
        """
        log, intake = loaded.log, loaded.intake
        keyed = {id(item) for item in intake if id(item) in loaded.keys}
        error = StoreUnavailable(self._store.url, f"another process has taken over {log}; send again")
        self.unload(loaded)
        self.mine.discard(log)
        self._runner.stop(log)
        for item in intake:
            if not self._ticker.waiters.tell(item, error) and type(item) in POST_KIND and id(item) not in keyed:
                self._background(self._hand_on(log, item))
        self._ticker.waiters.begun(loaded)
        fail_asks(loaded, error)

    def erased(self, loaded: Loaded, at: int, *, is_heard: bool) -> None:
        """It leaves memory with all that came for it meanwhile, and who sent that is told. What lies in the inbox is taken
        from there, and dropped, when the log is loaded again. is_heard: somebody in this process waits for it, and sees to
        the search index; who sent the word through the inbox may have gone."""
        self.unload(loaded)
        if not is_heard:
            self._background(forget_or_tell(self._store.url, loaded.log))
        error = ConversationErased(loaded.log, at)
        for item in loaded.intake:
            self._ticker.waiters.tell(item, error)
        fail_asks(loaded, error)

    async def _hand_on(self, log: LogId, item: Item) -> None:
        """Something that was acknowledged, and that only the new owner can do."""
        row = inbox_row(log, f"handed:{os.urandom(8).hex()}", item)
        while not self.closed:
            try:
                await self._store.post(row)
                break
            except StoreUnavailable:
                await self._ticker.clock.sleep(STORE_RETRY_S)
        self.route(log, item, row.key)  # the new owner may have died meanwhile

    async def let_go_of_lost(self) -> None:
        """Finds out which logs others have taken over, after this process was frozen or its store out of reach: what runs
        for them is stopped now, not when it ends. Those at rest are found out by their next unit."""
        for log, loaded in list(self._ticker.loaded.items()):
            if not (self._runner.busy(log) or loaded.asks) or loaded.head.new:
                continue
            row, mine = await self._store.log(log), loaded.head.row
            is_here = self._ticker.loaded.get(log) is loaded and not loaded.flying
            if is_here and row is not None and (row.owner, row.epoch) != (mine.owner, mine.epoch):
                self._ticker.lose(loaded)

    def goes_on(self, loaded: Loaded) -> bool:
        """Whether a turn is open, or one can begin here that takes what waits."""
        state = loaded.slice.get(CONVERSATION, ConversationState)
        config = loaded.slice.get(CONVERSATION, ConversationConfig)
        if state is None or config is None:
            return False
        waits = bool(state.waiting) and state.status is not ConversationStatus.PAUSED
        return bool(state.open_turn) or (waits and config.slug in self._catalog.agents)

    def unload(self, loaded: Loaded) -> None:
        self._ticker.forget(loaded.log)
        self._world.unload(loaded.log)
        for timer in loaded.timers.values():
            timer.cancel()
        for key in loaded.keys.values():
            self._keys.take_back(loaded.log, key)

    async def close(self) -> None:
        self.closed = True
        await self.eviction.close()
        waiting = [*self._tasks, *self._loads.values()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _loading(self, log: LogId) -> Loaded:
        """One loading for all who want the log now. Once it has ended nobody finds it any more: whoever waits for what is
        done already would never let others run, when the log was let go in between."""
        try:
            return await self._load(log)
        finally:
            self._loads.pop(log, None)

    async def _load(self, log: LogId) -> Loaded:
        """Nothing in memory changes before everything is read, so that a store that fails half-way leaves no trace.

        A log that is begun here while it is read, as a delegation does, may have got new entries between two reads, and
        may have been let go again: it is looked for anew."""
        self._overtaken.discard(log)
        if (begun := self._ticker.loaded.get(log)) is not None:
            return begun
        row = await self._store.log(log)
        if row is None:
            raise UnknownConversation(log)
        taken_over = row.owner != self._ticker.writer or log not in self.mine
        if taken_over:
            if await is_held(self._store, row):
                raise ConversationHeld(log)
            row = await self._store.claim(log)
            if row is None:
                self.mine.discard(log)
                raise Foreign(log)
        folded = await self.stored.read(log)
        config = folded.slice.get(CONVERSATION, ConversationConfig)
        if row.forked_from is not None and config is not None and self.take_agent is not None:
            await self.take_agent(config.slug)
        alarms = await self._store.wakeups(log) if taken_over or log in self.eviction.dormant else []
        posted = await self._store.inbox(log) if taken_over else []
        if log in self._overtaken:
            return await self._load(log)
        self.stored.check_head(row, folded)
        slice_ = self._world.take(folded.slice)
        loaded = Loaded(slice_, Head(row=row, snapshot=folded.snapshot), folded.times)
        self._register(loaded)
        self.eviction.dormant.discard(log)
        arm = self._ticker.alarms.arm if taken_over else self._ticker.alarms.arm_again
        for alarm in alarms:
            arm(loaded, alarm)
        state = slice_.get(CONVERSATION, ConversationState)
        if taken_over and state is not None and (state.open_turn or state.waiting):
            loaded.resumed = self.goes_on(loaded)
            self._ticker.feed(loaded, Resume())
        for post in posted:
            self.route(log, item_of(post), post.key)
        return loaded

    def _register(self, loaded: Loaded) -> None:
        self._ticker.loaded[loaded.log] = loaded
        self.mine.add(loaded.log)

    def _background(self, work: Awaitable[object]) -> None:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
