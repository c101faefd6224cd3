"""Which logs are in memory: loads them with ownership first, routes items to them, and lets idle ones go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Sequence

import msgspec

from agentos import codec
from agentos.components import CallState, CallStatus, ConversationState, TurnConfig, TurnState
from agentos.effects import Runner
from agentos.errors import KernelClosed, StoreDamaged, StoreUnavailable, UnknownConversation
from agentos.events.entry import Registry, seed_digest
from agentos.events.intake import POST_KIND, POSTED, Delegate, Item, Resume, Start
from agentos.ids import CONVERSATION, Digest, Kind, LogId
from agentos.journal import Head, Times, fold
from agentos.kernel.catalog import Catalog
from agentos.kernel.loaded import Loaded
from agentos.kernel.tick import STORE_RETRY_S, Ticker
from agentos.kernel.waiters import unheard
from agentos.persistence.base import InboxRow, LogRow, Store, StoredEntry
from agentos.world import World


class Foreign(Exception):
    """A living writer of another process owns the log."""


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
        self._ticker, self._registry, self._runner, self._live_max = ticker, registry, runner, live_max
        self._loads: dict[LogId, asyncio.Task[Loaded]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._fed: set[tuple[str, str]] = set()
        self._taken: set[tuple[str, str]] = set()
        self._reading = 0
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
                task = self._loads[log] = asyncio.get_running_loop().create_task(self._load(log))
                task.add_done_callback(lambda _: self._loads.pop(log, None))
                task.add_done_callback(unheard)
            await asyncio.shield(task)
        return found

    def route(self, log: LogId, item: Item, key: str) -> None:
        """An item that was posted to a log with a unit of ours, or read from the inbox."""
        if (log, key) in self._fed:
            return
        self._fed.add((log, key))
        loaded = self._ticker.loaded.get(log)
        if loaded is not None:
            self._ticker.feed(loaded, item, key)
            return
        task = asyncio.get_running_loop().create_task(self._route(log, item, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _route(self, log: LogId, item: Item, key: str) -> None:
        try:
            loaded = await self._patiently(log)
        except UnknownConversation:
            begun = self._ticker.loaded.get(log)  # by a delegation that was on its way, too
            if begun is None:
                if not isinstance(item, Delegate):
                    self._fed.discard((log, key))
                    return
                begun = self.begin(log, item.start)
            loaded = begun
        except (Foreign, KernelClosed):
            self._fed.discard((log, key))  # its owner takes it from the inbox
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
        self._reading += 1
        try:
            for row in await self._store.inbox(log):
                if LogId(row.log) in self.mine or row.log == log:
                    self.route(LogId(row.log), item_of(row), row.key)
        finally:
            self._reading -= 1
            self._forget_taken()

    def taken(self, log: LogId, keys: Sequence[str]) -> None:
        """The store remembers these keys: a reading of the inbox that begins from here on does not give them again."""
        self._taken.update((log, key) for key in keys)
        self._forget_taken()

    def _forget_taken(self) -> None:
        if not self._reading:
            self._fed -= self._taken
            self._taken.clear()

    def lost(self, loaded: Loaded) -> None:
        """Another writer has the log: what runs for it is stopped, who waits is told, and posted items are handed on."""
        log, intake = loaded.log, loaded.intake
        keyed = {id(item) for item in intake if id(item) in loaded.keys}
        error = StoreUnavailable(self._store.url, f"another process has taken over {log}; send again")
        self.unload(loaded)
        self.mine.discard(log)
        self._runner.stop(log)
        for item in intake:
            if not self._ticker.waiters.tell(item, error) and type(item) in POST_KIND and id(item) not in keyed:
                self._background(self._store.post(inbox_row(log, f"handed:{os.urandom(8).hex()}", item)))
        for waiter in loaded.asks.values():
            if not waiter.done():
                waiter.set_exception(error)

    def unload(self, loaded: Loaded) -> None:
        self._ticker.forget(loaded.log)
        self._world.unload(loaded.log)
        for timer in loaded.timers.values():
            timer.cancel()
        for key in loaded.keys.values():
            self._fed.discard((loaded.log, key))

    def evict(self) -> None:
        """Lets the longest unused conversations go that have nothing to do; the store has them."""
        over = len(self._ticker.loaded) - self._live_max
        if over <= 0:
            return
        for loaded in list(self._ticker.loaded.values()):
            if over <= 0:
                return
            state = loaded.slice.get(CONVERSATION, ConversationState)
            idle = not (loaded.intake or loaded.asks or loaded.alarms or loaded.head.new or loaded.flying)
            if idle and state is not None and not self._runner.busy(loaded.log) and not _waits_for_slot(loaded, state):
                self.unload(loaded)
                over -= 1

    def touched(self, loaded: Loaded) -> None:
        """Moves a conversation to the end of the line for eviction."""
        known = self._ticker.loaded
        if len(known) >= self._live_max and loaded.log in known:
            known[loaded.log] = known.pop(loaded.log)

    async def close(self) -> None:
        self.closed = True
        waiting = [*self._tasks, *self._loads.values()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _load(self, log: LogId) -> Loaded:
        """Nothing in memory changes before everything is read, so that a store that fails half-way leaves no trace."""
        row = await self._store.log(log)
        if row is None:
            raise UnknownConversation(log)
        taken_over = row.owner != self._ticker.writer or log not in self.mine
        if taken_over:
            row = await self._store.claim(log)
            if row is None:
                raise Foreign(log)
        stored = await self._read(log, row)
        snapshot = await self._store.last_snapshot(log)
        alarms = [row for row in await self._store.wakeups() if row.log == log] if taken_over else []
        if (begun := self._ticker.loaded.get(log)) is not None:  # while it was read
            return begun
        slice_, times = fold(self._world, log, stored, self._registry)
        loaded = Loaded(slice_, Head(row=row, snapshot=snapshot), times)
        self._register(loaded)
        for alarm in alarms:
            self._ticker.alarms.arm(loaded, alarm)
        state = slice_.get(CONVERSATION, ConversationState)
        if taken_over and state is not None and (state.open_turn or state.waiting):
            loaded.resumed = bool(state.open_turn)
            self._ticker.feed(loaded, Resume())
        return loaded

    async def _read(self, log: LogId, row: LogRow) -> list[StoredEntry]:
        """Entries that are sure to fold, with the context of an open turn at hand. Raises StoreDamaged, CodecError."""
        stored = await self._store.entries(log)
        if not stored or stored[-1].digest != row.digest or stored[-1].seq != row.seq:
            raise StoreDamaged(self._store.url, f"the head of {log} is not its last entry")
        slice_, _ = fold(World(), log, stored, self._registry)
        state = slice_.get(CONVERSATION, ConversationState)
        if state is not None and state.open_turn:
            config = slice_.get(state.open_turn, TurnConfig)
            assert config is not None, "an open turn has a configuration"
            await self._know(config.context)
        return stored

    async def _know(self, digest: Digest) -> None:
        if self._catalog.knows(digest):
            return
        found = await self._store.definition(digest)
        if found is None:
            raise StoreDamaged(self._store.url, f"definition {digest} is missing")
        self._catalog.learn(digest, found[1])

    def _register(self, loaded: Loaded) -> None:
        self._ticker.loaded[loaded.log] = loaded
        self.mine.add(loaded.log)

    def _background(self, work: Awaitable[object]) -> None:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _waits_for_slot(loaded: Loaded, state: ConversationState) -> bool:
    """Whether a call stands in line: the word that its turn has come finds loaded logs alone."""
    turn = loaded.slice.get(state.open_turn, TurnState) if state.open_turn else None
    calls = turn.calls + turn.inner if turn is not None else ()
    return any(
        (c := loaded.slice.get(call, CallState)) is not None and c.status is CallStatus.PROPOSED for call in calls
    )


def item_of(row: InboxRow) -> Item:
    """The item that an inbox row holds. Raises CodecError."""
    return codec.convert(codec.decode_json(row.body), POSTED[row.kind])  # type: ignore[return-value]


def inbox_row(log: str, key: str, item: Item) -> InboxRow:
    return InboxRow(
        log=log,
        key=key,
        kind=POST_KIND[type(item)],
        salt=os.urandom(16),
        body=codec.encode_body(msgspec.to_builtins(item)),
    )
