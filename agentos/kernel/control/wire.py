"""What goes over a control socket: lines of JSON, each an object. Values take the one way to bytes (`agentos.codec`).

The kernel begins with a greeting. From then on a client sends `{"id": 1, "word": "send", "given": {...}}`, with numbers of
its own, as many at once as it likes. Each gets any number of `{"id": 1, "item": ...}` and one end: `{"id": 1, "value": ...}`
or `{"id": 1, "error": {...}}`. The word `drop` gives up an open request, `ping` is answered at once.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from agentos import codec
from agentos.components import Component
from agentos.errors import CodecError
from agentos.events.entry import ERASED, Entry, Head, RawComponent, RawData, Registry, entry_of
from agentos.events.model import ModelDelta
from agentos.ids import LogId
from agentos.kernel.watch import StreamGap, Watched

PROTOCOL = 1
T = TypeVar("T")


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """Who listens: its version of this protocol, the number of its writer, its process, the store without a password."""

    agentos: int
    writer: int
    pid: int
    store: str


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int
    word: str
    given: dict[str, Any] = {}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item of an answer, or its end: a value or an error. id 0 is about the connection as a whole."""

    id: int
    item: Any = msgspec.UNSET
    value: Any = msgspec.UNSET
    error: dict[str, Any] | None = None


def line_of(value: msgspec.Struct) -> bytes:
    """One line. Raises CodecError for a value that has no JSON form."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__}
    plain = {
        name: as_plain(field) for name, field in fields.items() if field is not msgspec.UNSET and field is not None
    }
    return codec.encode_json(plain).encode() + b"\n"


def read_line(line: bytes, type_: type[T]) -> T:
    """What a line says. Raises CodecError when it is no such thing."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise CodecError("a line is no UTF-8") from error
    return codec.convert(codec.decode_json(text), type_)


def as_plain(value: Any) -> Any:
    """Structs and what is made of them as plain values; entries, deltas and gaps as `as_watched` reads them."""
    if isinstance(value, Entry):
        return _plain_entry(value)
    if isinstance(value, ModelDelta):
        return {"delta": msgspec.to_builtins(value)}
    if isinstance(value, StreamGap):
        return {"gap": msgspec.to_builtins(value)}
    if isinstance(value, dict):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(inner) for inner in value]
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, builtin_types=(bytes,))
    return value


def as_watched(plain: Any, registry: Registry) -> Watched:
    """An entry, a delta or a gap. Raises CodecError."""
    if not isinstance(plain, dict):
        raise CodecError("what is watched comes as objects")
    if "delta" in plain:
        return codec.convert(plain["delta"], ModelDelta)
    if "gap" in plain:
        return codec.convert(plain["gap"], StreamGap)
    return as_entry(plain, registry)


class _PlainEntry(msgspec.Struct):
    """private has a name and a value each, or the name alone of one that is erased."""

    log: LogId
    head: Head
    private: list[list[Any]]


def as_entry(plain: Any, registry: Registry) -> Entry:
    """Raises CodecError."""
    read = codec.convert(plain, _PlainEntry)
    entry = entry_of(read.log, read.head, {}, registry)
    entry.private = tuple((str(name), value[0] if value else ERASED) for name, *value in read.private)
    return entry


def _plain_entry(entry: Entry) -> dict[str, Any]:
    data = entry.data
    head = Head(
        at=entry.at,
        kind=data.name if isinstance(data, RawData) else data.kind,
        seq=entry.seq,
        unit=entry.unit,
        writer=entry.writer,
        by=entry.by,
        call=entry.call,
        cause=entry.cause,
        changes=[(entity, *_plain_component(component)) for entity, component in entry.changes],
        data=msgspec.json.decode(data.value) if isinstance(data, RawData) else msgspec.to_builtins(data),
        turn=entry.turn,
    )
    private = [[name] if value is ERASED else [name, value] for name, value in entry.private]
    return {"log": entry.log, "head": msgspec.to_builtins(head), "private": private}


def _plain_component(component: Component) -> tuple[str, Any]:
    if isinstance(component, RawComponent):
        return component.name, msgspec.json.decode(component.value)
    return component.component, msgspec.to_builtins(component)
