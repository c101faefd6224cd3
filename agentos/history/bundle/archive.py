"""The reader of bundles: a file of a stranger, whose every form but one is refused before anything of it is used.

Nothing is ever written to a disk, whatever names stand in it; nothing is held in memory but the list of members, the
manifest, and one line. What is read is bounded by `BundleLimits`, which name what was too much.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from agentos.errors import BundleDamaged, BundleRefused
from agentos.history.bundle.container import (
    COMMENT_BYTES,
    MANIFEST,
    TAIL_BYTES,
    Member,
    Refused,
    Tail,
    local_header,
    looks_like_bundle,
    parse_directory,
    parse_tail,
)
from agentos.history.bundle.limits import BundleLimits
from agentos.history.bundle.lines import decode_line
from agentos.history.bundle.manifest import DefinitionPart, LogPart, Manifest, decode_manifest
from agentos.history.bundle.unpacking import CHUNK_BYTES, Unpacking
from agentos.persistence.base import StoredEntry
from agentos.persistence.sizes import size_of_entry

T = TypeVar("T")

HASHED_BYTES = 1024 * 1024


class BundleReader:
    """A bundle, open for reading.

        with BundleReader(path) as bundle:
            for part in bundle.manifest.logs:
                for unit in bundle.units(part):
                    ...
            for definition in bundle.manifest.definitions:
                body = bundle.definition(definition)

    Once it is open, the archive has the one layout that it may have, members and manifest name each other, and all sizes
    are within limits. digest is the sha256 of the file but for its comment, whole tells whether that is the one in the
    comment. What the members say is not looked at yet: `check_bundle` does, and nothing of a bundle is to be used before
    it found no difference. Streams check their member on the way, so that its end has to be reached.

    Errors: BundleRefused for what is no bundle or over a limit; OSError.
    """

    def __init__(self, path: Path, limits: BundleLimits | None = None) -> None:
        self.path, self.limits = path, limits or BundleLimits()
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.bytes, tail = self._begin()
            self.digest = self._hash(self.bytes - COMMENT_BYTES)
            self.whole = self.digest == tail.digest
            self.members = {member.name: member for member in self._members(tail)}
            self.manifest: Manifest = self._manifest()
            self._check_members()
        except BaseException:
            self.close()
            raise

    def entries(self, part: LogPart) -> Iterator[StoredEntry]:
        """The entries of a log in order, each as it stands in the store. Raises BundleDamaged, which names the line."""
        count = 0
        for line in self._lines(self.members[part.file], part.sha256):
            count += 1
            if count > part.entries:
                break
            try:
                yield decode_line(line)
            except ValueError as error:
                raise self._damaged(part.file, count, str(error)) from None
        if count != part.entries:
            lines = f"{count:,} lines or more" if count > part.entries else f"{count:,} lines"
            raise self._damaged(part.file, 0, f"it has {lines}, and {part.entries:,} are said")

    def units(self, part: LogPart) -> Iterator[list[StoredEntry]]:
        """The same, unit by unit. Raises BundleDamaged; also for a unit without end, beyond bundle_unit_entries_max or
        bundle_unit_bytes_max."""
        held: list[StoredEntry] = []
        size = 0
        for entry in self.entries(part):
            if held and entry.unit != held[0].unit:
                yield held
                held, size = [], 0
            size += size_of_entry(entry)
            if len(held) >= self.limits.bundle_unit_entries_max:
                most = f"{self.limits.bundle_unit_entries_max:,} (bundle_unit_entries_max)"
                raise self._damaged(part.file, 0, f"unit {entry.unit} has more than {most} entries")
            if size > self.limits.bundle_unit_bytes_max:
                most = f"{self.limits.bundle_unit_bytes_max:,} (bundle_unit_bytes_max)"
                raise self._damaged(part.file, 0, f"unit {entry.unit} has more than {most} bytes")
            held.append(entry)
        if held:
            yield held

    def definition(self, part: DefinitionPart) -> str | None:
        """The body of a definition, which has its digest; None where it was left out. Raises BundleDamaged."""
        if part.file is None:
            return None
        body = b"".join(self.chunks(self.members[part.file], part.digest))
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise self._damaged(part.file, 0, "it is not text") from None

    def check_member(self, name: str, sha256: str) -> None:
        """Reads a member through. Raises BundleDamaged."""
        for _ in self.chunks(self.members[name], sha256):
            pass

    def chunks(self, member: Member, sha256: str | None = None) -> Iterator[bytes]:
        """A member, unpacked, some 64 KiB at a time. Raises BundleDamaged, at the latest at its end."""
        found, unpacking, at = hashlib.sha256(), Unpacking(member), member.data_offset
        try:
            while at < member.end:
                packed = self._read(at, min(CHUNK_BYTES, member.end - at))
                if not packed:
                    raise Refused("the file became shorter while it was read")
                at += len(packed)
                for chunk in unpacking.take(packed):
                    found.update(chunk)
                    yield chunk
            unpacking.end()
        except Refused as refused:
            raise self._damaged(member.name, 0, str(refused)) from None
        if sha256 is not None and found.hexdigest() != sha256:
            raise self._damaged(member.name, 0, f"it has digest {found.hexdigest()[:16]}, and {sha256[:16]} is said")

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> tuple[int, Tail]:
        """The size of the file, and what its end says."""
        facts = os.fstat(self._fd)
        if not stat.S_ISREG(facts.st_mode):
            raise BundleRefused(str(self.path), "it is not a regular file")
        if facts.st_size > self.limits.bundle_bytes_max:
            most = f"{self.limits.bundle_bytes_max:,} (bundle_bytes_max)"
            raise BundleRefused(str(self.path), f"it has {facts.st_size:,} bytes, of {most}")
        place = max(0, facts.st_size - TAIL_BYTES)
        return facts.st_size, self._parsed(lambda: parse_tail(self._read(place), facts.st_size, self.limits))

    def _members(self, tail: Tail) -> list[Member]:
        """The members; each local header was found to say what the directory says."""
        found = self._parsed(lambda: parse_directory(self._read(tail.offset, tail.bytes), tail, self.limits))
        for member in found:
            header = local_header(member)
            if self._read(member.offset, len(header)) != header:
                raise BundleRefused(
                    str(self.path), f"{member.name} says another thing of itself than the directory does"
                )
        return found

    def _manifest(self) -> Manifest:
        if MANIFEST not in self.members:
            raise BundleRefused(str(self.path), f"it has no {MANIFEST}")
        raw = b"".join(self.chunks(self.members[MANIFEST]))
        return self._parsed(lambda: decode_manifest(raw))

    def _check_members(self) -> None:
        """All that the manifest names is there, and nothing beside it."""
        named = {name: size for name, size, _ in self.manifest.parts()}
        for name in (*named, *self.members):
            if name not in self.members:
                raise BundleRefused(str(self.path), f"{MANIFEST} names {name!a}, which is not there")
            if name not in named and name != MANIFEST:
                raise BundleRefused(str(self.path), f"{name} is there, and {MANIFEST} does not name it")
        for name, size in named.items():
            if self.members[name].unpacked != size:
                raise BundleRefused(
                    str(self.path), f"{name} has {self.members[name].unpacked:,} bytes, and {size:,} are said"
                )

        for log in self.manifest.logs:
            if log.entries > self.limits.bundle_log_entries_max:
                most = f"{self.limits.bundle_log_entries_max:,} (bundle_log_entries_max)"
                raise BundleRefused(str(self.path), f"{log.file} has {log.entries:,} entries, of {most}")

    def _lines(self, member: Member, sha256: str) -> Iterator[bytes]:
        """Each without its break. Raises BundleDamaged."""
        held: list[bytes] = []
        size, count = 0, 1
        for chunk in self.chunks(member, sha256):
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                self._check_line(member, count, size + len(piece))
                yield b"".join((*held, piece))
                held, size, count = [], 0, count + 1
            held.append(rest)
            size += len(rest)
            self._check_line(member, count, size)
        if size:
            raise self._damaged(member.name, count, "it has no end")

    def _check_line(self, member: Member, count: int, size: int) -> None:
        if size > self.limits.bundle_line_bytes_max:
            most = f"{self.limits.bundle_line_bytes_max:,} (bundle_line_bytes_max)"
            raise self._damaged(member.name, count, f"it has more than {most} bytes")

    def _parsed(self, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except ValueError as error:
            raise BundleRefused(str(self.path), str(error)) from None

    def _hash(self, end: int) -> str:
        found, at = hashlib.sha256(), 0
        while at < end:
            chunk = self._read(at, min(HASHED_BYTES, end - at))
            if not chunk:
                raise BundleRefused(str(self.path), "it became shorter while it was read")
            found.update(chunk)
            at += len(chunk)
        return found.hexdigest()

    def _read(self, at: int, size: int = TAIL_BYTES) -> bytes:
        """So many bytes; fewer only at the end of the file."""
        pieces: list[bytes] = []
        while size and (piece := os.pread(self._fd, size, at)):
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)

    def _damaged(self, member: str, line: int, reason: str) -> BundleDamaged:
        return BundleDamaged(str(self.path), member, line, reason)


def is_bundle(path: Path) -> bool:
    """Whether a file looks like a bundle by its content; False also when there is none, or none that can be read."""
    with suppress(OSError, ValueError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                return False
            end = os.pread(fd, COMMENT_BYTES, max(0, facts.st_size - COMMENT_BYTES))
            return looks_like_bundle(os.pread(fd, 4, 0), end)
        finally:
            os.close(fd)
    return False
