"""The ways to tamper with a store that somebody who may write to its file has, each done with plain sqlite3.

Every one changes a copy of its own and says what verify has to name. The last three leave a store without a flaw in itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from agentos.events.entry import seed_digest
from agentos.history import Difference

_FORGET = (
    "delete from logs where n = ?",
    "delete from entries where n = ?",
    "delete from payloads where n = ?",
    "delete from messages where n = ?",
    "delete from components where n = ?",
    "delete from conversations where n = ?",
    "delete from turns where n = ?",
    "delete from calls where n = ?",
)
_FORGET_WAITING = ("delete from inbox where log = ?", "delete from wakeups where log = ?")
_BRING_BACK = (
    "insert into logs select * from earlier.logs where n = ?",
    "insert into entries select * from earlier.entries where n = ?",
    "insert into payloads select * from earlier.payloads where n = ?",
    "insert into messages select * from earlier.messages where n = ?",
    "insert into components select * from earlier.components where n = ?",
    "insert into conversations select * from earlier.conversations where n = ?",
    "insert into turns select * from earlier.turns where n = ?",
    "insert into calls select * from earlier.calls where n = ?",
)
_DONE = (
    "select logs.id, entries.n, entries.seq from entries join logs using (n) where entries.kind = 'call.finished'"
    ' and head like \'%"status":"done"%\' order by entries.n, entries.seq limit 1'
)
_ARGUMENTS = (
    "select logs.id, payloads.n, payloads.seq from payloads join logs using (n)"
    " where name = 'arguments' and body is not null order by payloads.n desc, payloads.seq limit 2"
)
_ANSWER = (
    "select logs.id, messages.n, messages.seq from messages join logs using (n)"
    " where role = 'assistant' and length(text) > 0 order by messages.n, messages.seq desc limit 1"
)
_CALL = (
    "select logs.id, n, calls.seq from calls join logs using (n) where status = 'done' order by n, calls.seq limit 1"
)
_SNAPSHOT = (
    "select logs.id, entries.n, entries.seq, head from entries join logs using (n) where entries.kind = 'snapshot'"
    " and head like '%\"turns\":%' order by entries.n desc, entries.seq desc limit 1"
)
_CHILD_START = (
    "select logs.id, entries.n, entries.seq, head from entries join logs using (n) where entries.kind = 'input.received'"
    " and parent_call is not null order by entries.n, entries.seq limit 1"
)
_ENDED_CHILD = (
    "select logs.id, entries.seq from entries join logs using (n) where entries.kind = 'call.finished' and head like ?"
    " order by entries.n, entries.seq limit 1"
)


class Scene(NamedTuple):
    """What is tampered with: the file of a copy, the same store one turn earlier, and two logs that went on since."""

    path: Path
    earlier: Path
    grown: str
    new: str


class Named(NamedTuple):
    """What a difference has to say. seq is None where it does not matter."""

    log: str
    seq: int | None
    table: str
    field: str

    def fits(self, difference: Difference) -> bool:
        place = (difference.log, difference.table, difference.field)
        return place == (self.log, self.table, self.field) and self.seq in (None, difference.seq)

    def __str__(self) -> str:
        where = self.log if len(self.log) < 12 else f"…{self.log[-8:]}"
        return f"{where}{f' seq {self.seq}' if self.seq else ''}: {self.table}.{self.field}"


class Tampering(NamedTuple):
    """name and what are for people. alone: verify finds it without an anchor."""

    name: str
    what: str
    act: Callable[[sqlite3.Connection, Scene], Named]
    alone: bool = True

    def done(self, scene: Scene) -> Named:
        """Does it, and says what has to be named."""
        with closing(sqlite3.connect(scene.path)) as db, db:
            return self.act(db, scene)


def edit_entry(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_DONE).fetchone()
    said = ('"status":"done"', '"status":"failed"')
    db.execute("update entries set head = replace(head, ?, ?) where n = ? and seq = ?", (*said, n, seq))
    return Named(log, seq, "entries", "head")


def edit_arguments(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_ARGUMENTS).fetchone()
    body = '{"text":"something else"}'
    db.execute("update payloads set body = ? where n = ? and seq = ? and name = 'arguments'", (body, n, seq))
    return Named(log, seq, "payloads", "body")


def edit_answer(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_ANSWER).fetchone()
    db.execute("update messages set text = 'I never said that.' where n = ? and seq = ?", (n, seq))
    return Named(log, seq, "messages", "text")


def delete(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_DONE).fetchone()
    db.execute("delete from entries where n = ? and seq = ?", (n, seq))
    db.execute("delete from messages where n = ? and seq = ?", (n, seq))
    return Named(log, seq, "entries", "row")


def reorder(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_DONE).fetchone()
    for before, after in ((seq, -1), (seq - 1, seq), (-1, seq - 1)):
        db.execute("update entries set seq = ? where n = ? and seq = ?", (after, n, before))
    return Named(log, seq, "entries", "seq")


def insert(db: sqlite3.Connection, scene: Scene) -> Named:
    """A second end of a call; all entries behind it move up by one."""
    (log, n, seq) = db.execute(_DONE).fetchone()
    db.execute("update entries set seq = -seq - 1 where n = ? and seq > ?", (n, seq))
    db.execute("update entries set seq = -seq where n = ? and seq < 0", (n,))
    db.execute(
        "insert into entries (n, seq, unit, kind, turn, call, at, head, digest)"
        " select n, seq + 1, unit, kind, turn, call, at, head, digest from entries where n = ? and seq = ?",
        (n, seq),
    )
    db.execute("update logs set seq = seq + 1 where n = ?", (n,))
    return Named(log, seq + 1, "entries", "seq")


def swap(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, *one), (_, *other) = db.execute(_ARGUMENTS).fetchall()
    read = "select salt, body from payloads where n = ? and seq = ? and name = 'arguments'"
    write = "update payloads set salt = ?, body = ? where n = ? and seq = ? and name = 'arguments'"
    mine, theirs = (db.execute(read, place).fetchone() for place in (one, other))
    db.execute(write, (*theirs, *one))
    db.execute(write, (*mine, *other))
    return Named(log, one[1], "payloads", "body")


def edit_projection(db: sqlite3.Connection, scene: Scene) -> Named:
    (log, n, seq) = db.execute(_CALL).fetchone()
    db.execute("update calls set status = 'failed' where n = ? and seq = ?", (n, seq))
    return Named(log, seq, "calls", "status")


def hide(db: sqlite3.Connection, scene: Scene) -> Named:
    """Every row stays as it is, and whoever asks sees less."""
    db.execute("drop view tool_calls")
    db.execute("create view tool_calls as select * from calls where status <> 'done'")
    return Named("store", 0, "schema", "tool_calls")


def blank(db: sqlite3.Connection, scene: Scene) -> Named:
    """As an erase leaves it, but for the receipt."""
    (log, n, seq) = db.execute(_ANSWER).fetchone()
    db.execute("update messages set salt = null, text = null where n = ? and seq = ?", (n, seq))
    return Named(log, seq, "messages", "text")


def say_erased(db: sqlite3.Connection, scene: Scene) -> Named:
    db.execute("update logs set erased_at = 1 where id = ?", (scene.grown,))
    return Named(scene.grown, 0, "logs", "erased_at")


def edit_snapshot(db: sqlite3.Connection, scene: Scene) -> Named:
    """Whoever reads the log begins at a snapshot; every digest behind it is made anew."""
    (log, n, seq, head) = db.execute(_SNAPSHOT).fetchone()
    turns = int(re.findall(r'"turns":([0-9]+)', head)[0])
    _chain_anew(db, log, n, {seq: head.replace(f'"turns":{turns}', f'"turns":{turns + 1}', 1)})
    return Named(log, seq, "entries", "snapshot")


def forge_child(db: sqlite3.Connection, scene: Scene) -> Named:
    """What a subagent was asked becomes another time of day, with every digest of its log made anew."""
    (child, n, seq, head) = db.execute(_CHILD_START).fetchone()
    (parent, ended) = db.execute(_ENDED_CHILD, (f'%"child":"{child}"%',)).fetchone()
    at = json.loads(head)["at"]
    db.execute("update entries set at = ? where n = ? and seq = ?", (at + 1, n, seq))
    _chain_anew(db, child, n, {seq: head.replace(f'"at":{at}', f'"at":{at + 1}', 1)})
    return Named(parent, ended, "entries", "child_head")


def truncate(db: sqlite3.Connection, scene: Scene) -> Named:
    """All that the file has of one log becomes what it had before the last turn."""
    (n,) = db.execute("select n from logs where id = ?", (scene.grown,)).fetchone()
    db.commit()
    db.execute("attach ? as earlier", (str(scene.earlier),))
    _forget(db, n, scene.grown)
    for statement in _BRING_BACK:
        db.execute(statement, (n,))
    db.execute("insert into inbox select * from earlier.inbox where log = ?", (scene.grown,))
    (seq,) = db.execute("select seq from logs where n = ?", (n,)).fetchone()
    return Named(scene.grown, seq + 1, "logs", "seq")


def delete_log(db: sqlite3.Connection, scene: Scene) -> Named:
    (n, seq) = db.execute("select n, seq from logs where id = ?", (scene.new,)).fetchone()
    _forget(db, n, scene.new)
    return Named(scene.new, seq, "logs", "row")


def roll_back(db: sqlite3.Connection, scene: Scene) -> Named:
    with closing(sqlite3.connect(scene.earlier)) as earlier:
        earlier.backup(db)
    return Named("store", None, "logs", "heads")


def forge(db: sqlite3.Connection, scene: Scene) -> Named:
    """Another message, with the commitment that fits it, and every digest behind it made anew."""
    (n,) = db.execute("select n from logs where id = ?", (scene.grown,)).fetchone()
    found = "select seq, salt, text from messages where n = ? and role = 'assistant' and length(text) > 0 order by seq"
    (forged_seq, salt, text) = db.execute(found, (n,)).fetchone()
    lie = "I never said that."
    old, new = _committed(salt, text), _committed(salt, lie)
    db.execute("update messages set text = ? where n = ? and seq = ?", (lie, n, forged_seq))
    heads = db.execute("select seq, head from entries where n = ?", (n,)).fetchall()
    _chain_anew(db, scene.grown, n, {seq: head.replace(old, new) for seq, head in heads})
    return Named(scene.grown, None, "entries", "digest")


def _chain_anew(db: sqlite3.Connection, log: str, n: int, changed: Mapping[int, str]) -> None:
    """These heads, and every digest made anew, as whoever may write to the file can."""
    digest = seed_digest(log)
    for seq, head in db.execute("select seq, head from entries where n = ? order by seq", (n,)).fetchall():
        made = changed.get(seq, head)
        digest = hashlib.sha256(digest + made.encode()).digest()
        db.execute("update entries set head = ?, digest = ? where n = ? and seq = ?", (made, digest, n, seq))
    db.execute("update logs set digest = ? where n = ?", (digest, n))


def _committed(salt: bytes, text: str) -> str:
    """A commitment as it stands in a head."""
    return base64.b64encode(hashlib.sha256(salt + text.encode()).digest()).decode()


def _forget(db: sqlite3.Connection, n: int, log: str) -> None:
    for statement in _FORGET:
        db.execute(statement, (n,))
    for statement in _FORGET_WAITING:
        db.execute(statement, (log,))


TAMPERINGS: Sequence[Tampering] = (
    Tampering("edit an entry", "a call that was done becomes one that failed", edit_entry),
    Tampering("edit arguments", "a call gets other arguments", edit_arguments),
    Tampering("edit a message", "an agent said something else", edit_answer),
    Tampering("delete", "the end of a call is taken out", delete),
    Tampering("reorder", "two entries change their places", reorder),
    Tampering("insert", "a call ends a second time", insert),
    Tampering("swap", "two calls exchange their arguments and salts", swap),
    Tampering("edit a table", "`calls` says that a call failed; the log does not", edit_projection),
    Tampering("hide", "a view leaves out calls; all rows stay as they are", hide),
    Tampering("blank", "an answer is gone as if it had been erased", blank),
    Tampering("say erased", "a conversation counts as erased", say_erased),
    Tampering("edit a snapshot", "a reload counts one turn more; all digests are made anew", edit_snapshot),
    Tampering("forge a child", "a subagent was asked later; all digests of its log are made anew", forge_child),
    Tampering("truncate", "the last turn of a conversation never was, in any table", truncate, alone=False),
    Tampering("delete a log", "a conversation never was, in any table", delete_log, alone=False),
    Tampering("roll back", "the file is the one of an earlier day", roll_back, alone=False),
    Tampering("forge", "an agent said something else, and all digests are made anew", forge, alone=False),
)
