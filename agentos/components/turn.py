"""What is known of a turn: one or more steps, each a model call and the calls it asked for."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from agentos.components.base import Component, Word
from agentos.ids import CallId, Digest, Micros, Name


class Phase(Word):
    """What a turn waits for or does next; moved only along the table of `agentos.events.kinds`."""

    PROMPT = "prompt"
    COMPLETE = "complete"
    GATE = "gate"
    CALL = "call"
    COMPACT = "compact"
    SETTLING = "settling"
    SETTLED = "settled"


class Outcome(Word):
    """How a turn ended. `outcome_name` says which limit, or which kind of failure."""

    COMPLETED = "completed"
    LIMIT = "limit"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    DENIED = "denied"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bounds of one turn; an agent file may set each of them. None means no bound.

    window_messages bounds the messages of the conversation that a turn begins with, its inputs counted.
    history_chars bounds what a delegation with `input: history` tells of the asking conversation, in characters.
    inner_depth_max bounds how deep calls may be nested below a call of a reply, inner_calls_max how many inner calls one
    call may have under way at once. doubt_s is how long a person is waited for who can tell what became of a call that a
    crash left in doubt, in seconds; 0: nobody is.
    """

    step_limit: int | None = 50
    call_limit: int | None = 200
    turn_s: float | None = None
    context_tokens: int = 128_000
    window_messages: int | None = None
    model_attempts_max: int = 3
    unknown_tool_limit: int = 5
    tool_s: float = 300.0
    model_s: float = 600.0
    result_chars: int = 32_000
    payload_bytes_max: int = 16 * 1024 * 1024
    progress_max: int = 1_000
    cancel_grace_s: float = 5.0
    retry_base_s: float = 1.0
    retry_cap_s: float = 60.0
    resumes_max: int = 3
    approval_s: float | None = None
    doubt_s: float = 0.0
    history_chars: int = 16_000
    inner_depth_max: int = 4
    inner_calls_max: int = 32


class TurnConfig(Component, frozen=True, omit_defaults=True, kw_only=True):
    """What the turn pinned when it began.

    context is the digest of the AgentContext; inputs the seqs of the inputs it took, ephemeral those of them that leave
    the history with it; causes the delegating calls that wait for its end; resolutions the seqs of entries whose notes the
    model reads before the inputs. Limits: None means no bound.
    deadline_at is in microseconds, UTC.
    """

    component: ClassVar[str] = "turn_config"
    context: Digest
    inputs: tuple[int, ...]
    started_at: Micros
    ephemeral: tuple[int, ...] = ()
    causes: tuple[CallId, ...] = ()
    resolutions: tuple[int, ...] = ()
    step_limit: int | None = None
    call_limit: int | None = None
    deadline_at: Micros | None = None


class TurnState(Component, frozen=True, omit_defaults=True, kw_only=True):
    """Where the turn stands.

    step_index counts finished steps, from 0. attempt counts tries of the present model call, from 1; requested is the
    seq of its model.requested while it runs, else 0. reply is the seq of the last model.finished, answer that of the
    entry whose first payload is the turn's answer. calls are the seqs of the calls of the present step, inner those of
    the inner calls that are open; calls_made counts both kinds. unknown_streak counts calls in a row that named no tool.
    resumes counts recoveries since the last progress. retry_at holds PROMPT back until then.
    """

    component: ClassVar[str] = "turn_state"
    phase: Phase
    step_index: int = 0
    attempt: int = 1
    requested: int = 0
    reply: int = 0
    answer: int = 0
    calls: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
    calls_made: int = 0
    unknown_streak: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    resumes: int = 0
    retry_at: Micros | None = None
    outcome: Outcome | None = None
    outcome_name: Name | None = None
