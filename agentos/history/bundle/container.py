"""The ZIP that a bundle is: one layout, byte for byte, so that whatever else a ZIP could be is seen and refused.

    manifest.json, then all other members by name     each: local header, data
    the central directory                             the same members in the same order
    the end record                                    with a comment of fixed length: MARK and 64 hexadecimal digits,
                                                      the sha256 of all bytes before the comment

Headers have a fixed time and mode, and neither flags nor extra fields; members touch one another. So every header follows
from name, method, checksum, sizes and place, and a reader compares it whole: prepended and trailing bytes, overlaps, gaps,
zip64, encryption, links, and a local header that says another thing than the central one are all something else than that.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from agentos.history.bundle.limits import ZIP_BYTES_MAX, BundleLimits

MARK = b"agentos bundle 1 sha256 "
COMMENT_BYTES = len(MARK) + 64
STORED, DEFLATED = 0, 8
MANIFEST = "manifest.json"
NAMES = re.compile(
    r"manifest\.json|README\.txt|index\.html|spans\.json|logs/[0-9]{5}\.jsonl|definitions/[0-9a-f]{64}\.json"
)
"""All names that a member can have. None of them leads out of a folder, and no two differ in case alone."""
NAME_BYTES_MAX = 96
SHOWN_CHARS = 60

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
TAIL_BYTES = _END.size + COMMENT_BYTES
_VERSION = 20
_MADE_BY = 3 << 8 | _VERSION
_DATE = 1 << 5 | 1
"""1980-01-01, the first day of all ZIPs."""
_MODE = 0o100600 << 16
_ENCRYPTED = 0x41
_KINDS = {
    0o120000: "a symbolic link",
    0o040000: "a directory",
    0o020000: "a device",
    0o060000: "a device",
    0o010000: "a pipe",
    0o140000: "a socket",
}


class Refused(ValueError):
    """What a bundle may not be; the text says why."""


class Member(NamedTuple):
    """One file of a bundle. packed and unpacked are sizes in bytes; offset is that of its local header."""

    name: str
    method: int
    crc: int
    packed: int
    unpacked: int
    offset: int

    @property
    def data_offset(self) -> int:
        return self.offset + _LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        return self.data_offset + self.packed


class Tail(NamedTuple):
    """The end of a bundle: how many members, where their directory stands, and the digest in the comment."""

    members: int
    bytes: int
    offset: int
    digest: str


def local_header(member: Member) -> bytes:
    name = member.name.encode("ascii")
    fields = (_VERSION, 0, member.method, 0, _DATE, member.crc, member.packed, member.unpacked, len(name), 0)
    return _LOCAL.pack(b"PK\x03\x04", *fields) + name


def central_header(member: Member) -> bytes:
    name = member.name.encode("ascii")
    sizes = (member.crc, member.packed, member.unpacked)
    fields = (_MADE_BY, _VERSION, 0, member.method, 0, _DATE, *sizes, len(name), 0, 0, 0, 0, _MODE, member.offset)
    return _CENTRAL.pack(b"PK\x01\x02", *fields) + name


def end_record(count: int, size: int, offset: int) -> bytes:
    """All that stands before the comment."""
    return _END.pack(b"PK\x05\x06", 0, 0, count, count, size, offset, COMMENT_BYTES)


def comment(digest: str) -> bytes:
    return MARK + digest.encode("ascii")


def looks_like_bundle(begin: bytes, end: bytes) -> bool:
    """Whether a file begins like a ZIP, or ends like a bundle; one flipped byte leaves one of the two."""
    return begin.startswith(b"PK\x03\x04") or MARK in end[-COMMENT_BYTES:]


def parse_tail(tail: bytes, file_bytes: int, limits: BundleLimits) -> Tail:
    """The end of a file of this size, from its last TAIL_BYTES bytes. Raises Refused."""
    if len(tail) < TAIL_BYTES or tail[:4] != b"PK\x05\x06" or not tail[_END.size :].startswith(MARK):
        raise Refused("it does not end as a bundle does: it was cut off or added to, or is something else")
    _, disk, disk_of_directory, count_here, count, size, offset, _ = _END.unpack(tail[: _END.size])
    if 0xFFFF in (count, count_here, disk, disk_of_directory) or 0xFFFFFFFF in (size, offset):
        raise Refused("it is a zip64 archive; a bundle has none of that")
    if count > limits.bundle_files_max:
        raise Refused(f"it has {count:,} members, of {limits.bundle_files_max:,} (bundle_files_max)")
    if tail[: _END.size] != end_record(count, size, offset) or offset + size + TAIL_BYTES != file_bytes:
        raise Refused("its end record is not that of this file: bytes were put before, between or behind")
    if size > count * (_CENTRAL.size + NAME_BYTES_MAX):
        raise Refused(f"its directory of {count:,} members has {size:,} bytes")
    try:
        digest = tail[_END.size + len(MARK) :].decode("ascii")
    except UnicodeDecodeError:
        digest = ""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise Refused("its comment holds no digest")
    return Tail(count, size, offset, digest)


def parse_directory(directory: bytes, tail: Tail, limits: BundleLimits) -> list[Member]:
    """The members, in order, each found to be one that a bundle may have. Raises Refused before any is read."""
    found: list[Member] = []
    at = unpacked = end = 0
    for _ in range(tail.members):
        member = _member(directory, at)
        _check_order(member.name, found)
        if member.offset != end:
            raise Refused(f"{member.name} stands at byte {member.offset:,} and not at {end:,}: members overlap or gape")
        _check_sizes(member, limits)
        found.append(member)
        end = member.end
        at += _CENTRAL.size + len(member.name)
        unpacked += member.unpacked
        if unpacked > limits.bundle_unpacked_bytes_max:
            most = f"{limits.bundle_unpacked_bytes_max:,} (bundle_unpacked_bytes_max)"
            raise Refused(f"its members come to more than {most} bytes")
    if at != len(directory) or end != tail.offset:
        raise Refused("its directory does not end where it says: bytes were put before, between or behind")
    return found


def _member(directory: bytes, at: int) -> Member:
    """The member whose entry stands there. Raises Refused."""
    if at + _CENTRAL.size > len(directory):
        raise Refused("its directory has fewer members than it says")
    fields = _CENTRAL.unpack_from(directory, at)
    name_bytes = directory[at + _CENTRAL.size : at + _CENTRAL.size + fields[10]]
    name = name_bytes.decode("latin-1")
    if not NAMES.fullmatch(name):
        raise Refused(f"a member is named {ascii(name)[:SHOWN_CHARS]}, and no member of a bundle is")
    if fields[3] & _ENCRYPTED:
        raise Refused(f"{name} is encrypted")
    if fields[4] not in (STORED, DEFLATED):
        raise Refused(f"{name} is packed by method {fields[4]}; a bundle has {STORED} and {DEFLATED} alone")
    kind = fields[15] >> 16 & 0o170000
    if kind in _KINDS or fields[15] & 0x10:
        raise Refused(f"{name} is {_KINDS.get(kind, 'a directory')}")
    if 0xFFFFFFFF in (fields[8], fields[9], fields[16]) or fields[11]:
        raise Refused(f"{name} has extra fields, as zip64 has; a bundle has none")
    member = Member(name, fields[4], fields[7], fields[8], fields[9], fields[16])
    entry = directory[at : at + _CENTRAL.size + fields[10] + fields[12]]
    if entry != central_header(member):
        raise Refused(
            f"the directory's entry of {name} is not as a bundle has it (version, flags, time, mode, comment)"
        )
    return member


def _check_order(name: str, before: list[Member]) -> None:
    if not before:
        if name != MANIFEST:
            raise Refused(f"its first member is {name} and not {MANIFEST}")
    elif name == before[-1].name or name == MANIFEST:
        raise Refused(f"{name} stands in it twice")
    elif len(before) > 1 and name < before[-1].name:
        raise Refused(f"{name} stands behind {before[-1].name}, out of order or twice")


def _check_sizes(member: Member, limits: BundleLimits) -> None:
    name, most = member.name, limits.bundle_member_bytes_max
    if name == MANIFEST:
        most = min(most, limits.bundle_manifest_bytes_max)
    elif name.startswith("definitions/"):
        most = min(most, limits.bundle_definition_bytes_max)
    if member.unpacked > most:
        which = "bundle_member_bytes_max"
        if most != limits.bundle_member_bytes_max:
            which = "bundle_manifest_bytes_max" if name == MANIFEST else "bundle_definition_bytes_max"
        raise Refused(f"{name} has {member.unpacked:,} bytes, of {most:,} ({which})")
    if member.method == STORED and member.packed != member.unpacked:
        raise Refused(f"{name} is not packed, and has {member.packed:,} bytes that become {member.unpacked:,}")
    if member.unpacked > member.packed * limits.bundle_ratio_max:
        ratio = f"{limits.bundle_ratio_max} (bundle_ratio_max)"
        raise Refused(f"{name}: {member.packed:,} bytes become {member.unpacked:,}, more than {ratio} times as many")
    if member.end > ZIP_BYTES_MAX:
        raise Refused(f"{name} ends beyond the file")
