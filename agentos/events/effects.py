"""Effects: frozen data that asks for something outside. They carry addresses, not bodies, and end in one report each."""

from __future__ import annotations

import msgspec

from agentos.ids import Address, LogId, Name


class RequestModel(msgspec.Struct, frozen=True, gc=False):
    """Ask the model of the turn's context. base_seq is the seq of model.requested. Ends in a ModelReport."""

    log: LogId
    turn: int
    base_seq: int
    attempt: int


class RunCall(msgspec.Struct, frozen=True, gc=False):
    """Run one attempt of a call; arguments is the address of its body. Ends in a CallReport."""

    log: LogId
    turn: int
    call: int
    attempt: int
    tool: Name
    arguments: Address


class AskHook(msgspec.Struct, frozen=True, gc=False):
    """Ask the hooks of a point about a call. Ends in a HookReport."""

    log: LogId
    turn: int
    call: int
    point: Name
    tool: Name
    arguments: Address


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Ask the tool what became of a doubted call. Ends in a Probed."""

    log: LogId
    turn: int
    call: int
    tool: Name
    arguments: Address


class StopTurn(msgspec.Struct, frozen=True, gc=False):
    """Cancel the running effects of a turn. Makes no report of its own: each cancelled effect still ends in its one."""

    log: LogId
    turn: int


class StopCall(msgspec.Struct, frozen=True, gc=False):
    """Cancel what runs of one call: nobody waits for it any more. Makes no report of its own, as StopTurn."""

    log: LogId
    turn: int
    call: int


Effect = RequestModel | RunCall | AskHook | Probe | StopTurn | StopCall
