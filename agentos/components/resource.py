"""What is known of a live resource: how it may be used, and what of it is worth an entry. The rest is never stored."""

from __future__ import annotations

import msgspec

from agentos.components.base import Word
from agentos.ids import CallId, Name, TurnId


class Pattern(Word):
    """How a resource may be used at once.

    exclusive: by one; read_write: by many that read, or one that writes; pool: by as many as it has handles, each with one
    of its own; stateless: by all.
    """

    EXCLUSIVE = "exclusive"
    READ_WRITE = "read-write"
    POOL = "pool"
    STATELESS = "stateless"


class Concern(Word):
    """What of a resource is worth an entry; plain borrowing is not.

    long_hold, starved: held or waited for longer than the warning says; deadlock: who holds it waits, in the end, for who
    asks; leak: held when it had to close; broken: a handle was found unsound and replaced.
    """

    LONG_HOLD = "long_hold"
    STARVED = "starved"
    DEADLOCK = "deadlock"
    LEAK = "leak"
    BROKEN = "broken"


class CycleCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A call of a deadlock, and the agent and turn that it belongs to; both ids are None for the program itself."""

    agent: Name
    turn: TurnId | None = None
    call: CallId | None = None


class CycleLink(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One wait of a deadlock: a call waits for a resource until one of holders gives it back, each of whom waits in turn."""

    waiter: CycleCall
    resource: Name
    holders: tuple[CycleCall, ...] = ()
