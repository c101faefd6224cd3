"""Units as lines, and lines as units and as the entries that are read of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentos.persistence.base import EntryRow, MessageRow, PayloadRow, StoredEntry, Unit, erased_at
from agentos.persistence.file.blanks import Blank
from agentos.persistence.file.lines import Entry, Message, Payload, Whole
from agentos.persistence.rows import message_payload

_encode = msgspec.json.Encoder().encode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_decode_text = msgspec.json.Decoder(str).decode


def line_of(unit: Unit, blanks: Sequence[Blank] = ()) -> Whole:
    """The line that says what a unit does; blanks are of the lines that lose something by it."""
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
        erases=unit.erases,
        erased_at=erased_at(unit) if unit.erases else 0,
        blanks=blanks or (),
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
        payloads=[(value.seq, value.i, value.name, *_value(value.salt, value.body)) for value in line.payloads],
        messages=[(said.seq, said.role, said.turn, said.call, *_value(said.salt, said.text)) for said in line.messages],
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
        erases=line.erases,
    )


def stored_entries(line: Whole) -> list[StoredEntry]:
    """The entries of a unit as they are read."""
    payloads: dict[int, list[tuple[int, str, bytes | None, str | None]]] = {}
    for said in line.messages:
        payloads.setdefault(said.seq, []).append((0, message_payload(said.role), *_value(said.salt, said.text)))
    for value in line.payloads:
        payloads.setdefault(value.seq, []).append((value.i, value.name, *_value(value.salt, value.body)))
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


def _value(salt: bytes | None, body: str | None) -> tuple[bytes | None, str | None]:
    """Without its salt a body is what an erase has left in its place."""
    return salt, None if salt is None else body


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
