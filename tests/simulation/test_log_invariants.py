"""The checks of a log can fail: each edit of one is named."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from agentos.events.entry import Registry, next_digest, seed_digest
from agentos.ids import LogId
from agentos.persistence.base import StoredEntry
from agentos.testing.checker import at_once
from agentos.testing.log_invariants import LogCheck
from agentos.testing.simulate import Simulation

Edit = Callable[[list[StoredEntry]], list[StoredEntry]]


@pytest.fixture(scope="module")
def log() -> tuple[LogId, list[StoredEntry]]:
    """The longest log of a simulation."""
    simulation = Simulation(3)
    simulation.run(60)
    row = max(at_once(simulation.store.logs("conversation")), key=lambda row: row.seq)
    return row.id, at_once(simulation.store.entries(row.id))


def findings(log: LogId, entries: list[StoredEntry]) -> str:
    check = LogCheck(log, Registry())
    for entry in entries:
        check.add(entry)
    return "\n".join(check.broken)


def chained(log: LogId, entries: list[StoredEntry]) -> list[StoredEntry]:
    """The entries with seqs and digests anew, so that only what they say is wrong."""
    digest, again = seed_digest(log), []
    for seq, entry in enumerate(entries, 1):
        head = entry.head.replace(f'"seq":{entry.seq},', f'"seq":{seq},')
        digest = next_digest(digest, head.encode())
        again.append(msgspec.structs.replace(entry, seq=seq, unit=seq, head=head, digest=digest))
    return again


def first(entries: list[StoredEntry], kind: str) -> int:
    return next(n for n, entry in enumerate(entries) if entry.kind == kind)


def without(entries: list[StoredEntry], kind: str) -> list[StoredEntry]:
    n = first(entries, kind)
    return [*entries[:n], *entries[n + 1 :]]


def twice(entries: list[StoredEntry], kind: str) -> list[StoredEntry]:
    n = first(entries, kind)
    return [*entries[: n + 1], *entries[n:]]


def test_a_log_as_it_was_stored_is_in_order(log: tuple[LogId, list[StoredEntry]]) -> None:
    assert findings(*log) == ""


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda entries: [*entries[:4], *entries[5:]], "comes after seq 4"),
        (lambda entries: [entries[0], msgspec.structs.replace(entries[1], head=entries[1].head + " ")], "digest"),
        (lambda entries: [msgspec.structs.replace(entries[0], unit=7)], "its unit 7 is neither"),
        (lambda entries: [_with_body(entry) for entry in entries], "its commitments are not those"),
    ],
)
def test_an_edit_of_what_is_stored_is_named(log: tuple[LogId, list[StoredEntry]], edit: Edit, said: str) -> None:
    assert said in findings(log[0], edit(log[1]))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda entries: without(entries, "model.finished"), "a second request while"),
        (lambda entries: without(entries, "model.requested"), "a reply without a request"),
        (lambda entries: twice(entries, "call.finished"), "ends a second time"),
        (lambda entries: twice(entries, "call.started"), "starts while it runs or after its end"),
        (lambda entries: without(entries, "call.finished"), "the turn ends without a result for calls"),
        (lambda entries: without(entries, "turn.started"), "moves the turn from nothing to complete"),
    ],
)
def test_a_story_that_does_not_hang_together_is_named(
    log: tuple[LogId, list[StoredEntry]], edit: Edit, said: str
) -> None:
    assert said in findings(log[0], chained(log[0], edit(log[1])))


def _with_body(entry: StoredEntry) -> StoredEntry:
    payloads = [(i, name, salt, '"another"') for i, name, salt, _ in entry.payloads]
    return msgspec.structs.replace(entry, payloads=payloads)
