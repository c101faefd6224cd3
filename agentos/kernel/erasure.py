"""What an erase leaves: a receipt for each log, and what became of the bytes, as far as a store can tell."""

from __future__ import annotations

import msgspec

from agentos.errors import StoreDamaged
from agentos.events.entry import decode_head
from agentos.events.kinds import PayloadErased
from agentos.ids import ConversationId, LogId, Name
from agentos.persistence.base import Store

ELSEWHERE = (
    "Copies of the store, backups, and bundles that were exported before are not reached; nor is what tools wrote"
    " themselves, the folders that they worked in, what a model's provider keeps, the lines that somebody typed in a"
    " terminal and its scrollback, and the history file of the chat, which `agentos erase` cleans and this call does not."
)
_BYTES = {
    "memory": "The texts are gone from this process's memory as objects; the interpreter may reuse that memory later.",
    "file": "The lines that held the texts were overwritten in place; a file system that copies on write, its snapshots"
    " and a disk's spare blocks may keep older blocks.",
    "sqlite": "The texts were overwritten with zeros in the file, and the write-ahead log was copied back and cut; a file"
    " system that copies on write, its snapshots and a disk's spare blocks may keep older blocks.",
    "postgresql": "The rows were vacuumed away, and no query sees them; their bytes stay in pages of the server's files"
    " until these are used again or the tables are written anew, and in write-ahead logs, archives of these, and replicas,"
    " for as long as the server keeps those.",
}
_UNSETTLED = {
    "postgresql": "pages of the server's files still hold the bytes until they are used again; 'agentos erase --compact'"
    " writes the tables anew, as their owner and while nobody reads an older view",
}
_VIEWED = (
    "somebody reads an older view of the store, so its files still hold the bytes; the next writer overwrites them, and so"
    " does erasing again"
)
_OTHER = "The store has taken the texts out; what becomes of the bytes is for its maker to say."


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """One log that is erased: the entry that says so (seq, and its digest in hexadecimal), how many private values went
    (bodies), when, in microseconds, UTC, by whom, and why."""

    log: LogId
    agent: Name
    seq: int
    digest: str
    bodies: int
    at: int
    by: Name
    reason: Name


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an erase: the receipts of all its logs, those of an earlier run too, the conversation's own last.

    new counts the receipts that this run brought. settled: the bytes are overwritten in the store's own files; where not, a
    reader still needs an older view, and it is done as soon as it can be, or by erasing again. index is the file of the
    search index that was cleaned, None where there was none. shared_from is the log whose entries this one shares as its
    fork, up to shared_upto: they are that one's, and stand. living_forks are those that go on with entries that are erased
    now: they began while the erase was at work. store says what was done with the bytes and what nobody can promise of
    them, elsewhere what no store reaches.
    """

    conversation: ConversationId
    receipts: tuple[Receipt, ...]
    new: int
    store: str
    settled: bool = False
    elsewhere: str = ELSEWHERE
    index: str | None = None
    shared_from: LogId | None = None
    shared_upto: int = 0
    living_forks: tuple[LogId, ...] = ()

    @property
    def bodies(self) -> int:
        return sum(receipt.bodies for receipt in self.receipts)


def bytes_words(url: str) -> str:
    """What a store of this kind does with the bytes of what is erased, and what it cannot promise."""
    return _BYTES.get(url.partition(":")[0], _OTHER)


def unsettled_words(url: str) -> str:
    """Why bytes of what is erased are still in files of a store of this kind, and the way out."""
    return _UNSETTLED.get(url.partition(":")[0], _VIEWED)


async def receipt_of(store: Store, log: LogId, agent: Name, after: int = 0) -> Receipt:
    """The receipt in a log that is erased, behind a seq. Raises StoreDamaged when there is none."""
    stored = await store.entries(log, after, kinds=[PayloadErased.kind])
    if not stored:
        raise StoreDamaged(store.url, f"{log} counts as erased, and has no entry {PayloadErased.kind}")
    head = decode_head(stored[-1].head)
    return Receipt(
        log=log,
        agent=agent,
        seq=stored[-1].seq,
        digest=stored[-1].digest.hex(),
        bodies=head.data["bodies"],
        at=head.at,
        by=Name(head.by),
        reason=Name(head.data["reason"]),
    )
