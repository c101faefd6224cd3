"""Follows a conversation and, below it, those of its subagents: from entries and pieces to what is printed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from agentos.components import CallConfig, CallState, CallStatus, Phase, TurnConfig, TurnState
from agentos.events.entry import Entry
from agentos.events.kinds import (
    CallFinished,
    CallNested,
    CallProposed,
    CallResolved,
    CallStarted,
    ModelFinished,
    ModelRequested,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from agentos.events.model import Finish, ModelDelta
from agentos.ids import CallId, ConversationId, LogId, call_id, log_and_seq
from agentos.interfaces.cli.chat.screen import Screen
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.entry_parts import arguments_of, change, first_line, private
from agentos.interfaces.cli.output import cell, clipped, terminal_width
from agentos.kernel import Kernel
from agentos.kernel.watch import StreamGap, Watched

ARGUMENTS_SHOWN = 60
RESULT_SHOWN = 100
CHILD_S = 1.0
"""How long the line of a delegation waits for those of its subagent, which are stored before it."""
_BROKEN = (Finish.ERROR, Finish.LOST, Finish.CANCELLED, Finish.EMPTY)


class Follower:
    """Prints what happens in one conversation.

    cause: only the turns that this call asked for, as lines below it, without what the subagent says.
    ended has the seqs of turns whose ends are printed.
    """

    def __init__(
        self,
        kernel: Kernel,
        screen: Screen,
        conversation: ConversationId,
        cause: CallId | None = None,
        depth: int = 0,
    ) -> None:
        self._kernel, self._screen, self._id = kernel, screen, conversation
        self._cause, self._depth = cause, depth
        self._calls: dict[int, CallConfig] = {}
        self._children: dict[int, asyncio.Task[None]] = {}
        self._ours = cause is None
        self.ended: set[int] = set()

    async def follow(self, after: int) -> None:
        """Everything after a seq, without end. Cancel it."""
        try:
            async for item in self._kernel.watch(self._id, after):
                await self._screen.wait_free()
                await self._take(item)
                if self._depth and self.ended:
                    return
        finally:
            await _end(list(self._children.values()))

    def attach(self, seqs: Mapping[str, int]) -> None:
        """Takes up the open delegations of a turn that began in another process; seqs say how far each log is known."""
        self._ours = True
        for id_, state in self._kernel.world.find(CallState, status=CallStatus.STARTED):
            log, call = log_and_seq(id_)
            if log == LogId(self._id) and state.child is not None and call not in self._children:
                child = self._below(call, state.child, seqs.get(state.child, 0))
                child.attach(seqs)

    async def _take(self, item: Watched) -> None:
        if isinstance(item, Entry):
            await self._entry(item)
        elif self._depth:
            return
        elif isinstance(item, ModelDelta):
            self._screen.piece(item)
        else:
            assert isinstance(item, StreamGap)
            self._screen.lose_pieces()

    async def _entry(self, entry: Entry) -> None:
        match entry.data:
            case TurnStarted():
                config = change(entry, entry.seq, TurnConfig)
                self._ours = self._cause is None or (config is not None and self._cause in config.causes)
            case ModelRequested() if not self._depth:
                self._screen.begin_answer(entry.seq)
            case ModelFinished() as data if not self._depth:
                self._model_finished(entry, data)
            case TurnResumed() if not self._depth:
                self._screen.line("taken up again", faint=True)
            case CallProposed() | CallNested():
                self._learn(entry)
            case CallStarted() if self._ours:
                await self._call_started(entry)
            case CallResolved() as resolved if self._ours:
                said = f"{resolved.tool} resolved as {resolved.resolution.value} by {entry.by or 'somebody'}"
                self._line(f"! {clipped(cell(said), RESULT_SHOWN)}", entry.call)
            case CallFinished() if self._ours:
                await self._call_finished(entry)
            case TurnFinished() if self._ours:
                self.ended.add(entry.turn)

    def _model_finished(self, entry: Entry, data: ModelFinished) -> None:
        state = change(entry, entry.turn, TurnState)
        again = state is not None and state.phase is Phase.PROMPT
        self._screen.end_answer(private(entry, "text"), counts=data.finish not in _BROKEN, again=again)
        why = data.error or data.finish.value
        if again and state is not None and state.retry_at is not None:
            wait_s = max(0, state.retry_at - entry.at) / 1e6
            self._screen.line(f"model busy ({why}), again in {wait_s:.0f} s", faint=True)
        elif again:
            self._screen.line(f"no answer ({why}), asked again", faint=True)

    def _learn(self, entry: Entry) -> None:
        config = change(entry, entry.seq, CallConfig)
        if config is not None:
            self._calls[entry.seq] = config

    async def _call_started(self, entry: Entry) -> None:
        """A delegation is told at once: what happens below it comes as lines of its own."""
        state = change(entry, entry.call, CallState)
        if state is None or state.child is None or entry.call in self._children:
            return
        self._line(f"> {await self._call(entry.call)}", entry.call)
        self._below(entry.call, state.child, 0)

    def _below(self, call: int, conversation: ConversationId, after: int) -> Follower:
        """Begins to follow the child of a call."""
        child = Follower(self._kernel, self._screen, conversation, call_id(self._id, call), self._depth + 1)
        self._children[call] = asyncio.get_running_loop().create_task(child.follow(after))
        return child

    async def _call_finished(self, entry: Entry) -> None:
        await self._end_child(entry.call)
        state = change(entry, entry.call, CallState)
        if state is None or state.status is CallStatus.LOST:
            return
        done = state.status is CallStatus.DONE
        why = "" if done else f": {clipped(cell(first_line(private(entry, 'result'))), RESULT_SHOWN)}"
        took = f", {(entry.at - state.started_at) / 1e6:.1f} s" if state.started_at is not None else ""
        kind = f" ({state.kind})" if state.kind else ""
        self._line(
            f"{'✓' if done else '✗'} {await self._call(entry.call)} {state.status.value}{kind}{took}{why}", entry.call
        )
        self._calls.pop(entry.call, None)

    async def _end_child(self, call: int) -> None:
        """The lines of a child stand before that of its call: what is stored of it is on its way here already."""
        task = self._children.pop(call, None)
        if task is not None:
            await asyncio.wait([task], timeout=CHILD_S)
            await _end([task])

    async def _call(self, seq: int) -> str:
        """Tool and short arguments."""
        if seq not in self._calls:  # it was proposed before this process looked on
            for entry in await self._kernel.history(self._id, seq - 1, seq):
                self._learn(entry)
        config = self._calls[seq]
        arguments = await arguments_of(self._kernel, self._id, config)
        return f"{config.tool} {clipped(cell(body_text(arguments)), ARGUMENTS_SHOWN)}"

    def _line(self, text: str, call: int) -> None:
        config = self._calls.get(call)
        inner = 1 if config is not None and config.parent is not None else 0
        line = f"{'  ' * (self._depth + inner)}{text}"
        self._screen.line(clipped(line, terminal_width() - 1), faint=True)


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Ends tasks, and raises what one of them raised."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
