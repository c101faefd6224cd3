"""Watching a conversation: stored entries, then live ones, no gap and no repeat; deltas in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Sequence

import msgspec

from agentos.errors import StoreUnavailable
from agentos.events.entry import Draft, Entry
from agentos.events.kinds import ModelFinished, ModelRequested, PayloadErased
from agentos.events.model import ModelDelta
from agentos.ids import LogId, Micros


class StreamGap(msgspec.Struct, frozen=True):
    """The watcher was too slow: deltas are lost. Entries are not: they are read again from the store."""

    log: LogId
    after_seq: int


Watched = Entry | ModelDelta | StreamGap
Read = Callable[[int], Awaitable[list[Entry]]]
"""Stored entries after a seq."""


class Watcher:
    """One bounded queue. Deltas drop first, then entries, which the watcher reads again."""

    def __init__(self, log: LogId, limit: int) -> None:
        self.log = log
        self._limit = limit
        self._queue: deque[Entry | ModelDelta] = deque()
        self._news = asyncio.Event()
        self.gap = False
        self.closed = False

    def put(self, item: Entry | ModelDelta) -> None:
        if len(self._queue) >= self._limit:
            if isinstance(item, ModelDelta):
                self.gap = True
                return
            self._queue = deque(entry for entry in self._queue if isinstance(entry, Entry))
            self.gap = True
            if len(self._queue) >= self._limit:
                self._queue.clear()
        self._queue.append(item)
        self._news.set()

    def forget(self) -> None:
        """What waits was erased since: it is read again, as it stands now."""
        self.gap = self.gap or bool(self._queue)
        self._queue.clear()

    def close(self) -> None:
        self.closed = True
        self._news.set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def drain(self) -> list[Entry | ModelDelta]:
        items = list(self._queue)
        self._queue.clear()
        self._news.clear()
        return items

    async def wait(self, limit_s: float | None) -> None:
        """Until there is news, or the limit is over."""
        if self.closed:
            return
        try:
            async with asyncio.timeout(limit_s):
                await self._news.wait()
        except TimeoutError:
            return


_ALL = LogId("")
"""In the place of a log: all of them."""


class _Everything:
    """Has every log in it."""

    def __contains__(self, log: object) -> bool:
        return True


class Watchers:
    """All watchers of a kernel, by log, and those of all logs."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_log: dict[LogId, list[Watcher]] = {}
        self._of_all: list[Watcher] = []
        self._watched: Container[LogId] = self._by_log

    def __contains__(self, log: LogId) -> bool:
        return log in self._watched

    def publish(self, log: LogId, drafts: Sequence[Draft], first: int, at: Micros, writer: int) -> None:
        watchers = [*self._by_log.get(log, ()), *self._of_all]
        if not watchers:
            return
        if drafts and type(drafts[0].data) is PayloadErased:
            for watcher in watchers:
                watcher.forget()
        for seq, draft in enumerate(drafts, first):
            entry = as_entry(log, draft, seq, first, at, writer)
            for watcher in watchers:
                watcher.put(entry)

    def delta(self, delta: ModelDelta) -> None:
        for watcher in self._by_log.get(delta.log, ()):
            watcher.put(delta)

    async def watch(self, log: LogId, read: Read, after: int, poll_s: float) -> AsyncGenerator[Watched, None]:
        """Everything after a seq, without end; see `follow`."""
        watcher = self.add(log)
        try:
            async for item in follow(watcher, read, after, poll_s):
                yield item
        finally:
            self.remove(watcher)

    async def everything(self) -> AsyncIterator[Entry | StreamGap]:
        """The entries of all logs from here on, until the kernel closes. Nothing is read again: a gap names no place."""
        watcher = Watcher(_ALL, self._limit)
        self._of_all.append(watcher)
        self._watched = _Everything()
        try:
            while True:
                if watcher.gap:
                    watcher.gap = False
                    yield StreamGap(_ALL, 0)
                items = watcher.drain()
                for item in items:
                    assert isinstance(item, Entry), "deltas go to those who watch one log"
                    yield item
                if watcher.closed and not items:
                    return
                await watcher.wait(None)
        finally:
            self._of_all.remove(watcher)
            if not self._of_all:
                self._watched = self._by_log

    def add(self, log: LogId) -> Watcher:
        watcher = Watcher(log, self._limit)
        self._by_log.setdefault(log, []).append(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        left = self._by_log.get(watcher.log, [])
        left.remove(watcher)
        if not left:
            del self._by_log[watcher.log]

    def close(self) -> None:
        for watchers in (*self._by_log.values(), self._of_all):
            for watcher in watchers:
                watcher.close()


def as_entry(log: LogId, draft: Draft, seq: int, unit: int, at: Micros, writer: int) -> Entry:
    return Entry(
        data=draft.data,
        turn=draft.turn,
        call=draft.call,
        changes=draft.changes,
        private=draft.private,
        by=draft.by,
        cause=draft.cause,
        log=log,
        seq=seq,
        unit=unit,
        at=at,
        writer=writer,
    )


async def follow(watcher: Watcher, read: Read, after: int, poll_s: float) -> AsyncIterator[Watched]:
    """Everything after a seq, without end. Reads the store at first, after a gap, and every poll_s."""
    last, request = after, 0
    again = True
    while True:
        try:
            items: list[Entry | ModelDelta] = list(await read(last)) if again else watcher.drain()
        except StoreUnavailable:
            if not watcher.closed:  # else the store was closed with its kernel
                raise
            items = watcher.drain()
        if watcher.gap and not again:
            watcher.gap = False
            yield StreamGap(watcher.log, last)
        again = False
        for item in items:
            if isinstance(item, ModelDelta):
                if item.base_seq == request:
                    yield item
            elif item.seq == last + 1:
                last, request = item.seq, _open_request(item, request)
                yield item
            elif item.seq > last:
                again = True
                break
        if watcher.closed and not items:
            return
        if not items:
            await watcher.wait(poll_s)
            again = not watcher.waiting


def _open_request(entry: Entry, before: int) -> int:
    """The seq of the request whose deltas are of interest after this entry."""
    if isinstance(entry.data, ModelRequested):
        return entry.seq
    return 0 if isinstance(entry.data, ModelFinished) else before
