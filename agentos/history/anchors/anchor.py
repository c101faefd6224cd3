"""An anchor: where every log of a store ended at one moment, as one line of a file that is kept apart from the store.

    {"anchor":{"at":...,"format":1,"heads":"...","moved":[["conversation_...",24,"5f...",1]],...},"digest":"...","mac":"..."}

Each anchor names the heads that moved since the one before, so that a file grows with the work and not with the store. Its
digest is sha256 of the digest before and the bytes between `"anchor":` and its last brace, so that no line can be edited,
taken out or put in without all later ones; mac, where a key was given, proves that digest and so all lines up to there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec

from agentos.history.anchors.keys import AnchorKey

FORMAT = 1
SEED = hashlib.sha256(b"agentos anchors").digest()
"""What the first anchor of a file builds on."""
LOG_CHARS_MAX = 200

_Digits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_KeyId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
_Log = Annotated[str, msgspec.Meta(min_length=1, max_length=LOG_CHARS_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class AnchoredHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The end of one log: the seq and the digest of its last entry. A list of four in JSON."""

    log: _Log
    seq: _Count
    digest: _Digits
    epoch: _Count


class Anchor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A store at one moment; n counts the anchors of a file from 1, at is in microseconds, UTC.

    logs and entries are counted over the whole store, heads is `digest_of_heads` of it, writer the highest number that a
    writer had, schema the version of the tables. moved are the heads that are not as the anchors before have them. key_id
    names the key of the proof beside it, which rotates with each anchor that names another.
    """

    n: Annotated[int, msgspec.Meta(ge=1)]
    format: int
    at: _Count
    schema: _Count
    logs: _Count
    entries: _Count
    heads: _Digits
    writer: _Count
    moved: tuple[AnchoredHead, ...]
    key_id: _KeyId | None = None

    def __str__(self) -> str:
        try:
            return f"anchor {self.n} of {datetime.fromtimestamp(self.at // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
        except (OverflowError, ValueError):
            return f"anchor {self.n}"


class Record(NamedTuple):
    """An anchor as it stands in a file, with its own digest and proof."""

    anchor: Anchor
    digest: bytes
    mac: str | None


class Point(NamedTuple):
    """Where a log ended when the n'th anchor was made."""

    seq: int
    digest: bytes
    n: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    anchor: msgspec.Raw
    digest: _Digits
    mac: _Digits | None = None


class Anchors:
    """The anchors of one file, in order, and what they come to. heads are the last ones, points all of each log."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.heads: dict[str, AnchoredHead] = {}
        self.points: dict[str, list[Point]] = {}

    @property
    def digest(self) -> bytes:
        """What the next anchor builds on."""
        return self.records[-1].digest if self.records else SEED

    @property
    def last(self) -> Record:
        return self.records[-1]

    def take(self, record: Record) -> None:
        self.records.append(record)
        for head in record.anchor.moved:
            self.heads[head.log] = head
            point = Point(head.seq, bytes.fromhex(head.digest), record.anchor.n)
            self.points.setdefault(head.log, []).append(point)

    def named(self, n: int) -> str:
        """An anchor of this file for people."""
        return str(self.records[n - 1].anchor)


def decode_line(line: bytes, before: Anchors) -> Record:
    """The next anchor of a file. Raises ValueError, which says what is wrong with the line."""
    try:
        found = _decode_line(line)
        anchor = _decode_anchor(found.anchor)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no anchor: {error}") from None
    digest = digest_after(before.digest, bytes(found.anchor))
    if anchor.format != FORMAT:
        raise ValueError(f"it has format {anchor.format}; this program reads format {FORMAT}")
    if digest.hex() != found.digest:
        raise ValueError("its digest is that of another content, or of another line before it")
    if anchor.n != len(before.records) + 1:
        raise ValueError(f"it is anchor {anchor.n}, and anchor {len(before.records) + 1} should stand here")
    if (anchor.key_id is None) != (found.mac is None):
        raise ValueError("it has a key_id without a proof (mac), or a proof without a key_id")
    return Record(anchor, digest, found.mac)


def encode_line(anchor: Anchor, before: Anchors, key: AnchorKey | None) -> tuple[bytes, Record]:
    """The line of the next anchor, with its line break."""
    content = _encode(anchor)
    digest = digest_after(before.digest, content)
    mac = key.proof(digest) if key is not None else None
    line = _encode(_Line(msgspec.Raw(content), digest.hex(), mac))
    return line + b"\n", Record(anchor, digest, mac)


def digest_after(previous: bytes, content: bytes) -> bytes:
    return hashlib.sha256(previous + content).digest()


def moved_since(heads: Iterable[AnchoredHead], known: Mapping[str, AnchoredHead]) -> Sequence[AnchoredHead]:
    """The heads that are new or not where they were."""
    return [head for head in heads if known.get(head.log) != head]


_encode = msgspec.json.Encoder(order="sorted").encode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_anchor = msgspec.json.Decoder(Anchor).decode
