"""Whether what waits agrees with the logs: items in the inbox, and times that are waited for; and the definitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentos import codec
from agentos.components import Phase
from agentos.errors import CodecError
from agentos.events.entry import digest_of_body
from agentos.events.intake import POSTED, WakeReason
from agentos.history.report import Finder
from agentos.ids import Digest
from agentos.persistence.base import Store

_INBOX = "select n, log, key, kind, salt, body, seq from inbox where n > ? order by n limit ?"
_INBOX_OF = "select n, log, key, kind, salt, body, seq from inbox where n > ? and log = ? order by n limit ?"
_DEFINITIONS = "select digest, kind, body from definitions where digest > ? order by digest limit ?"
FinderOf = Callable[[str], Finder]
"""Where the differences of a log go."""
PAGE_BODIES = 100
"""Rows read at once that carry bodies."""


class Pinned(NamedTuple):
    """Where a definition is named first, and as what."""

    log: str
    seq: int
    kind: str


class LogFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of one log leaves for the checks across logs.

    open_turn is 0 when none is open, None when nobody can tell since the log cannot be folded. due holds the times that
    the open turn waits for, by reason.
    """

    seq: int
    open_turn: int | None = 0
    due: Mapping[str, int] = {}


def times_waited_for(phase: Phase, retry_at: int | None, deadline_at: int | None) -> dict[str, int]:
    """The wake-ups without which an open turn would never go on, or never end."""
    due = {}
    if retry_at is not None:
        due[WakeReason.RETRY.value] = retry_at
    if deadline_at is not None and phase is not Phase.SETTLING:
        due[WakeReason.DEADLINE.value] = deadline_at
    return due


async def check_inbox(
    store: Store, facts: Mapping[str, LogFacts], finder_of: FinderOf, logs: Sequence[str] | None = None
) -> None:
    """A taken item has left only its key and the seq of an entry; a waiting one can be read. Of these logs, or of all."""
    for log in logs if logs is not None else ():
        async for row in _pages(store, _INBOX_OF, 0, log):
            _check_item(row, facts, finder_of)
    if logs is None:
        async for row in _pages(store, _INBOX, 0):
            _check_item(row, facts, finder_of)


def _check_item(row: tuple[Any, ...], facts: Mapping[str, LogFacts], finder_of: FinderOf) -> None:
    _, log, key, kind, salt, body, seq = row
    finder = finder_of(log)
    if seq is None:
        if salt is None or body is None:
            finder.differ(0, "inbox", "body", f"nothing under {key}", "an item that waits")
        elif not _can_be_read(kind, body):
            finder.differ(0, "inbox", "body", f"unreadable under {key}", f"an item of kind {kind}")
        return
    known = facts.get(log)
    head = known.seq if known is not None else 0
    if not 0 < seq <= head:
        finder.differ(seq, "inbox", "seq", seq, f"at most {head}, the head")
    if salt is not None or body is not None:
        finder.differ(seq, "inbox", "body", f"kept under {key}", None)


async def check_wakeups(
    store: Store, facts: Mapping[str, LogFacts], finder_of: FinderOf, logs: Sequence[str] | None = None
) -> None:
    """Each is for an open turn, and each open turn has those that it waits for. Of these logs, or of all."""
    found: set[tuple[str, str]] = set()
    rows = await store.wakeups() if logs is None else [row for log in logs for row in await store.wakeups(log)]
    for row in rows:
        finder = finder_of(row.log)
        known = facts.get(row.log, LogFacts(seq=0))
        if known.open_turn is None:
            continue
        if row.turn != known.open_turn:
            finder.differ(row.turn, "wakeups", "row", f"one for turn {row.turn}", _open(known.open_turn))
            continue
        found.add((row.log, row.reason))
        due_at = known.due.get(row.reason)
        if due_at is not None and due_at != row.due_at:
            finder.differ(row.turn, "wakeups", "due_at", row.due_at, due_at)
    for log, known in facts.items():
        for reason, due_at in known.due.items():
            if (log, reason) not in found:
                finder_of(log).differ(known.open_turn or 0, "wakeups", "row", None, f"{reason} at {due_at}")


async def check_definitions(
    store: Store, pinned: Mapping[Digest, Pinned], finder_of: FinderOf, *, whole: bool = True
) -> None:
    """Each body has the digest that it stands under, and what turns, agents and toolboxes name is there, under its kind.
    whole: not only what they name is looked at."""
    missing = dict(pinned)
    async for digest, kind, body in _definitions(store, None if whole else list(pinned)):
        found = digest_of_body(body)
        if found != digest:
            finder_of("definitions").differ(0, "definitions", "body", f"of digest {found}", f"of digest {digest}")
        named = missing.pop(digest, None)
        if named is not None and kind != named.kind:
            finder_of(named.log).differ(named.seq, "definitions", "kind", kind, named.kind)
    for digest, (log, seq, _) in missing.items():
        finder_of(log).differ(seq, "definitions", "row", None, f"the definition {digest}")


async def _definitions(store: Store, digests: Sequence[Digest] | None) -> AsyncIterator[tuple[Digest, str, str]]:
    """Digest, kind and body of these, as far as they are there, or of all."""
    for name in digests if digests is not None else ():
        known = await store.definition(name)
        if known is not None:
            yield name, *known
    if digests is None:
        async for digest, kind, body in _pages(store, _DEFINITIONS, ""):
            yield Digest(digest), kind, body


async def _pages(store: Store, sql: str, after: int | str, *more: str) -> AsyncIterator[tuple[Any, ...]]:
    """Rows behind a key, which is their first column."""
    while True:
        page = (await store.query(sql, (after, *more, PAGE_BODIES))).rows
        for row in page:
            yield row
        if len(page) < PAGE_BODIES:
            return
        after = page[-1][0]


def _can_be_read(kind: str, body: str) -> bool:
    type_ = POSTED.get(kind)
    if type_ is None:
        return False
    try:
        codec.convert(codec.decode_json(body), type_)
    except CodecError:
        return False
    return True


def _open(turn: int) -> str:
    return f"one for the open turn {turn}" if turn else "none: no turn is open"
