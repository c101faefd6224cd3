"""Runs the fork of a live replay: its open turn, then a turn for each later one of the original, with the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from agentos.errors import ReplayRefused
from agentos.history.live.gate import RecordGate
from agentos.history.live.record import Begin, Record, Said
from agentos.ids import LogId
from agentos.kernel import Fork, Kernel, RunOutcome
from agentos.kernel.reading import Reading
from agentos.models.base import ModelClient

Turn = Coroutine[Any, Any, RunOutcome | None]
Wait = Callable[[Fork, Turn], Turn]
"""Waits for the end of a turn in its own way, and gives it; None when it stands still, and nothing more is to be sent."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. outcomes are those of the turns that were run, open tells that one still waits for somebody."""

    fork: Fork
    begin: Begin
    outcomes: tuple[RunOutcome, ...]
    turns: int
    open: bool = False


async def run_live(
    kernel: Kernel,
    conversation: str,
    begin: Begin,
    record: Record,
    gate: RecordGate,
    *,
    model: ModelClient | str | None = None,
    waited: Wait | None = None,
) -> Live:
    """Forks the conversation where it begins, and runs its turns anew. The kernel has the gate among its hooks.

    model: another one than that of the agent. waited: how the end of each turn is waited for.
    Errors: ReplayRefused for inputs that are erased, before anything is asked; those of `Kernel.fork`.
    """
    _check(conversation, record)
    fork = await kernel.fork(conversation, begin.upto, model=model, repin=True, run=False)
    gate.guard(kernel.world, LogId(fork.id))
    waited = waited or _plainly
    outcomes: list[RunOutcome] = []
    for inputs in (None, *record.turns):
        turn = _open_turn(kernel, fork) if inputs is None else _next_turn(kernel, fork, inputs)
        outcome = await waited(fork, turn)
        if outcome is None:
            break
        outcomes.append(outcome)
    turns = 1 + len(record.turns)
    return Live(fork=fork, begin=begin, outcomes=tuple(outcomes), turns=turns, open=len(outcomes) < turns)


def _check(conversation: str, record: Record) -> None:
    """Raises ReplayRefused."""
    for said in (said for inputs in record.turns for said in inputs):
        if said.text is None:
            raise ReplayRefused(conversation, f"the input at seq {said.seq} is erased, and cannot be sent again")


async def _open_turn(kernel: Kernel, fork: Fork) -> RunOutcome | None:
    await kernel.run_fork(fork)
    return await _end(kernel, fork)


async def _next_turn(kernel: Kernel, fork: Fork, inputs: Sequence[Said]) -> RunOutcome | None:
    """A turn that takes these inputs, all together, as that of the original did. One without any has begun by itself, with
    inputs that waited where the fork begins."""
    if len(inputs) == 1:
        return await fork.ask(inputs[0].text or "", ephemeral=inputs[0].ephemeral)
    if inputs:
        await fork.pause()
        for said in inputs:
            await fork.send(said.text or "", ephemeral=said.ephemeral)
        await fork.unpause()
    return await _end(kernel, fork)


async def _end(kernel: Kernel, fork: Fork) -> RunOutcome | None:
    """Of the open turn, or of the last one when it has ended meanwhile."""
    return await kernel.outcome(fork.id) or await Reading(kernel.store).last_outcome(fork.id)


async def _plainly(_fork: Fork, turn: Turn) -> RunOutcome | None:
    return await turn
