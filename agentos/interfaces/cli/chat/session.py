"""A chat with one conversation: messages in, turns to their ends, approvals in place, and Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from agentos.errors import AgentosError
from agentos.ids import CallId
from agentos.interfaces.cli.chat.approval import Approvals
from agentos.interfaces.cli.chat.follow import Follower
from agentos.interfaces.cli.chat.input import PRESS_MAX, Leave, MessageReader, Room
from agentos.interfaces.cli.chat.terminal import EndOfInput, Interrupted
from agentos.interfaces.cli.errors import Exit, code_of, code_of_outcome, sentence
from agentos.interfaces.cli.output import counted
from agentos.interfaces.cli.progress import progress_of
from agentos.interfaces.cli.waiting import end_of_turn, tool_of
from agentos.kernel import Conversation, Kernel, RunOutcome
from agentos.kernel.rest import at_rest

LOOK_S = 0.05
"""How often a turn that has not ended is looked at; it counts as parked when the kernel rests twice in a row."""


class Parked(Exception):
    """A request waits for a person, and none is here."""


class Session:
    """One conversation at a time, begun with its first message.

    code is the exit code of the first turn that did not end well. tenant: on whose account conversations are begun.
    """

    def __init__(
        self, kernel: Kernel, room: Room, agent: str, talk: Conversation | None = None, *, tenant: str | None = None
    ) -> None:
        self.kernel, self.agent, self.talk, self.tenant = kernel, agent, talk, tenant
        self.room, self.screen = room, room.screen
        self.code = Exit.OK
        self._approvals = Approvals(kernel, room.terminal, room.screen)
        self._reader = MessageReader(room)
        self._follower: Follower | None = None
        self._following: asyncio.Task[None] | None = None
        self._presses = 0
        self._stopping: asyncio.Task[None] | None = None
        self._told: set[CallId] = set()

    def waiting(self) -> list[CallId]:
        """The calls that wait for a person."""
        return self._approvals.waiting(self.talk.id) if self.talk is not None else []

    def in_doubt(self) -> list[CallId]:
        """The calls that wait for somebody who knows what became of them."""
        return self._approvals.in_doubt(self.talk.id) if self.talk is not None else []

    def progress(self) -> str:
        return progress_of(self.kernel, self.talk.id) if self.talk is not None else ""

    async def message(self) -> str:
        """The next message or command. Raises Leave, UsageError."""
        return await self._reader.next(f"{self.agent}> ")

    async def say(self, text: str) -> None:
        """One turn, to its end. Raises Leave, Parked; what goes wrong with the turn is shown."""
        try:
            if self.talk is None:
                self.talk = await self.kernel.start(self.agent, tenant=self.tenant)
            self.follow(self.talk)
            await self._turn(self.talk.ask(text))
        except AgentosError as error:
            self.screen.line(f"error: {sentence(error)}")
            self._note(code_of(error))

    async def take_up(self, seqs: Mapping[str, int]) -> None:
        """The turn that `recover` took up, to its end, which may have come already. seqs: how far each log of its tree is
        known."""
        if self.talk is not None and self._follower is not None:
            self._follower.attach(seqs)
            await self._turn(end_of_turn(self.kernel, self.talk))

    def follow(self, talk: Conversation, after: int = 0) -> None:
        """Prints what happens from here on; without effect when that is done already."""
        if self._following is None:
            self._follower = Follower(self.kernel, self.screen, talk.id)
            self._following = asyncio.get_running_loop().create_task(self._follower.follow(after))

    async def close(self) -> None:
        """Stops printing."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        self._following = self._follower = None

    async def begin_anew(self, agent: str) -> None:
        """The next message begins another conversation."""
        await self.close()
        self.agent, self.talk = agent, None

    async def _turn(self, asked: Coroutine[Any, Any, RunOutcome | None]) -> None:
        turn = asyncio.get_running_loop().create_task(asked)
        self._presses, self._stopping = 0, None
        self.room.terminal.on_interrupt = self._pressed
        try:
            await self._until_end(turn)
            await self._show(turn.result())
        finally:
            self.room.terminal.on_interrupt = None
            turn.cancel()
            await asyncio.wait([turn])

    async def _until_end(self, turn: asyncio.Task[RunOutcome | None]) -> None:
        rested = False
        while not turn.done():
            await asyncio.wait([turn], timeout=LOOK_S)
            self._check_following()
            waiting = self.waiting()
            doubts = self.in_doubt()
            rests = bool(waiting or doubts) and at_rest(self.kernel)
            self._tell(doubts)
            if waiting and self.room.asks and self._stopping is None:
                await self._ask(waiting[0])
            elif rests and rested and self._stopping is None and not self.room.asks:
                raise Parked
            rested = rests

    def _tell(self, doubts: list[CallId]) -> None:
        """Once for each: who knows what became of it says so from another terminal."""
        for call in doubts:
            if call not in self._told:
                self._told.add(call)
                tool = tool_of(self.kernel, call)
                self.screen.line(f"nobody knows whether {tool} took effect: agentos resolve {call} done|failed|retry")

    async def _ask(self, call: CallId) -> None:
        """Other calls go on meanwhile, and so does what they print once the answer is given."""
        try:
            await self._approvals.ask(call)
        except Interrupted:
            self._pressed()
        except EndOfInput:
            self.screen.break_line()
            raise Leave from None

    async def _show(self, outcome: RunOutcome | None) -> None:
        """How the turn ended, behind all that it said."""
        if outcome is None:
            return
        seq = int(outcome.turn.rpartition("_")[2])
        while self._following is not None and self._follower is not None and seq not in self._follower.ended:
            self._check_following()
            await asyncio.wait([self._following], timeout=LOOK_S / 10)
        self.screen.final(outcome.text)
        took = f"{counted(outcome.steps, 'step')}, {counted(outcome.calls, 'call')}"
        self.screen.line(f"{outcome}; {took}, {outcome.input_tokens}+{outcome.output_tokens} tokens", faint=True)
        if outcome.error:
            self.screen.foreign(" ".join(outcome.error.split()))
        self._note(code_of_outcome(outcome.outcome, outcome.name) if not self._presses else Exit.INTERRUPTED)

    def _check_following(self) -> None:
        """Raises what went wrong with the printing."""
        if self._following is not None and self._following.done():
            self._following.result()

    def _note(self, code: Exit) -> None:
        if self.code is Exit.OK:
            self.code = code

    def _pressed(self) -> None:
        """Ctrl-C in a turn: once stops it, twice leaves."""
        self._presses += 1
        if self._presses >= PRESS_MAX or self.talk is None:
            self._note(Exit.INTERRUPTED)
            self.room.terminal.cancel()
            return
        self.screen.break_line()
        self.screen.line("stopping the turn (Ctrl-C again leaves)")
        self._stopping = asyncio.get_running_loop().create_task(self.talk.interrupt())
