"""Drafts, entries, and the canonical head that the log attests.

A draft is what a system decides; an entry is a draft with its place in a log. Both have the same fields, so one fold
serves a pass, a reload and a replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from agentos import codec
from agentos.components import STORED, Component
from agentos.errors import CodecError
from agentos.events.intake import Item
from agentos.events.kinds import JSON_PAYLOADS, KINDS, EntryData, Snapshot
from agentos.ids import CallId, Digest, LogId, Micros, Name


class Erased:
    """Stands for a private value whose body was erased."""

    def __repr__(self) -> str:
        return "ERASED"


ERASED = Erased()


class RawComponent(Component, frozen=True, kw_only=True):
    """A stored component of a type that this program does not know; it is carried along as it is.

    Each name has a subclass of its own: components are kept by their types, and an entity may have several of these.
    """

    component = "raw"
    name: Name
    value: msgspec.Raw


def raw_component(name: str, value: Any) -> RawComponent:
    """From plain decoded JSON."""
    type_ = _RAW_TYPES.get(name)
    if type_ is None:
        made = msgspec.defstruct(
            "RawComponent", [], bases=(RawComponent,), namespace={"component": name}, frozen=True, kw_only=True
        )
        type_ = _RAW_TYPES[name] = cast(type[RawComponent], made)
    return type_(name=Name(name), value=msgspec.Raw(_encode(value)))


_RAW_TYPES: dict[str, type[RawComponent]] = {}


class RawData(EntryData, frozen=True, kw_only=True):
    """Data of an entry kind that this program does not know."""

    kind = "raw"
    name: Name
    value: msgspec.Raw


Change = tuple[int, Component]
"""An entity of the log (0 the conversation, else the seq of a turn or call) and its new component."""


class Draft(msgspec.Struct, kw_only=True, gc=False):
    """One entry to be: what it says, whose turn and call it is about, the component changes, the private values.

    private is (payload name, value) in order. fed is the intake item that the entry records.
    """

    data: EntryData
    turn: int = 0
    call: int = 0
    changes: tuple[Change, ...] = ()
    private: tuple[tuple[str, Any], ...] = ()
    fed: Item | None = None
    by: Name = Name("")
    cause: CallId | None = None


class Entry(Draft, kw_only=True):
    """A draft that is stored: the seq'th of its log, in the unit that began at `unit`, at that time, by that writer."""

    log: LogId
    seq: int
    unit: int
    at: Micros
    writer: int


class Head(msgspec.Struct, omit_defaults=True, gc=False):
    """The attested part of an entry as it is stored: no type of it is looked at. data and changes are plain values."""

    at: int
    kind: str
    seq: int
    unit: int
    writer: int
    by: str = ""
    call: int = 0
    cause: str | None = None
    changes: Sequence[tuple[int, str, Any]] = ()
    commitments: Sequence[tuple[str, bytes]] = ()
    data: Any = None
    turn: int = 0
    version: int = 1


class _Commitments(msgspec.Struct, gc=False):
    """Of a head, the names of its private values."""

    commitments: Sequence[tuple[str, msgspec.Raw]] = ()


_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(Head).decode
_decode_commitments = msgspec.json.Decoder(_Commitments).decode
_sha256 = hashlib.sha256


def encode_head(
    draft: Draft, seq: int, unit: int, at: int, writer: int, commitments: Sequence[tuple[str, bytes]]
) -> bytes:
    """The canonical bytes of an entry: JSON with sorted keys, defaults left out, no private text."""
    data = draft.data
    changes: list[tuple[int, str, object]] = [(entity, value.component, value) for entity, value in draft.changes]
    if type(data) is Snapshot:  # it alone carries components of types that this program does not know
        changes = [
            (entity, name, value.value if isinstance(value, RawComponent) else value) for entity, name, value in changes
        ]
    said = data if data.__struct_fields__ else None
    return _encode(
        Head(
            at, data.kind, seq, unit, writer, draft.by, draft.call, draft.cause, changes, commitments, said, draft.turn
        )
    )


def seed_digest(log: str) -> bytes:
    """What the chain of a log starts from; it ties every entry to the log's name."""
    return _sha256(b"agentos log " + log.encode()).digest()


def next_digest(previous: bytes, head: bytes) -> bytes:
    return _sha256(previous + head).digest()


def commitment(salt: bytes, body: str) -> bytes:
    return _sha256(salt + body.encode()).digest()


