"""Writing a bundle: members one after the other, packed on the way, then the archive around them.

The manifest stands first and names the digests of all others, so packed members wait in a file without a name, which is
gone with the process; nothing is held in memory. The archive appears at its place whole, synced, or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agentos.errors import ExportRefused
from agentos.history.bundle.container import (
    DEFLATED,
    MANIFEST,
    STORED,
    Member,
    central_header,
    comment,
    end_record,
    local_header,
)
from agentos.history.bundle.limits import ZIP_BYTES_MAX, BundleLimits

LEVEL = 6
COPIED_BYTES = 1024 * 1024
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems say that know no second name of a file."""


class Written(NamedTuple):
    """A member that was written: its size in bytes, unpacked, and the digest of its content."""

    name: str
    bytes: int
    sha256: str


class _Waiting(NamedTuple):
    """A packed member in the file without a name. place is where its data begins there."""

    member: Member
    place: int


class Packing:
    """One member while it is written. place is where its data begins in the file without a name."""

    def __init__(self, name: str, waiting: BinaryIO, check: Callable[[int], None]) -> None:
        self.place = waiting.seek(0, os.SEEK_END)
        self._name, self._waiting, self._check = name, waiting, check
        self._deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
        self._digest = hashlib.sha256()
        self._crc = self._packed = self._unpacked = 0

    def write(self, chunk: bytes) -> None:
        """Takes more of it. Raises ExportRefused over a limit, OSError."""
        self._digest.update(chunk)
        self._crc = zlib.crc32(chunk, self._crc)
        self._unpacked += len(chunk)
        self._packed += self._waiting.write(self._deflate.compress(chunk))
        self._check(max(self._packed, self._unpacked))

    def end(self) -> Member:
        self._packed += self._waiting.write(self._deflate.flush())
        return Member(self._name, DEFLATED, self._crc, self._packed, self._unpacked, 0)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class BundleWriter:
    """Takes members in any order; the manifest comes last, with `finish`."""

    def __init__(self, path: Path, file: BinaryIO, waiting: BinaryIO, limits: BundleLimits) -> None:
        self._path, self._file, self._waiting, self._limits = path, file, waiting, limits
        self._members: list[_Waiting] = []
        self._unpacked = 0

    def begin(self, name: str) -> Packing:
        """One more member, which takes its content piece by piece; one at a time."""
        return Packing(name, self._waiting, lambda packed: self._check_member(name, packed))

    def end(self, packing: Packing) -> Written:
        """The member is complete. Raises ExportRefused over a limit, OSError."""
        member = packing.end()
        place = packing.place
        if member.unpacked > member.packed * self._limits.bundle_ratio_max:
            member, place = self._unpacked_again(member, place)
        self._members.append(_Waiting(member, place))
        if len(self._members) + 1 > self._limits.bundle_files_max:
            raise self._over("bundle_files_max", f"members, of {self._limits.bundle_files_max:,}")
        self._unpacked += member.unpacked
        if self._unpacked > self._limits.bundle_unpacked_bytes_max:
            raise self._over("bundle_unpacked_bytes_max", f"bytes, of {self._limits.bundle_unpacked_bytes_max:,}")
        return Written(member.name, member.unpacked, packing.sha256)

    def add(self, name: str, content: bytes) -> Written:
        """One more member, whole."""
        packing = self.begin(name)
        packing.write(content)
        return self.end(packing)

    def finish(self, manifest: bytes) -> int:
        """Writes the archive; gives its size in bytes. Raises ExportRefused over a limit, OSError."""
        if len(manifest) > self._limits.bundle_manifest_bytes_max:
            raise self._over("bundle_manifest_bytes_max", f"bytes of {MANIFEST}")
        self.add(MANIFEST, manifest)
        first = self._members.pop()
        output = _Output(self._file)
        found = [self._put(output, one) for one in (first, *sorted(self._members, key=lambda one: one.member.name))]
        offset = output.bytes
        output.write(b"".join(map(central_header, found)))
        output.write(end_record(len(found), output.bytes - offset, offset))
        output.write(comment(output.digest))
        if output.bytes > min(self._limits.bundle_bytes_max, ZIP_BYTES_MAX):
            raise self._over("bundle_bytes_max", f"bytes, of {self._limits.bundle_bytes_max:,}")
        return output.bytes

    def _put(self, output: _Output, waiting: _Waiting) -> Member:
        member = waiting.member._replace(offset=output.bytes)
        if member.end > ZIP_BYTES_MAX:
            raise self._over("bundle_bytes_max", f"bytes, of {self._limits.bundle_bytes_max:,}")
        output.write(local_header(member))
        for chunk in _read(self._waiting, waiting.place, member.packed):
            output.write(chunk)
        return member

    def _check_member(self, name: str, size: int) -> None:
        if size > min(self._limits.bundle_member_bytes_max, ZIP_BYTES_MAX):
            raise self._over("bundle_member_bytes_max", f"bytes in {name}")

    def _unpacked_again(self, packed: Member, place: int) -> tuple[Member, int]:
        """The same member as it is: a reader would take what was packed so well for a bomb."""
        inflate = zlib.decompressobj(-15)
        new = self._waiting.seek(0, os.SEEK_END)
        for data in _read(self._waiting, place, packed.packed):
            while chunk := inflate.decompress(data, COPIED_BYTES):
                self._waiting.write(chunk)
                data = inflate.unconsumed_tail
        return packed._replace(method=STORED, packed=packed.unpacked), new

    def _over(self, limit: str, what: str) -> ExportRefused:
        return ExportRefused(
            f"{self._path}: there are more {what} ({limit}) to export; export conversations by themselves, or"
            " 'agentos copy' the store"
        )


class _Output:
    """What is written to the archive, with its size and its digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self.bytes = file, hashlib.sha256(), 0

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._digest.update(chunk)
        self.bytes += len(chunk)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


@contextmanager
def bundle_file(path: Path, limits: BundleLimits, *, force: bool = False) -> Iterator[BundleWriter]:
    """A bundle that appears at its place when the block ends well. It is made with mode 0600.

    Errors: ExportRefused when something is there already, and force is not given, or it is no file; OSError.
    """
    if path.is_dir():
        raise ExportRefused(f"{path}: it is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise ExportRefused(f"{path}: it is a device, a pipe or a socket, which a file would take the place of")
    if not force and os.path.lexists(path):
        raise _is_there(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    fd, beside = tempfile.mkstemp(prefix=f".{path.name[:60]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file, tempfile.TemporaryFile(dir=path.parent) as waiting:
            yield BundleWriter(path, file, waiting, limits)
            file.flush()
            os.fsync(file.fileno())
        _put_in_place(Path(beside), path, force=force)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _put_in_place(beside: Path, path: Path, *, force: bool) -> None:
    """Without force, nothing that came there meanwhile is overwritten."""
    if force:
        beside.replace(path)
    else:
        _link(beside, path)
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _link(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except FileExistsError:
        raise _is_there(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise _is_there(path) from None
        beside.replace(path)
        return
    beside.unlink()


def _is_there(path: Path) -> ExportRefused:
    return ExportRefused(f"{path}: there is something already; --force replaces it")


def _read(file: BinaryIO, place: int, size: int) -> Iterator[bytes]:
    file.flush()
    end = place + size
    while place < end:
        chunk = os.pread(file.fileno(), min(COPIED_BYTES, end - place), place)
        if not chunk:
            raise OSError("the file in which packed members wait became shorter")
        yield chunk
        place += len(chunk)
