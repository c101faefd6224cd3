"""How a running kernel does, as data: what `kernel.top` gives, and `agentos top` shows.

Counters only grow, so whoever asks twice has rates of his own: the difference of two, by the seconds counted in between.
"""

from __future__ import annotations

import msgspec

from agentos.components import Pattern, Phase, Shares
from agentos.ids import ConversationId, Micros, Name, TurnId

TURNS_SHOWN = 100
TURNS_SHOWN_MAX = 10_000


class Work(msgspec.Struct, kw_only=True):
    """What was stored since counting began. Calls are counted by their ends, each attempt; tokens as providers counted."""

    turns_started: int = 0
    turns_finished: int = 0
    requests: int = 0
    replies: int = 0
    replies_failed: int = 0
    calls_started: int = 0
    calls_finished: int = 0
    calls_failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Batches(msgspec.Struct, kw_only=True):
    """Appends to the store since counting began: how many, with how many units, how long all took and the longest of the
    last second, in milliseconds. failed: the store was not to be reached."""

    appends: int = 0
    units: int = 0
    failed: int = 0
    took_ms: float = 0.0
    longest_ms: float = 0.0


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """An open turn, and what it does: running and waiting are counts by words, doing names the tools and models.

    started_at: microseconds, UTC; phase_at is when it came to its phase, as far as somebody looked then.
    """

    conversation: ConversationId
    turn: TurnId
    agent: Name
    state: str
    phase: Phase
    step: int
    calls: int
    started_at: Micros
    phase_at: Micros | None = None
    doing: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    tenant: Name | None = None


class AgentVitals(msgspec.Struct, frozen=True, kw_only=True):
    """Open turns of an agent, and what it has done since counting began."""

    agent: Name
    running: int = 0
    parked: int = 0
    work: Work


class ResourceUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource is in use: by how many, of size at once (0: no bound), and how many wait. `lsof` says who."""

    kind: str
    name: str
    pattern: Pattern
    size: int
    held: int
    waiting: int


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a bound is in use: of turns, calls, processes or handles at once, or of bytes, in a scope (program, tenant,
    agent, toolbox, conversation) of this name; how many have a place, of size, and how many wait at it. Bytes are as many as
    when they were looked at last, before something was made."""

    of: str
    scope: str
    name: str
    size: int
    held: int
    waiting: int


class ProcessVitals(msgspec.Struct, frozen=True, kw_only=True):
    """What the process holds; None where this system does not tell."""

    pid: int
    threads: int
    memory_bytes: int | None = None
    files: int | None = None
    children: int | None = None


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel at one moment; at and started_at are microseconds, UTC.

    conversations: those in memory, by the state that `ps` shows. turns: the open ones, the running first and of these the
    oldest, at most as many as asked for; turns_open counts all of them. effects: what runs outside, by words (model, call,
    hook, probe). waits: what open turns wait for, by words. resources: what is open.
    counted_s is for how long work and batches were counted, in seconds; lag_ms by how much the loop was late at most in
    the last second. turns_waiting: how many wait for a place among those that run; limits: the bounds that something falls
    under now; shares: the weights that somebody has given.
    """

    at: Micros
    writer: int
    store: str
    up_s: float
    conversations: dict[str, int]
    turns: tuple[OpenTurn, ...]
    turns_open: int
    effects: dict[str, int]
    waits: dict[str, int]
    ready: int
    ticks: int
    agents: tuple[AgentVitals, ...]
    resources: tuple[ResourceUse, ...]
    process: ProcessVitals
    counted_s: float
    work: Work
    batches: Batches
    lag_ms: float | None = None
    turns_waiting: int = 0
    limits: tuple[LimitUse, ...] = ()
    shares: Shares = Shares()
