"""The units of a log made anew from its stored entries: what `Store.append` took when they were decided.

Heads, digests, salts and bodies are taken as they stand, byte for byte. The rows beside them are folded anew, so that
tables never travel. A log that is rebuilt belongs to nobody: its owner is 0 and its epoch stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentos.components import ConversationConfig, ConversationState
from agentos.events.entry import Registry, decode_entry, decode_head
from agentos.events.kinds import role_of
from agentos.history.reading import stored_units
from agentos.history.verify.folding import Folding
from agentos.ids import CONVERSATION, LogId
from agentos.journal import erases_of, resolutions_of
from agentos.persistence.base import (
    EntryRow,
    InboxRow,
    LogRow,
    MessageRow,
    PayloadRow,
    Store,
    StoredEntry,
    TakenKey,
    Unit,
    WakeupRow,
)
from agentos.world import World

NOBODY = 0
"""The owner of a log that no writer has claimed."""


class Rebuilding:
    """Takes the units of one log in order. row is the log as it stands, seq and digest the head to go on from."""

    def __init__(self, row: LogRow, seq: int, digest: bytes, world: World, registry: Registry) -> None:
        self._row, self._registry = row, registry
        self._seq, self._digest = seq, digest
        self._folding = Folding(row.id, world)

    @property
    def config(self) -> ConversationConfig | None:
        """What the log says of its conversation, as far as it was taken."""
        return self._folding.config

    @property
    def has_work(self) -> bool:
        """Whether a turn is open then, or an input waits for one."""
        state = self._folding.rows.get(CONVERSATION, {}).get(ConversationState)
        return state is not None and bool(state.open_turn or state.waiting)

    def begin_at(self, snapshot: StoredEntry) -> None:
        """Goes on from a snapshot as if all before it had been taken."""
        self._folding.begin_at(decode_entry(self._row.id, snapshot.head, {}, self._registry))

    def pass_over(self, unit: Sequence[StoredEntry]) -> None:
        """Takes a unit that is there already, or that a fork shares."""
        self._folding.fold([decode_entry(self._row.id, stored.head, {}, self._registry) for stored in unit])

    def next(self, stored: Sequence[StoredEntry], epoch: int, *, create: bool) -> Unit:
        """The next unit. Raises CodecError for a head that cannot be read."""
        entries = [decode_entry(self._row.id, entry.head, {}, self._registry) for entry in stored]
        projection = self._folding.fold(entries)
        unit = Unit(
            log=self._row.id,
            owner=NOBODY,
            epoch=epoch,
            previous_seq=self._seq,
            previous=self._digest,
            seq=stored[-1].seq,
            digest=stored[-1].digest,
            entries=[],
            payloads=[],
            messages=[],
            conversation=projection.conversation,
            turns=projection.turns,
            calls=projection.calls,
            components=projection.components,
            resolved=resolutions_of(entries),
            create=new_row(self._row, self._seq, self._digest) if create else None,
            erases=erases_of(entries),
        )
        for entry in stored:
            _put_entry(unit, entry)
        self._seq, self._digest = unit.seq, unit.digest
        return unit


async def catch_up(rebuilding: Rebuilding, store: Store, log: LogId, upto: int) -> None:
    """Has it pass over all up to there, from the last snapshot on. Raises StoreError, CodecError."""
    if not upto:
        return
    after = await store.last_snapshot(log, upto)
    if after:
        (snapshot,) = await store.entries(log, after - 1, after)
        rebuilding.begin_at(snapshot)
    async for stored in stored_units(store, log, after, upto):
        rebuilding.pass_over(stored)


def new_row(row: LogRow, seq: int, digest: bytes) -> LogRow:
    """The row of a log before its first unit, of nobody."""
    return LogRow(
        id=row.id,
        kind=row.kind,
        owner=NOBODY,
        epoch=row.epoch,
        seq=seq,
        digest=digest,
        root=row.root,
        parent_call=row.parent_call,
        tenant=row.tenant,
        forked_from=row.forked_from,
        upto=row.upto,
    )


def remember(unit: Unit, keys: Sequence[TakenKey]) -> None:
    """Has the unit take these keys. They are posted with it, since nothing but the key is left of an item once taken."""
    unit.posts = [*unit.posts, *(InboxRow(log=key.log, key=key.key, kind=key.kind, salt=b"", body="") for key in keys)]
    unit.taken = [*unit.taken, *(key.key for key in keys)]


def wait_for(unit: Unit, wanted: Sequence[WakeupRow], known: Sequence[WakeupRow]) -> None:
    """Has the unit leave these wake-ups in the place of those that are known."""
    unit.wakeups, unit.woken = wanted, [row for row in known if row not in wanted]


def size_of(unit: Unit) -> int:
    """The bytes of heads, digests, salts and bodies."""
    entries: Sequence[EntryRow] = unit.entries
    size = sum(len(head.encode()) + len(digest) for *_, head, digest in entries)
    values = [*((salt, body) for *_, salt, body in unit.payloads), *((salt, text) for *_, salt, text in unit.messages)]
    return size + sum(len(salt or b"") + len((body or "").encode()) for salt, body in values)


def _put_entry(unit: Unit, stored: StoredEntry) -> None:
    """The row of an entry and those of its private values: value 0 of a message stands in `messages`."""
    head = decode_head(stored.head)
    unit.entries.append(
        (stored.seq, stored.unit, stored.kind, head.turn, head.call, head.at, stored.head, stored.digest)
    )
    role = role_of(stored.kind, head.data)
    for i, name, salt, body in stored.payloads:
        if i == 0 and role is not None:
            message: MessageRow = (stored.seq, role, head.turn, head.call, salt, body)
            unit.messages.append(message)
        else:
            payload: PayloadRow = (stored.seq, i, name, salt, body)
            unit.payloads.append(payload)
