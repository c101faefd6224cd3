"""What a replay against another configuration comes to: nothing departs, or the first thing that does and what follows."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from agentos.ids import CallId, Digest, LogId, TurnId

Part = Literal["request", "reply", "decision"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One field on both sides. path is `prompt`, `model.name`, `tools.note.description` or a path of an entry.

    A side that does not have it is None. lines has the lines of a text with `-`, `+` or a space before each, as a unified
    diff has them.
    """

    path: str
    recorded: Any = None
    other: Any = None
    lines: tuple[str, ...] = ()


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A call that would no longer be justified: it comes of what departs. depth counts conversations below the first."""

    call: CallId
    tool: str
    status: str
    turn: TurnId
    depth: int = 0
    child: LogId | None = None


class Departed(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that would be otherwise.

    part: a request to the model, its reply, or what the kernel decided. step counts model calls of the turn, from 0.
    requests counts those later ones of the conversation that rest on it. followed has the calls after it, with those of
    child conversations, whose number conversations is; answered is the call of another conversation that took its result.
    cut tells that more calls follow than are listed. uncompared counts units that cannot be compared; see Unchanged.
    """

    log: LogId
    seq: int
    turn: TurnId
    step: int
    kind: str
    part: Part
    changes: tuple[Change, ...]
    requests: int = 0
    followed: tuple[Followed, ...] = ()
    conversations: int = 0
    answered: CallId | None = None
    cut: bool = False
    uncompared: int = 0
    other_rules: tuple[Digest, ...] = ()

    def __str__(self) -> str:
        paths = ", ".join(change.path for change in self.changes)
        place = f"seq {self.seq}, {self.kind}, step {self.step} of {self.turn}"
        return f"departs at {place}: {self.part} ({paths})"


class Unchanged(msgspec.Struct, frozen=True, kw_only=True):
    """All would be as it is recorded.

    requests counts the requests that are the same, decisions the units that would be decided alike. uncompared counts
    units that rest on erased bodies, or that are not decided again as they stand even with what was recorded: under
    other_rules they were decided by other rules than those of this program. Of these only the requests are compared.
    """

    log: LogId
    requests: int
    decisions: int
    uncompared: int = 0
    other_rules: tuple[Digest, ...] = ()

    def __str__(self) -> str:
        left = f", {self.uncompared} units cannot be compared" if self.uncompared else ""
        return f"unchanged ({self.requests} requests and {self.decisions} units alike{left})"


Compared = Unchanged | Departed
