"""fsck: is the store whole, is each part where it belongs, and what can be put right?

What verify checks is not checked here again: the chain, tables against the log, bodies, inbox, wake-ups, definitions and the
store's own files. Beside it stand whether calls and results pair, and open logs whose writer is gone. Tables are made anew
from the log where its chain is whole; a log is never written to, and what only a log tells is never made up.
"""

from __future__ import annotations

from typing import cast

import msgspec

from agentos.errors import CodecError, StoreDamaged
from agentos.events.entry import Registry
from agentos.history.fsck.mending import MendableStore, Mended, mend_log
from agentos.history.fsck.pairing import check_pairing
from agentos.history.report import Difference, Finder, Report
from agentos.history.verify.store import verify_store
from agentos.history.verify.values import KEPT
from agentos.ids import Kind, is_id
from agentos.kernel.held import is_held
from agentos.persistence.base import LogRow, Store
from agentos.persistence.mending import Mendable

DIFFERENCES_MAX = 1_000_000
"""How many differences are held at once; of more, the later ones wait for the next run."""
_TABLES = frozenset({"conversations", "turns", "calls", "components", "wakeups"})
_COLUMNS = frozenset({("messages", "role"), ("messages", "turn"), ("messages", "call")})
_BROKEN = frozenset({"entries", "logs"})
_BESIDE = frozenset({("logs", "erased_at"), ("entries", "child_head")})
"""Differences in these tables that say nothing of the log's own entries."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A log with work to do whose writer is gone. writer is 0 when it never had one, as in a copy; held, when it came by an
    import, and no kernel takes it up before somebody says so."""

    log: str
    writer: int
    held: bool = False

    def __str__(self) -> str:
        if self.held:
            return f"{self.log}: open, and held since an import paused it; 'agentos unpause {self.log}' lets it go on"
        whose = f"writer {self.writer} is gone" if self.writer else "it belongs to nobody"
        return f"{self.log}: open, and {whose}; 'agentos run --resume' takes it up"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A difference, and what may be done about it: `mend` when the tables beside its log can be made anew, else why not."""

    difference: Difference
    mend: bool = False
    why_not: str = ""

    def __str__(self) -> str:
        return f"{self.difference}; {'--repair mends it' if self.mend else self.why_not}"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What fsck found: counts of what was read, findings, and open logs that nobody drives, which are no fault."""

    report: Report
    findings: tuple[Finding, ...] = ()
    left: tuple[Left, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def to_mend(self) -> tuple[str, ...]:
        """The logs beside which something can be put right, each once."""
        return tuple(dict.fromkeys(finding.difference.log for finding in self.findings if finding.mend))


async def check_store(store: Store, *, registry: Registry | None = None) -> Checked:
    """Checks everything; changes nothing. Raises StoreUnavailable, StoreDamaged when tables cannot be read at all."""
    registry = registry or Registry()
    report = await verify_store(store, registry=registry, differences_max=DIFFERENCES_MAX)
    pairs = [difference for row in await store.logs(Kind.CONVERSATION.value) for difference in await _pairs(store, row)]
    differences = [*report.differences, *pairs]
    broken = {one.log for one in differences if one.table in _BROKEN and (one.table, one.field) not in _BESIDE}
    mendable = isinstance(store, Mendable)
    findings = [_finding(one, broken=one.log in broken, mendable=mendable) for one in differences]
    return Checked(report=report, findings=tuple(findings), left=tuple(await _left(store)))


async def repair_store(store: Store, checked: Checked, *, registry: Registry | None = None) -> list[Mended]:
    """Makes the tables anew beside every log that `check_store` found them to differ at; the store is open as a writer.

    A log that moved on meanwhile is read again; one that keeps moving is left, and told. Raises StoreError.
    """
    if not checked.to_mend:
        return []
    assert isinstance(store, Mendable), "nothing is found to be mended in another"
    mendable = cast(MendableStore, store)
    return [await mend_log(mendable, log, registry or Registry()) for log in checked.to_mend]


async def _pairs(store: Store, row: LogRow) -> list[Difference]:
    """Of a log that cannot be read, verify has told already."""
    finder = Finder(row.id)
    try:
        await check_pairing(store, row.id, finder)
    except (CodecError, StoreDamaged):
        return []
    return [one for one in finder.found if row.forked_from is None or one.seq > row.upto]


async def _left(store: Store) -> list[Left]:
    alive = {writer.n for writer in await store.writers() if writer.alive}
    rows = [await store.log(log) for log in await store.open_logs()]
    gone = [row for row in rows if row is not None and row.owner not in alive]
    return [Left(log=row.id, writer=row.owner, held=await is_held(store, row)) for row in gone]


def _finding(difference: Difference, *, broken: bool, mendable: bool) -> Finding:
    why = _why_not(difference)
    if why:
        return Finding(difference=difference, why_not=why)
    if broken:
        return Finding(difference=difference, why_not="its log is not whole, so that nothing is made of it")
    if not mendable:
        return Finding(difference=difference, why_not="this kind of store has tables only in memory; its lines say so")
    return Finding(difference=difference, mend=True)


def _why_not(difference: Difference) -> str:
    """Why nothing can be made anew at this place; empty when it can."""
    table, field = difference.table, difference.field
    is_log = is_id(difference.log, Kind.CONVERSATION) or difference.log.partition("_")[0] in (
        "agent",
        "toolbox",
        "program",
    )
    if table == "entries":
        return "entries are never rewritten; take the log from a backup"
    if table == "logs":
        return "heads are never rewritten; take the log from a backup"
    if table == "definitions":
        return "nothing else holds a definition; take it from a backup"
    if table == "schema":
        return "nothing of it is changed here; 'agentos copy' makes a new store from the logs, with tables of its own"
    if table == "files":
        return "what was lost there is in no other place; take it from a backup"
    if not is_log:
        return "the log that it belonged to is gone; it is kept, for it may be all that is left of it"
    if table in _TABLES or (table, field) in _COLUMNS:
        return ""
    if table in ("payloads", "messages") and field == "row" and difference.expected is None:
        return ""  # an orphan
    if table == "inbox" and str(difference.stored).startswith("kept"):
        return ""
    if table == "inbox":
        return "nobody else has the item; whoever sent it may send it again"
    if str(difference.stored).startswith(KEPT):
        return "its receipt says that it was erased; erase the conversation again"
    return "a body stands in one place alone; take it from a backup"
