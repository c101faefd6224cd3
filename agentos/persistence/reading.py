"""The reading half of a store that speaks SQL, over one way to fetch rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agentos.errors import StoreDamaged
from agentos.persistence.base import InboxRow, LogRow, StoredEntry, TakenKey, WakeupRow
from agentos.persistence.rows import message_payload
from agentos.persistence.scanning import SqlScan

Row = tuple[Any, ...]

_LOG = "SELECT id, kind, owner, epoch, seq, digest, root, parent_call, tenant, forked_from, upto, erased_at FROM logs"
LOG_BY_ID = _LOG + " WHERE id = ?"
_ALL_LOGS = _LOG + " ORDER BY n"
_LOGS_OF_KIND = _LOG + " WHERE kind = ? ORDER BY n"
_LINE = "SELECT n, forked_from, upto FROM logs WHERE id = ?"
_ENTRIES = "SELECT seq, unit, kind, head, digest FROM entries WHERE n = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
_ENTRIES_OF_KINDS = (
    "SELECT seq, unit, kind, head, digest FROM entries WHERE n = ? AND seq > ? AND seq <= ?"
    " AND replace(?, '\x1f' || kind || '\x1f', '\x1f') <> ? ORDER BY seq LIMIT ?"
)
_PAYLOADS = "SELECT seq, i, name, salt, body FROM payloads WHERE n = ? AND seq >= ? AND seq <= ? ORDER BY seq, i"
_MESSAGES = "SELECT seq, role, salt, text FROM messages WHERE n = ? AND seq >= ? AND seq <= ?"
_LAST_SNAPSHOT = (
    "SELECT seq FROM entries WHERE n = ? AND seq <= ? AND kind = 'snapshot' ORDER BY n DESC, seq DESC LIMIT 1"
)
_OPEN_LOGS = (
    "SELECT id FROM conversations WHERE open_turn > 0"
    " UNION SELECT id FROM conversations AS c WHERE state = 'idle' AND parent IS NULL AND EXISTS (SELECT 1 FROM messages AS m"
    " WHERE m.n = c.n AND m.role = 'user'"
    " AND m.seq > coalesce((SELECT max(t.seq) FROM turns AS t WHERE t.n = c.n), 0))"
    " UNION SELECT log FROM inbox WHERE seq IS NULL ORDER BY 1"
)
_DEFINITION = "SELECT kind, body FROM definitions WHERE digest = ?"
_DEFINITIONS = "SELECT digest, kind, body FROM definitions WHERE digest > ? ORDER BY digest LIMIT ?"
_INBOX = "SELECT log, key, kind, salt, body FROM inbox WHERE seq IS NULL ORDER BY n"
_INBOX_OF = "SELECT log, key, kind, salt, body FROM inbox WHERE log = ? AND seq IS NULL ORDER BY n"
_INBOX_SEQ = "SELECT coalesce(seq, 0) FROM inbox WHERE log = ? AND key = ?"
_TAKEN = "SELECT log, key, kind, seq FROM inbox WHERE seq IS NOT NULL AND (log, key) > (?, ?) ORDER BY log, key LIMIT ?"
_WAKEUPS = "SELECT log, reason, turn, call, due_at FROM wakeups ORDER BY due_at, log, reason, turn, call"
_WAKEUPS_OF = "SELECT log, reason, turn, call, due_at FROM wakeups WHERE log = ? ORDER BY due_at, reason, turn, call"

SEQ_MAX = 2**63 - 1


def log_row(row: Row) -> LogRow:
    """A log from a row of LOG_BY_ID."""
    id_, kind, owner, epoch, seq, digest, root, parent_call, tenant, forked_from, upto, erased_at = row
    return LogRow(
        id=id_,
        kind=kind,
        owner=owner,
        epoch=epoch,
        seq=seq,
        digest=digest,
        root=root,
        parent_call=parent_call,
        tenant=tenant,
        forked_from=forked_from,
        upto=upto,
        erased_at=erased_at,
    )


class SqlReads(SqlScan):
    """The reads of a Store; an adapter adds `_fetch`."""

    url: str

    async def _fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        raise NotImplementedError

    async def log(self, log: str) -> LogRow | None:
        for row in await self._fetch(LOG_BY_ID, (log,)):
            return log_row(row)
        return None

    async def logs(self, kind: str | None = None) -> list[LogRow]:
        rows = await self._fetch(_ALL_LOGS) if kind is None else await self._fetch(_LOGS_OF_KIND, (kind,))
        return [log_row(row) for row in rows]

    async def entries(
        self,
        log: str,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> list[StoredEntry]:
        after, last = max(after, 0), SEQ_MAX if upto is None else max(upto, 0)
        left = SEQ_MAX if limit is None else limit
        found: list[StoredEntry] = []
        for n, end in await self._line(log):
            part = await self._entries(n, after, min(last, end), left, kinds)
            found += part
            left -= len(part)
        return found

    async def last_snapshot(self, log: str, upto: int | None = None) -> int:
        last = SEQ_MAX if upto is None else upto
        for n, end in reversed(await self._line(log)):
            for (seq,) in await self._fetch(_LAST_SNAPSHOT, (n, min(last, end))):
                return int(seq)
        return 0

    async def open_logs(self) -> list[str]:
        return [log for (log,) in await self._fetch(_OPEN_LOGS)]

    async def definition(self, digest: str) -> tuple[str, str] | None:
        for kind, body in await self._fetch(_DEFINITION, (digest,)):
            return kind, body
        return None

    async def definitions(self, after: str = "", limit: int = 1_000) -> list[tuple[str, str, str]]:
        return [(digest, kind, body) for digest, kind, body in await self._fetch(_DEFINITIONS, (after, limit))]

    async def inbox(self, log: str | None = None) -> list[InboxRow]:
        rows = await self._fetch(_INBOX) if log is None else await self._fetch(_INBOX_OF, (log,))
        return [InboxRow(log=log, key=key, kind=kind, salt=salt, body=body) for log, key, kind, salt, body in rows]

    async def inbox_seq(self, log: str, key: str) -> int | None:
        for (seq,) in await self._fetch(_INBOX_SEQ, (log, key)):
            return int(seq)
        return None

    async def taken(self, after: tuple[str, str] = ("", ""), limit: int = 1_000) -> list[TakenKey]:
        rows = await self._fetch(_TAKEN, (*after, limit))
        return [TakenKey(log=log, key=key, kind=kind, seq=seq) for log, key, kind, seq in rows]

    async def wakeups(self, log: str | None = None) -> list[WakeupRow]:
        rows = await self._fetch(_WAKEUPS) if log is None else await self._fetch(_WAKEUPS_OF, (log,))
        return [
            WakeupRow(log=log, reason=reason, turn=turn, call=call, due_at=due_at)
            for log, reason, turn, call, due_at in rows
        ]

    async def damages(self) -> Sequence[object]:
        return ()

    async def _line(self, log: str) -> list[tuple[int, int]]:
        """The stretches that make up a log, oldest first: the number that they stand under and the seq of their end.

        A log that is no fork is one stretch; a fork begins with those of the log it came from. Empty for no log.
        """
        line: list[tuple[int, int]] = []
        names: set[str] = set()
        name: str | None = log
        end = SEQ_MAX
        while name is not None:
            if name in names:
                raise StoreDamaged(self.url, f"{log} is a fork of itself")
            names.add(name)
            rows = await self._fetch(_LINE, (name,))
            if not rows and line:
                raise StoreDamaged(self.url, f"{log} is a fork of {name}, which is not there")
            if not rows:
                break
            ((n, name, upto),) = rows
            line.append((n, end))
            end = min(upto, end)
        return line[::-1]

    async def _entries(
        self, n: int, after: int, upto: int, limit: int, kinds: Collection[str] | None
    ) -> list[StoredEntry]:
        if after >= upto or limit == 0:
            return []
        if kinds is None:
            rows = await self._fetch(_ENTRIES, (n, after, upto, limit))
        else:
            listed = "\x1f".join(("", *kinds, ""))  # LIKE would take letters of either case, and a kind for a pattern
            rows = await self._fetch(_ENTRIES_OF_KINDS, (n, after, upto, listed, listed, limit))
        if not rows:
            return []
        found = {
            seq: StoredEntry(seq=seq, unit=unit, kind=kind, head=head, digest=digest, payloads=[])
            for seq, unit, kind, head, digest in rows
        }
        first, last = rows[0][0], rows[-1][0]
        # A value whose entry is gone belongs to nothing; `verify` names it, and must be able to read what is left.
        for seq, role, salt, text in await self._fetch(_MESSAGES, (n, first, last)):
            if seq in found:
                found[seq].payloads.append((0, message_payload(role), salt, text))
        for seq, i, name, salt, body in await self._fetch(_PAYLOADS, (n, first, last)):
            if seq in found:
                found[seq].payloads.append((i, name, salt, body))
        return list(found.values())