class Registry:
    """The component types that entries may carry, by their key in stored records."""

    def __init__(self, types: Sequence[type[Component]] = STORED) -> None:
        self.types: dict[str, type[Component]] = {}
        for type_ in types:
            self.register(type_)

    def register(self, type_: type[Component]) -> None:
        """Adds a user's component type. Raises CodecError when it could carry private text into a head."""
        codec.check_registrable(type_)
        known = self.types.setdefault(type_.component, type_)
        if known is not type_:
            raise CodecError(f"component {type_.component!r} is registered by {known.__qualname__} already")

    def decode_change(self, entity: int, name: str, value: Any) -> Change:
        type_ = self.types.get(name)
        if type_ is None:
            return entity, raw_component(name, value)
        return entity, codec.convert(value, type_)


def decode_head(head: str | bytes) -> Head:
    """The head as it stands. Raises CodecError."""
    try:
        return _decode(head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CodecError(f"an entry's head is not one: {error}") from error


def decode_entry(log: LogId, head: str | bytes, bodies: Mapping[int, str | None], registry: Registry) -> Entry:
    """An entry from its stored head and bodies (by payload number; None for an erased one). Raises CodecError."""
    return entry_of(log, decode_head(head), bodies, registry)


def entry_of(log: LogId, raw: Head, bodies: Mapping[int, str | None], registry: Registry) -> Entry:
    """An entry from its head as it stands, and its bodies. Raises CodecError."""
    type_ = KINDS.get(raw.kind)
    data = (
        RawData(name=Name(raw.kind), value=msgspec.Raw(_encode(raw.data)))
        if type_ is None
        else codec.convert(raw.data or {}, type_)
    )
    return Entry(
        data=data,
        turn=raw.turn,
        call=raw.call,
        changes=tuple(registry.decode_change(*change) for change in raw.changes),
        private=private_values([name for name, _ in raw.commitments], bodies),
        by=Name(raw.by),
        cause=CallId(raw.cause) if raw.cause else None,
        log=log,
        seq=raw.seq,
        unit=raw.unit,
        at=Micros(raw.at),
        writer=raw.writer,
    )


def bare_entry_of(log: LogId, raw: Head, registry: Registry) -> Entry:
    """An entry without its private values: what a fold looks at. Raises CodecError."""
    types, convert, type_ = registry.types, msgspec.convert, KINDS.get(raw.kind)
    if type_ is None:
        return entry_of(log, raw, {}, registry)
    try:
        data = convert(raw.data or {}, type_)
        changes = [
            (entity, convert(value, types[name]) if name in types else raw_component(name, value))
            for entity, name, value in raw.changes
        ]
    except msgspec.ValidationError as error:
        raise CodecError(f"{raw.kind}: {error}") from error
    return Entry(
        data=data,
        turn=raw.turn,
        call=raw.call,
        changes=tuple(changes),
        by=Name(raw.by),
        cause=CallId(raw.cause) if raw.cause else None,
        log=log,
        seq=raw.seq,
        unit=raw.unit,
        at=Micros(raw.at),
        writer=raw.writer,
    )


def private_values(names: Iterable[str], bodies: Mapping[int, str | None]) -> tuple[tuple[str, Any], ...]:
    """The private values that an entry commits to, in order, from its bodies by number. Raises CodecError."""
    return tuple((name, _value(name, bodies.get(i))) for i, name in enumerate(names))


def decode_private(head: str | bytes, bodies: Mapping[int, str | None]) -> tuple[tuple[str, Any], ...]:
    """The private values of an entry; nothing else of its head is made. Raises CodecError."""
    try:
        committed = _decode_commitments(head).commitments
    except (msgspec.DecodeError, RecursionError) as error:
        raise CodecError(f"an entry's head is not one: {error}") from error
    return private_values([name for name, _ in committed], bodies)


def _value(name: str, body: str | None) -> Any:
    if body is None:
        return ERASED
    return codec.decode_json(body) if name in JSON_PAYLOADS else codec.decode_text(body)


def digest_of(value: object) -> Digest:
    """The digest under which a definition stands: of its canonical body."""
    return digest_of_body(codec.encode_body(value))


def digest_of_body(body: str) -> Digest:
    return Digest(_sha256(body.encode()).hexdigest())


Body = Callable[[int, int], Any]
"""Gives the private value number i of the entry at seq, of the log in hand."""
