"""The lines of a segment. Each is one JSON object that says one thing that was done, all of it or nothing.

    {"crc":"5f0e12ab","op":"unit","log":"conversation_...","seq":4,...}

crc is the CRC-32 of the bytes of the line from `"op"` to the last brace, in eight hexadecimal digits. Bytes (salts,
digests) are base64. What has its usual value is left out. A head stands as the JSON object that it is, byte for byte
what its digest was made of; a head that is no such object stands as a JSON string.

op says what was done: `segment` begins each file, `continued` ends it when another follows; `unit`, `post`, `claim`,
`begin` and `end` (of a writer) are what stores do; `repaired` tells of a torn end that was cut off. `synced` is the
offset up to which the segment was known to be on the disk when the line was written: bytes behind it that are no line were
left by a power cut, and the line with them.

Erasing a value later needs no other form. A line of `op` "erase" is stored first and names segment and offset of the
line, the places of each salt and body in it, and the crc that it will have. Then, in place and at the same length, the
salt becomes `null` and the body `""`, each followed by spaces, which JSON allows there; and the crc is overwritten. A
reader that meets a line with a wrong crc between the two finishes in memory what the erase line says; the next writer
does it in the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.ids import LogId
from agentos.persistence.base import (
    ComponentRow,
    EntryRow,
    InboxRow,
    LogRow,
    MessageRow,
    PayloadRow,
    StoredEntry,
    Unit,
    WakeupRow,
)
from agentos.persistence.rows import message_payload

LINE_BYTES_MAX = 256 * 1024 * 1024
"""How long a line may be; far beyond what the limits of the kernel let into one unit."""
MARK = b'{"crc":"'
"""How each line begins. Inside a line it cannot stand: a quotation mark in a text is escaped."""

_BODY = len(MARK) + 10  # eight digits, the closing quotation mark and a comma


class Line(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="op", gc=False):
    """What all lines may have."""

    synced: int = 0


class Segment(Line, kw_only=True, tag="segment"):
    store: str
    number: int


class Continued(Line, kw_only=True, tag="continued"):
    number: int


class Begin(Line, kw_only=True, tag="begin"):
    """Times are microseconds, UTC."""

    writer: int
    incarnation: str
    host: str
    pid: int
    at: int


class End(Line, kw_only=True, tag="end"):
    writer: int
    at: int


class Post(Line, kw_only=True, tag="post"):
    log: str
    key: str
    kind: str
    salt: bytes
    body: str

    def row(self) -> InboxRow:
        return InboxRow(log=self.log, key=self.key, kind=self.kind, salt=self.salt, body=self.body)


class Claim(Line, kw_only=True, tag="claim"):
    """The head that was claimed, too."""

    log: str
    owner: int
    epoch: int
    seq: int
    digest: bytes


class Repaired(Line, kw_only=True, tag="repaired"):
    """So many bytes at this offset were no whole line."""

    offset: int
    bytes: int
    at: int


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    seq: int
    unit: int
    kind: str
    turn: int = 0
    call: int = 0
    at: int
    head: msgspec.Raw
    digest: bytes


class Payload(msgspec.Struct, kw_only=True, gc=False):
    seq: int
    i: int
    name: str
    salt: bytes | None
    body: str | None


class Message(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    seq: int
    role: str
    turn: int = 0
    call: int = 0
    salt: bytes | None
    text: str | None


class Head(Line, kw_only=True, tag="unit"):
    """Where a unit stands in its log, and what it changes beside it."""

    log: LogId
    seq: int
    digest: bytes
    previous_seq: int
    previous: bytes
    owner: int
    epoch: int
    create: LogRow | None = None
    snapshots: tuple[int, ...] = ()
    conversation: tuple[Any, ...] | None = None
    turns: Sequence[tuple[Any, ...]] = ()
    posts: Sequence[InboxRow] = ()
    taken: Sequence[str] = ()
    wakeups: Sequence[WakeupRow] = ()
    woken: Sequence[WakeupRow] = ()


class Whole(Head, kw_only=True, tag="unit"):
    """A unit with all that it has."""

    entries: Sequence[Entry]
    messages: Sequence[Message] = ()
    payloads: Sequence[Payload] = ()
    calls: Sequence[tuple[Any, ...]] = ()
    components: Sequence[ComponentRow] = ()
    resolved: Sequence[tuple[int, str]] = ()
    definitions: Sequence[tuple[str, str, str]] = ()


class Spoken(msgspec.Struct, gc=False):
    seq: int
    role: str


class Brief(Head, kw_only=True, tag="unit"):
    """A unit without its texts, quicker to read."""

    messages: Sequence[Spoken] = ()
    definitions: Sequence[tuple[str, str, msgspec.Raw]] = ()


_Other = Segment | Continued | Begin | End | Post | Claim | Repaired
AnyBrief = Brief | _Other
AnyWhole = Whole | _Other

_encode = msgspec.json.Encoder().encode
_decode_brief = msgspec.json.Decoder(AnyBrief).decode
_decode_whole = msgspec.json.Decoder(AnyWhole).decode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_decode_text = msgspec.json.Decoder(str).decode


def encode_line(line: Line) -> bytes:
    """The line with its newline."""
    body = _encode(line)[1:]
    return b'%b%08x",%b\n' % (MARK, zlib.crc32(body), body)


def is_whole(line: bytes) -> bool:
    """Whether a line, without its newline, is as it was written."""
    return line.startswith(MARK) and line[len(MARK) : _BODY] == b'%08x",' % zlib.crc32(line[_BODY:])


def decode_brief(line: bytes) -> AnyBrief:
    """Raises msgspec.MsgspecError for what this program does not know."""
    return _decode_brief(line)


def decode_whole(line: bytes) -> AnyWhole:
    """Raises msgspec.MsgspecError for what this program does not know."""
    return _decode_whole(line)


def line_of(unit: Unit) -> Whole:
    """The line that says what a unit does."""
    return Whole(
        log=unit.log,
        seq=unit.seq,
        digest=unit.digest,
        previous_seq=unit.previous_seq,
        previous=unit.previous,
        owner=unit.owner,
        epoch=unit.epoch,
        create=unit.create,
        snapshots=tuple(row[0] for row in unit.entries if row[2] == "snapshot"),
        conversation=unit.conversation,
        turns=unit.turns or (),
        posts=unit.posts or (),
        taken=unit.taken or (),
        wakeups=unit.wakeups or (),
        woken=unit.woken or (),
        entries=[_entry(row) for row in unit.entries],
        messages=[_message(row) for row in unit.messages] or (),
        payloads=[_payload(row) for row in unit.payloads] or (),
        calls=unit.calls or (),
        components=unit.components or (),
        resolved=unit.resolved or (),
        definitions=unit.definitions or (),
    )


def unit_of(line: Whole) -> Unit:
    """The unit that a line tells of."""
    return Unit(
        log=line.log,
        owner=line.owner,
        epoch=line.epoch,
        previous_seq=line.previous_seq,
        previous=line.previous,
        seq=line.seq,
        digest=line.digest,
        entries=[_entry_row(entry) for entry in line.entries],
        payloads=[(value.seq, value.i, value.name, value.salt, value.body) for value in line.payloads],
        messages=[(said.seq, said.role, said.turn, said.call, said.salt, said.text) for said in line.messages],
        conversation=line.conversation,
        turns=line.turns,
        calls=line.calls,
        components=line.components,
        resolved=line.resolved,
        posts=line.posts,
        taken=line.taken,
        wakeups=line.wakeups,
        woken=line.woken,
        definitions=line.definitions,
        create=line.create,
    )


def stored_entries(line: Whole) -> list[StoredEntry]:
    """The entries of a unit as they are read."""
    payloads: dict[int, list[tuple[int, str, bytes | None, str | None]]] = {}
    for said in line.messages:
        payloads.setdefault(said.seq, []).append((0, message_payload(said.role), said.salt, said.text))
    for value in line.payloads:
        payloads.setdefault(value.seq, []).append((value.i, value.name, value.salt, value.body))
    return [
        StoredEntry(
            seq=entry.seq,
            unit=entry.unit,
            kind=entry.kind,
            head=_head_text(entry.head),
            digest=entry.digest,
            payloads=payloads.get(entry.seq, []),
        )
        for entry in line.entries
    ]


def _entry(row: EntryRow) -> Entry:
    seq, unit, kind, turn, call, at, head, digest = row
    return Entry(seq=seq, unit=unit, kind=kind, turn=turn, call=call, at=at, head=_raw_head(head), digest=digest)


def _entry_row(entry: Entry) -> EntryRow:
    head = _head_text(entry.head)
    return entry.seq, entry.unit, entry.kind, entry.turn, entry.call, entry.at, head, entry.digest


def _payload(row: PayloadRow) -> Payload:
    seq, i, name, salt, body = row
    return Payload(seq=seq, i=i, name=name, salt=salt, body=body)


def _message(row: MessageRow) -> Message:
    seq, role, turn, call, salt, text = row
    return Message(seq=seq, role=role, turn=turn, call=call, salt=salt, text=text)


def _raw_head(head: str) -> msgspec.Raw:
    """A head that is an object on one line stands as it is."""
    if head.startswith("{") and head.endswith("}") and "\n" not in head and _is_json(head):
        return msgspec.Raw(head.encode())
    return msgspec.Raw(_encode(head))


def _is_json(text: str) -> bool:
    try:
        _check_json(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _head_text(head: msgspec.Raw) -> str:
    data = bytes(head)
    return data.decode() if data.startswith(b"{") else _decode_text(data)
