"""The handle of a conversation. It holds no state of its own: close it, lose it, make another from the id."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agentos.components import Resolution, Verdict
from agentos.events.entry import Entry
from agentos.events.intake import Control
from agentos.ids import ConversationId, Name
from agentos.kernel.client import Client
from agentos.kernel.outcome import RunOutcome
from agentos.kernel.watch import Watched


class Conversation:
    """Talks to one conversation of a kernel, in this process or, by way of the store, in another."""

    __slots__ = ("_client", "id")

    def __init__(self, client: Client, id_: ConversationId) -> None:
        self._client = client
        self.id = id_

    def __repr__(self) -> str:
        return f"Conversation({self.id})"

    @property
    def state(self) -> str:
        """idle, running, parked, paused or closed, as far as this kernel has it loaded; else `unloaded`."""
        return self._client.state_of(self.id)

    async def send(self, text: str, *, key: str | None = None, ephemeral: bool = False) -> int:
        """Stores an input and returns its seq; the turn runs on by itself.

        With a key, sending again gives the same seq and stores nothing.
        Errors: InputRefused, ConversationClosed, ConversationBusy, StoreUnavailable, KernelClosed.
        """
        return await self._client.send(self.id, text, key=key, ephemeral=ephemeral)

    async def ask(self, text: str, *, ephemeral: bool = False) -> RunOutcome:
        """Sends an input and waits for the end of the turn that takes it, whatever the agent does.

        Being cancelled here stops the waiting, not the turn; `interrupt` stops the turn.
        Errors: as for `send`; nothing that the agent, its model or its tools do.
        """
        return await self._client.ask(self.id, text, ephemeral=ephemeral)

    def watch(self, after_seq: int = 0) -> AsyncIterator[Watched]:
        """Stored entries after a seq, then live ones without end, with the deltas of the model in between."""
        return self._client.watch(self.id, after_seq)

    async def history(self) -> list[Entry]:
        return await self._client.history(self.id)

    async def answer(self, request: str, verdict: Verdict, *, reason: str = "", by: str = "user") -> bool:
        """Answers an approval request, named by its call's id; False when it was answered before."""
        return await self._client.answer(request, verdict, reason=reason, by=by)

    async def resolve(
        self, call: str, resolution: Resolution, *, result: str | None = None, reason: str = "", by: str = "user"
    ) -> None:
        """Says what became of a call in doubt, by its id; see `Kernel.resolve`."""
        await self._client.resolve(call, resolution, result=result, reason=reason, by=by)

    async def interrupt(self, *, by: str = "user") -> None:
        """Ends the open turn as cancelled; started work is stopped, every call gets a result. Idle: does nothing."""
        await self._client.interrupt(self.id, by=by)

    async def pause(self) -> None:
        """Lets the open turn end, and begins no other until `unpause`."""
        await self._client.control(self.id, Control.PAUSE)

    async def unpause(self) -> None:
        await self._client.control(self.id, Control.UNPAUSE)

    async def close(self) -> None:
        """Takes no more inputs; the history stays."""
        await self._client.control(self.id, Control.CLOSE)


class Fork(Conversation):
    """A conversation that begins with what another one had come to.

    upto is the seq of the last entry that it shares, of the log forked_from. turn is the seq of the turn that is open in it,
    0 for none. agent is whom it goes on with.
    """

    __slots__ = ("agent", "forked_from", "turn", "upto")

    def __init__(
        self, client: Client, id_: ConversationId, *, forked_from: ConversationId, upto: int, turn: int, agent: Name
    ) -> None:
        super().__init__(client, id_)
        self.forked_from, self.upto, self.turn, self.agent = forked_from, upto, turn, agent

    def __repr__(self) -> str:
        return f"Fork({self.id}, from {self.forked_from} at seq {self.upto})"
