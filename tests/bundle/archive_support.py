"""Archives as a forger makes them: bundles with other content, or of another layout, and all digests made anew."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentos.events.entry import seed_digest
from agentos.history.bundle import BundleReader, Manifest, check_bundle
from agentos.history.bundle.container import COMMENT_BYTES, MARK
from agentos.history.bundle.limits import BundleLimits
from agentos.history.bundle.manifest import encode_manifest
from agentos.history.bundle.writing import bundle_file
from agentos.history.heads import digest_of_heads
from agentos.history.report import Report
from agentos.persistence.base import LogRow


def members_of(path: Path) -> dict[str, bytes]:
    """All members, unpacked, in their order."""
    with BundleReader(path) as bundle:
        return {member.name: b"".join(bundle.chunks(member)) for member in bundle.members.values()}


def manifest_of(path: Path) -> Manifest:
    with BundleReader(path) as bundle:
        return bundle.manifest


def checked(path: Path, **options: Any) -> Report:
    with BundleReader(path) as bundle:
        return check_bundle(bundle, **options)


def found_in(path: Path) -> list[tuple[str, int, str, str]]:
    """log, seq, table and field of each difference."""
    return [(one.log, one.seq, one.table, one.field) for one in checked(path).differences]


def forged(
    source: Path,
    target: Path,
    edit: Callable[[dict[str, bytes]], object],
    edit_manifest: Callable[[dict[str, Any]], object] = lambda _: None,
) -> Path:
    """A bundle of other content, with the sizes, counts and digests of all members right, and that of the archive.

    edit changes members in place; edit_manifest what the manifest says then, as plain values.
    """
    members = members_of(source)
    manifest: dict[str, Any] = json.loads(members.pop("manifest.json"))
    edit(members)
    for part in (*manifest["logs"], *manifest["definitions"], *manifest["files"]):
        content = members.get(part.get("file") or "")
        if content is not None:
            part["bytes"] = len(content)
            if "sha256" in part:
                part["sha256"] = hashlib.sha256(content).hexdigest()
            if "entries" in part:
                part["entries"] = content.count(b"\n")
    edit_manifest(manifest)
    with bundle_file(target, BundleLimits(), force=True) as writer:
        for name, content in members.items():
            writer.add(name, content)
        writer.finish(encode_manifest(msgspec.convert(manifest, Manifest)))
    return target


def edit_lines(name: str, edit: Callable[[list[dict[str, Any]]], object]) -> Callable[[dict[str, bytes]], None]:
    """Edits the lines of a log in place, as plain values."""

    def apply(members: dict[str, bytes]) -> None:
        lines = [json.loads(line) for line in members[name].splitlines()]
        edit(lines)
        members[name] = b"".join(msgspec.json.encode(line, order="sorted") + b"\n" for line in lines)

    return apply


def reheaded(
    source: Path,
    target: Path,
    log: str,
    edit: Callable[[str], str],
    say: Callable[[dict[str, Any]], object] = lambda _: None,
) -> Path:
    """A bundle with other heads of a log that is no fork, and all digests made anew, as whoever made the bundle could; say
    edits what the manifest says of that log."""
    file = next(part.file for part in manifest_of(source).logs if part.id == log)
    digest = seed_digest(log)

    def chain(lines: list[dict[str, Any]]) -> None:
        nonlocal digest
        for line in lines:
            line["head"] = edit(line["head"])
            digest = hashlib.sha256(digest + line["head"].encode()).digest()
            line["digest"] = digest.hex()

    def finish(manifest: dict[str, Any]) -> None:
        for one in (one for one in manifest["logs"] if one["id"] == log):
            one["digest"] = digest.hex()
            say(one)
        manifest["heads"] = digest_of_heads(
            LogRow(id=one["id"], kind="", owner=0, epoch=0, seq=one["seq"], digest=bytes.fromhex(one["digest"]))
            for one in manifest["logs"]
        )

    return forged(source, target, edit_lines(file, chain), finish)


class Raw(msgspec.Struct, kw_only=True):
    """One member as it is to stand in an archive. central and local have other values for fields of the two headers:
    version, flags, method, time, date, crc, packed, unpacked; made_by, disk, internal, external, offset; name, extra,
    comment."""

    name: bytes
    data: bytes
    method: int = 8
    local: Mapping[str, Any] = {}
    central: Mapping[str, Any] = {}

    def packed(self) -> bytes:
        if self.method != 8:
            return self.data
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        return deflate.compress(self.data) + deflate.flush()


def raws_of(path: Path) -> list[Raw]:
    return [Raw(name=name.encode(), data=data) for name, data in members_of(path).items()]


def archive(
    path: Path,
    raws: Sequence[Raw],
    *,
    before: bytes = b"",
    between: bytes = b"",
    behind: bytes = b"",
    end: Mapping[str, int] | None = None,
    comment: bytes | None = None,
) -> Path:
    """Writes an archive of these members; all that is not said otherwise is as a bundle has it, the digest in the comment
    too. between stands before the directory, behind after the comment."""
    body, directory = bytearray(before), bytearray()
    for raw in raws:
        packed = raw.packed()
        fields: dict[str, Any] = {
            "made_by": 3 << 8 | 20,
            "version": 20,
            "flags": 0,
            "method": raw.method,
            "time": 0,
            "date": 33,
            "crc": zlib.crc32(raw.data),
            "packed": len(packed),
            "unpacked": len(raw.data),
            "name": raw.name,
            "extra": b"",
            "comment": b"",
            "disk": 0,
            "internal": 0,
            "external": 0o100600 << 16,
            "offset": len(body),
        }
        directory += _central({**fields, **raw.central})
        body += _local({**fields, **raw.local}) + packed
    body += between
    place = {"disk": 0, "here": len(raws), "all": len(raws), "size": len(directory), "offset": len(body), **(end or {})}
    body += directory
    size = COMMENT_BYTES if comment is None else len(comment)
    body += b"PK\x05\x06" + struct.pack(
        "<4H2IH", place["disk"], 0, *(place[k] for k in ("here", "all", "size", "offset")), size
    )
    body += MARK + hashlib.sha256(body).hexdigest().encode() if comment is None else comment
    path.write_bytes(bytes(body) + behind)
    return path


def _local(f: Mapping[str, Any]) -> bytes:
    name: bytes = f["name"]
    numbers = [f[k] for k in ("version", "flags", "method", "time", "date", "crc", "packed", "unpacked")]
    return b"PK\x03\x04" + struct.pack("<5H3I2H", *numbers, len(name), len(f["extra"])) + name + bytes(f["extra"])


def _central(f: Mapping[str, Any]) -> bytes:
    name: bytes = f["name"]
    numbers = [f[k] for k in ("made_by", "version", "flags", "method", "time", "date", "crc", "packed", "unpacked")]
    sizes = [len(name), len(f["extra"]), len(f["comment"])]
    more = [f["disk"], f["internal"], f["external"], f["offset"]]
    return b"PK\x01\x02" + struct.pack("<6H3I5H2I", *numbers, *sizes, *more) + name + bytes(f["extra"] + f["comment"])


class OneId:
    """Gives one id, again and again: that of a conversation which others have too."""

    def __init__(self, id_: str) -> None:
        self._id = id_

    def new(self, _kind: object) -> str:
        return self._id
