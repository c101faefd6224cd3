"""Erases a log of a SQLite store by hand, as the unit of a receipt does it, so that a part of it can be left out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from agentos.events.entry import Draft, decode_head, encode_head, next_digest
from agentos.events.kinds import PayloadErased
from agentos.ids import Name

PAYLOADS_GONE = "update payloads set salt = null, body = null where n = :n and seq <= :upto"
MESSAGES_GONE = "update messages set salt = null, text = null where n = :n and seq <= :upto"
ROW_SAYS_SO = "update logs set erased_at = :at where n = :n"
ALL_GONE = (PAYLOADS_GONE, MESSAGES_GONE, ROW_SAYS_SO)


def erase_by_hand(path: Path, agent: str, *, upto: int | None = None, done: tuple[str, ...] = ALL_GONE) -> int:
    """Adds the receipt to the log of each conversation of this agent, and does these. Gives the seq of the last receipt.

    upto is what it says, by default the seq before it.
    """
    with closing(sqlite3.connect(path)) as db, db:
        rows = db.execute(
            "select n, seq, digest from logs join conversations using (n) where agent = ? order by n", (agent,)
        ).fetchall()
        for n, seq, digest in rows:
            _erase(db, n, seq, digest, seq if upto is None else upto, done)
    assert rows, f"there is a conversation of {agent}"
    return int(rows[-1][1]) + 1


def _erase(db: sqlite3.Connection, n: int, seq: int, digest: bytes, upto: int, done: tuple[str, ...]) -> None:
    (last,) = db.execute("select head from entries where n = ? and seq = ?", (n, seq)).fetchone()
    before = decode_head(last)
    draft = Draft(data=PayloadErased(upto=upto, bodies=0, reason=Name("asked")))
    head = encode_head(draft, seq + 1, seq + 1, before.at, before.writer, ())
    row = (n, seq + 1, seq + 1, PayloadErased.kind, before.at, head.decode(), next_digest(digest, head))
    db.execute(
        "insert into entries (n, seq, unit, kind, turn, call, at, head, digest) values (?, ?, ?, ?, 0, 0, ?, ?, ?)", row
    )
    db.execute("update logs set seq = ?, digest = ? where n = ?", (seq + 1, row[-1], n))
    for statement in done:
        db.execute(statement, {"n": n, "upto": upto, "at": before.at})
