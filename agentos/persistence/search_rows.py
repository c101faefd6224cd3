"""What goes into a search index, what is asked of it, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

SQUARES = 1_000_003
"""Stands as a literal in the statements of the index and of `history.search.moved`."""


class IndexedText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One text of a log and where it stands: payload i of the entry at seq. at in microseconds, UTC."""

    seq: int
    i: int
    role: str
    part: str
    tool: str | None
    turn: int
    call: int
    at: int
    text: str


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """What a log has said from `after` to seq, whose digest is that of the entry at seq; calls are tools by seq."""

    log: str
    after: int
    seq: int
    digest: bytes
    texts: Sequence[IndexedText]
    calls: Sequence[tuple[int, str]]


class IndexedLog(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where a log is in the index, and whether it was forgotten, to the end."""

    seq: int
    digest: bytes
    erased: bool


class Heads(NamedTuple):
    """What the heads of conversations come to that have texts of their own and are not erased. squares is the sum of the
    squares of their seqs, each modulo SQUARES: two that moved by the same do not make up for one another."""

    logs: int
    seqs: int
    squares: int

    def moved(self, before: int | None, after: int | None) -> Heads:
        """With one log at another seq; None where it is not among them."""
        found = self
        for seq, sign in ((before, -1), (after, 1)):
            if seq is not None:
                found = Heads(found.logs + sign, found.seqs + sign * seq, found.squares + sign * (seq * seq % SQUARES))
        return found


class Standing(NamedTuple):
    """Where a store stood when the index was brought up to date: how many conversations are erased, and when the last one
    moved, in microseconds, UTC."""

    erased: int
    updated_at: int


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for: match is an expression of FTS5. Times in microseconds, UTC, since included, until not. logs
    bounds the conversations; None is all. after is the place of the last hit of the page before."""

    match: str
    role: str | None = None
    tool: str | None = None
    since: int | None = None
    until: int | None = None
    thinking: bool = False
    logs: Collection[str] | None = None
    newest: bool = False
    after: tuple[str, int, int] | None = None


class IndexHit(msgspec.Struct, frozen=True, array_like=True):
    """Where a text stands that the index takes for a hit."""

    log: str
    seq: int
    i: int
    role: str
    part: str
    tool: str | None
    turn: int
    call: int
    at: int
