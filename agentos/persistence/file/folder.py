"""The folder of a file store: what stands where, how it is made, and whose it is."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets

import msgspec

from agentos.errors import StoreDamaged, StoreError, StoreTooNew, StoreUnavailable
from agentos.persistence.base import Point, no_point
from agentos.persistence.file.lines import Segment, encode_line
from agentos.persistence.file.lock import FolderLock

FORMAT = "agentos file store"
FORMAT_VERSION = 1
OWN_NAMES = frozenset({"README.txt", "lock", "segments", "store.json", "store.json.new", "writers"})
"""What a folder may hold that a making which was cut short has left."""

README = """\
This folder is a store of agentos: what its conversations, agents and tools have said and done.

store.json              names the format and its version
segments/NNNNNNNN.jsonl what was done, one JSON object a line, oldest first; lines are only added, and texts that are
                        erased are overwritten where they stand
writers/N.lock          held by the process that is writer N while it lives
lock                    held while a process appends

To look at it (each line begins with the checksum of the rest; times are microseconds since 1970, UTC):

    less segments/00000001.jsonl
    jq -c 'select(.op=="unit") | .messages[]? | [.role, .text]' segments/*.jsonl
    jq -c 'select(.log=="conversation_...") | .entries[]?.head' segments/*.jsonl

op says what a line is: unit (entries of one log, with their texts in messages and payloads, and the rows of the tables
conversations, turns and calls), post (a command on its way to a log), claim (a writer takes a log), begin and end (of a
writer), repaired (a torn line was cut off), blanked (what a unit erased is overwritten by then), segment and continued
(the first and last line of a file). synced is how much of the file was on the disk by then.

Nothing here may be edited while a process has it open, or at all if it is to be verified: every entry is chained to the
one before by its digest. A copy of the whole folder, made while no process writes, is a backup.
"""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What store.json says; id stands at the beginning of each segment, too."""

    format: str
    version: int
    id: str


class Folder:
    """Paths below the folder of a store, whose path is absolute; nothing that comes from outside is part of one."""

    def __init__(self, url: str, path: str) -> None:
        self.url, self.path = url, path
        self.lock = os.path.join(path, "lock")
        self.segments = os.path.join(path, "segments")
        self.writers = os.path.join(path, "writers", "")
        self._store = os.path.join(path, "store.json")

    def segment(self, number: int) -> str:
        return os.path.join(self.segments, segment_name(number))

    def identify(self) -> Identity:
        """Raises StoreUnavailable when there is no store, StoreDamaged when something else is there, StoreTooNew."""
        try:
            with open(self._store, "rb") as file:
                found = msgspec.json.decode(file.read(4096), type=Identity)
        except FileNotFoundError:
            raise self._nothing_here() from None
        except OSError as error:
            raise unavailable(self.url, error) from error
        except msgspec.MsgspecError as error:
            raise StoreDamaged(self.url, f"store.json is not that of a file store: {error}") from error
        if found.format != FORMAT:
            raise StoreDamaged(self.url, f"store.json is that of something else: {found.format!r}")
        if found.version > FORMAT_VERSION:
            raise StoreTooNew(self.url, found.version, FORMAT_VERSION)
        return found

    def make(self, busy_timeout_ms: int, point: Point = no_point) -> Identity:
        """The identity of the store, which is made when the folder is missing or empty. Raises StoreError."""
        if os.path.exists(self._store):
            return self.identify()
        try:
            self._check_room()
            make_folder(self.path, point)
            lock = FolderLock(self.url, self.lock)
            try:
                with lock.held(busy_timeout_ms):
                    return self.identify() if os.path.exists(self._store) else self._make(point)
            finally:
                lock.close()
        except OSError as error:
            raise unavailable(self.url, error) from error

    def _make(self, point: Point) -> Identity:
        """store.json comes last: with it the store is there."""
        if self._has_content():
            raise StoreDamaged(self.url, "store.json is gone, and the segments are there")
        identity = Identity(format=FORMAT, version=FORMAT_VERSION, id=secrets.token_hex(8))
        for folder in (self.segments, self.writers):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        write_file(os.path.join(self.path, "README.txt"), README.encode(), point)
        write_file(self.segment(1), encode_line(Segment(store=identity.id, number=1)), point)
        sync_folder(self.segments, point)
        write_file(self._store + ".new", msgspec.json.format(msgspec.json.encode(identity)) + b"\n", point)
        os.rename(self._store + ".new", self._store)
        sync_folder(self.path, point)
        sync_folder(os.path.dirname(self.path), point)
        return identity

    def _has_content(self) -> bool:
        """Whether more than a making that was cut short stands here."""
        try:
            with open(self.segment(1), "rb") as file:
                return bool(file.readline().endswith(b"\n") and file.read(1)) or os.path.exists(self.segment(2))
        except FileNotFoundError:
            return os.path.exists(self.segment(2))

    def _check_room(self) -> None:
        """Raises StoreDamaged when the folder is there and holds something else."""
        with contextlib.suppress(FileNotFoundError):
            foreign = sorted(set(os.listdir(self.path)) - OWN_NAMES)
            if foreign:
                raise StoreDamaged(
                    self.url, f"the folder is no store of agentos: it holds {foreign[0]!r} and no store.json"
                )

    def _nothing_here(self) -> StoreError:
        try:
            self._check_room()
        except StoreDamaged as damaged:
            return damaged
        except OSError as error:
            return unavailable(self.url, error)
        if os.path.isdir(self.path):
            return StoreUnavailable(self.url, "the folder is empty")
        return StoreUnavailable(self.url, "there is no such folder; the first conversation makes it")


def segment_name(number: int) -> str:
    return f"{number:08}.jsonl"


def make_folder(path: str, point: Point) -> None:
    """With those above it; the names of all that were made last. Raises OSError."""
    if not os.path.isdir(path):
        above = os.path.dirname(path)
        make_folder(above, point)
        os.makedirs(path, mode=0o700, exist_ok=True)
        sync_folder(above, point)


def write_file(path: str, data: bytes, point: Point) -> None:
    """A whole new file that lasts. Raises OSError."""
    point("create")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        point("write")
        write_all(descriptor, data, 0)
        point("fsync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Raises OSError, and then a part may be written."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def sync_folder(path: str, point: Point) -> None:
    """Makes the names in a folder last. Raises OSError."""
    point("fsync")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unavailable(url: str, error: OSError) -> StoreUnavailable:
    """Our word for an error of the operating system: what could not be done, where, and its name."""
    name = errno.errorcode.get(error.errno or 0, "")
    where = f"{error.filename}: " if error.filename else ""
    full = "; what was acknowledged is kept, free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return StoreUnavailable(url, f"{where}{error.strerror or error} ({name}){full}")
