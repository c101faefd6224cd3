"""The lines of a segment. Each is one JSON object that says one thing that was done, all of it or nothing.

    {"crc":"5f0e12ab","op":"unit","log":"conversation_...","seq":4,...}

crc is the CRC-32 of the bytes of the line from `"op"` to the last brace, in eight hexadecimal digits. Bytes (salts,
digests) are base64. What has its usual value is left out. A head stands as the JSON object that it is, byte for byte
what its digest was made of; a head that is no such object stands as a JSON string.

op says what was done: `segment` begins each file, `continued` ends it when another follows; `unit`, `post`, `claim`,
`begin` and `end` (of a writer) are what stores do; `repaired` tells of a torn end that was cut off, `blanked` that what
a unit erased is overwritten. `synced` is the offset up to which the segment was known to be on the disk when the line
was written: bytes behind it that are no line were left by a power cut, and the line with them.

A unit that erases names, in `blanks`, each line that loses something: where it stands, where in it the salts and the
texts stand, and the crc that it will have. When the unit is on the disk these are overwritten in place and at the same
length: a salt becomes `null`, a text (and the salt of a post) `""`, each followed by spaces, which JSON allows there.
Whatever part of that was done, the same blank leads to the same line. So a reader that meets a line with a wrong crc
finishes in memory what a unit further on says of it, and the next writer does it in the files; a line `blanked` follows
once that is on the disk.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.ids import LogId
from agentos.persistence.base import ComponentRow, InboxRow, LogRow, WakeupRow
from agentos.persistence.file.blanks import Blank

LINE_BYTES_MAX = 256 * 1024 * 1024
"""How long a line may be; far beyond what the limits of the kernel let into one unit."""
MARK = b'{"crc":"'
"""How each line begins. Inside a line it cannot stand: a quotation mark in a text is escaped."""

_BODY = len(MARK) + 10  # eight digits, the closing quotation mark and a comma


class Line(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="op", gc=False):
    """What all lines may have."""

    synced: int = 0


class Segment(Line, kw_only=True, tag="segment"):
    """together: the lines that came with it are there all or not at all, and with them all that stood before it."""

    store: str
    number: int
    together: bool = False


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


class Blanked(Line, kw_only=True, tag="blanked"):
    """What the unit that ends at seq erased is overwritten."""

    log: str
    seq: int


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
    erases: int = 0
    erased_at: int = 0
    blanks: Sequence[Blank] = ()


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


_Other = Segment | Continued | Begin | End | Post | Claim | Repaired | Blanked
AnyBrief = Brief | _Other
AnyWhole = Whole | _Other

_encode = msgspec.json.Encoder().encode
_decode_brief = msgspec.json.Decoder(AnyBrief).decode
_decode_whole = msgspec.json.Decoder(AnyWhole).decode


def check_sum(line: bytes) -> int:
    """The crc that a line is to have, whatever it has now."""
    return zlib.crc32(line[_BODY:])


def with_check_sum(line: bytearray, crc: int) -> bytes:
    line[len(MARK) : len(MARK) + 8] = b"%08x" % crc
    return bytes(line)


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
