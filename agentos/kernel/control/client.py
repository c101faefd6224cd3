"""The kernel of another process, asked by its control socket: the same words, the same values, the same errors."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from agentos import codec
from agentos.components import Resolution, Shares, Verdict
from agentos.errors import AgentosError, CodecError, ControlRefused, KernelUnreachable
from agentos.events.entry import Entry, Registry
from agentos.events.intake import Control
from agentos.ids import ConversationId
from agentos.kernel.control import words
from agentos.kernel.control.channel import Channel, connect
from agentos.kernel.control.faults import error_of, fault_from
from agentos.kernel.control.wire import Answer, Greeting, Request, as_entry, as_plain, as_watched
from agentos.kernel.conversation import Conversation
from agentos.kernel.doubts import Doubt
from agentos.kernel.listing import Listing, Page
from agentos.kernel.lsof import OpenResource
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.top import TURNS_SHOWN, Top
from agentos.kernel.watch import Watched
from agentos.resources.fairness import check_weight
from agentos.settings import Settings

T = TypeVar("T")
MAKE_ROOM_S = 0.5
"""How long somebody stays away who waits for the end of a kernel and had to make room."""


class _Open:
    """A request that was sent: its items so far, and how it ends."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class SocketClient:
    """Talks to one kernel from `async with` to its end; one connection for all words, and one more for each `watch`.

    Everything a word raises here, the kernel raised there: its class, its words, its attributes. Beside those it may raise
    KernelUnreachable, also while it waits: what was asked may have been done then, so send inputs with a key. ControlRefused
    says that a bound of the socket was reached.
    """

    def __init__(self, path: str, settings: Settings | None = None, registry: Registry | None = None) -> None:
        self.path = path
        self._settings, self._registry = settings or Settings(), registry or Registry()
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        self._channel: Channel | None = None
        self._reading: asyncio.Task[KernelUnreachable] | None = None
        self._connecting = asyncio.Lock()
        self._waits = False

    async def __aenter__(self) -> Self:
        self._channel = await connect(self.path, self._settings)
        self._reading = asyncio.get_running_loop().create_task(self._read(self._channel))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reading is not None and self._channel is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            await self._channel.close()

    @property
    def greeting(self) -> Greeting:
        """Which kernel this is: its process, and the number of its writer."""
        assert self._channel is not None, "it is talked to inside its block"
        return self._channel.greeting

    # Conversations

    async def start(self, agent: str, key: str | None = None, *, tenant: str | None = None) -> Conversation:
        return Conversation(self, await self.begin(agent, key, tenant=tenant))

    async def begin(self, agent: str, key: str | None = None, *, tenant: str | None = None) -> ConversationId:
        return ConversationId(await self._ask("begin", words.Begin(agent=agent, key=key, tenant=tenant)))

    def state_of(self, id_: str) -> str:
        """As of a conversation that this process has not loaded; `state_now` asks the kernel."""
        return "unloaded"

    async def state_now(self, id_: str) -> str:
        return str(await self._ask("state", words.One(id=id_)))

    async def send(self, id_: str, text: str, *, key: str | None = None, ephemeral: bool = False) -> int:
        return int(await self._ask("send", words.Send(id=id_, text=text, key=key, ephemeral=ephemeral)))

    async def ask(self, id_: str, text: str, *, ephemeral: bool = False) -> RunOutcome:
        outcome: RunOutcome = await self._ask("ask", words.Ask(id=id_, text=text, ephemeral=ephemeral))
        return outcome

    async def outcome(self, id_: str) -> RunOutcome | None:
        outcome: RunOutcome | None = await self._ask("outcome", words.One(id=id_))
        return outcome

    async def watch(self, id_: str, after_seq: int = 0) -> AsyncGenerator[Watched, None]:
        """As `Kernel.watch`; on a connection of its own, so that who reads slowly holds up nothing else."""
        channel = await connect(self.path, self._settings)
        try:
            await channel.send(_request(1, "watch", words.Watch(id=id_, after_seq=after_seq)))
            while True:
                answer = await channel.next()
                if answer.item is not msgspec.UNSET:
                    yield self._read_as(as_watched, "watch", answer.item)
                elif answer.id == 1:
                    _check(answer)
                    return
        finally:
            await channel.close()

    async def history(self, id_: str, after_seq: int = 0, upto: int | None = None) -> list[Entry]:
        given = words.History(id=id_, after_seq=after_seq, upto=upto)
        items = (await self._opened("history", given)).items
        return [self._read_as(as_entry, "history", item) for item in items]

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> bool:
        return bool(await self._ask("answer", words.Answering(request=request, verdict=verdict, reason=reason, by=by)))

    async def resolve(
        self, call: str, resolution: Resolution, *, result: str | None = None, reason: str = "", by: str = "user"
    ) -> None:
        given = words.Resolving(call=call, resolution=resolution, result=result, reason=reason, by=by)
        await self._ask("resolve", given)

    async def interrupt(self, id_: str, *, by: str = "user") -> None:
        await self._ask("interrupt", words.Interrupt(id=id_, by=by))

    async def control(self, id_: str, control: Control) -> None:
        await self._ask("control", words.Controlling(id=id_, control=control))

    # What runs there

    async def conversations(self, state: str | None = None) -> list[ConversationId]:
        found: list[ConversationId] = await self._ask("conversations", words.Conversations(state=state))
        return found

    async def page(self, listing: Listing | None = None) -> Page:
        page: Page = await self._ask("ps", words.Ps(listing=listing or Listing()))
        return page

    async def doubts(self, conversation: str | None = None) -> list[Doubt]:
        found: list[Doubt] = await self._ask("doubts", words.Maybe(id=conversation))
        return found

    async def release(self, name: str) -> int:
        return int(await self._ask("release", words.Release(name=name)))

    async def lsof(self, of: str | None = None) -> list[OpenResource]:
        found: list[OpenResource] = await self._ask("lsof", words.Maybe(id=of))
        return found

    async def renice(self, name: str, weight: float, *, tenant: bool = False) -> bool:
        check_weight(name, weight)  # there it is no number that a line could say
        return bool(await self._ask("renice", words.Renice(name=name, weight=weight, tenant=tenant)))

    async def shares(self) -> Shares:
        shares: Shares = await self._ask("shares", words.Nothing())
        return shares

    async def top(self, turns_max: int = TURNS_SHOWN) -> Top:
        seen: Top = await self._ask("top", words.TopOf(turns_max=turns_max))
        return seen

    async def stop(self, *, force: bool = False) -> None:
        """Asks the process to end, as `agentos up` does; with force, without grace. Raises ControlRefused by any other."""
        await self._ask("stop", words.Stop(force=force))

    async def wait_gone(self) -> None:
        """Until the kernel has ended. Raises KernelUnreachable when it hangs."""
        assert self._reading is not None, "it is talked to inside its block"
        self._waits = True
        while not (end := await asyncio.shield(self._reading)).gone:
            if end.hangs:
                raise end
            await asyncio.sleep(MAKE_ROOM_S)  # it was sent away, so that others have room
            try:
                await self._connected()
            except ControlRefused:
                continue
            except KernelUnreachable as error:
                if error.gone:
                    return
                raise

    # The connection

    async def _ask(self, word: str, given: words.Given) -> Any:
        opened = await self._opened(word, given)
        value = opened.ended.result()
        try:
            return codec.convert(value, words.WORDS[word].gives) if words.WORDS[word].gives is not None else None
        except CodecError as error:
            raise KernelUnreachable(self._named(), f"its answer to {word!r} cannot be read: {error}") from error

    async def _opened(self, word: str, given: words.Given) -> _Open:
        """The request once it has ended well. Who stops waiting takes it back; what it set off goes on."""
        channel = await self._connected()
        number, opened = next(self._numbers), _Open()
        self._open[number] = opened
        try:
            await channel.send(_request(number, word, given))
            await opened.ended
            return opened
        except asyncio.CancelledError:
            with contextlib.suppress(KernelUnreachable):
                await channel.send(Request(0, "drop", {"id": number}))
            raise
        finally:
            del self._open[number]

    async def _connected(self) -> Channel:
        """The connection, anew when it was closed: a kernel closes those that are idle."""
        async with self._connecting:
            assert self._channel is not None and self._reading is not None, "it is talked to inside its block"
            if self._reading.done():
                await self._channel.close()
                await self._again(self._channel.kernel)
            return self._channel

    async def _again(self, kernel: str) -> None:
        """Where it listened nobody else ever does. Raises KernelUnreachable."""
        try:
            await self.__aenter__()
        except KernelUnreachable as error:
            if not error.gone:
                raise
            raise KernelUnreachable(kernel, "it has ended", gone=True) from error

    async def _read(self, channel: Channel) -> KernelUnreachable:
        """Gives every answer to its request, until the kernel ends or hangs."""
        try:
            while True:
                self._take(await channel.next(waits=lambda: self._waits or bool(self._open)))
        except AgentosError as error:
            for opened in self._open.values():
                _fail(opened.ended, error)
            return error if isinstance(error, KernelUnreachable) else KernelUnreachable(channel.kernel, str(error))

    def _take(self, answer: Answer) -> None:
        opened = self._open.get(answer.id)
        if opened is None or opened.ended.done():
            return
        if answer.item is not msgspec.UNSET:
            opened.items.append(answer.item)
            return
        try:
            _check(answer)
        except AgentosError as error:
            _fail(opened.ended, error)
        else:
            opened.ended.set_result(None if answer.value is msgspec.UNSET else answer.value)

    def _read_as(self, reads: Callable[[Any, Registry], T], word: str, item: Any) -> T:
        """An item that came. Raises KernelUnreachable for one that a kernel of another version may say."""
        try:
            return reads(item, self._registry)
        except CodecError as error:
            raise KernelUnreachable(self._named(), f"what it says to {word!r} cannot be read: {error}") from error

    def _named(self) -> str:
        return self._channel.kernel if self._channel is not None else self.path


def _request(number: int, word: str, given: words.Given) -> Request:
    return Request(number, word, as_plain(given))


def _check(answer: Answer) -> None:
    """Raises the error that ended a request."""
    if answer.error is not None:
        raise error_of(fault_from(answer.error))


def _fail(ended: asyncio.Future[Any], error: AgentosError) -> None:
    if not ended.done():
        ended.set_exception(error)
