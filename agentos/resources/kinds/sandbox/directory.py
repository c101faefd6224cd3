"""A directory that is reached below its descriptor alone.

No path leads out of it, by `..`, a link, a mount or a swap of any of them while it is walked, and nothing in it is opened
but regular files. Its methods are sync, a few system calls each: a tool that moves much does it in a thread, as a sync
tool with `borrow_from_thread`.

Not seen: a hard link inside to a file that also has a name outside, when it is read. It is never written.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar
from weakref import WeakSet

from agentos.errors import FolderLimitReached, ResourceClosed
from agentos.resources.folders.below import (
    FOLDER,
    insist_mount,
    open_regular,
    open_unlocked,
    parts_of,
    reached,
)
from agentos.resources.folders.emptying import empty_and
from agentos.resources.folders.entries import Entry, entry_of
from agentos.resources.folders.held import HeldFolder, in_thread
from agentos.resources.folders.measuring import Usage, measured
from agentos.resources.kinds.sandbox.files import GrowingFile, SandboxFile
from agentos.resources.kinds.sandbox.ledger import Ledger
from agentos.resources.kinds.sandbox.limits import SandboxLimits
from agentos.resources.kinds.sandbox.writing import Mode, found, open_to_write, put_in_place, size_of

F = TypeVar("F", bound=SandboxFile)


class SandboxDirectory:
    """path is where the folder was found or made. Paths are relative, with `/`; the folders above what is written are
    made, with mode 0700, and new files have mode 0600.

    Every method raises PathRefused for a path that leads elsewhere, FolderGone when the folder is no longer what stands at
    its own path, ResourceClosed once it was given back, and OSError for what the system refuses, each with the path.
    """

    def __init__(self, folder: HeldFolder, limits: SandboxLimits | None = None) -> None:
        self.path, self.limits = folder.path, limits or SandboxLimits()
        self._folder = folder
        self._lock = threading.RLock()
        self._ledger = Ledger(str(self.path), self.limits, self._measured, self._unlinked)
        self._files: WeakSet[SandboxFile] = WeakSet()
        self._files_lock = threading.Lock()

    @property
    def closed(self) -> bool:
        return self._folder.closed

    @property
    def usage(self) -> Usage:
        """What it holds, as far as that was written through here, or measured."""
        return self._ledger.usage

    def measure(self) -> Usage:
        """Looks how much there is, what others have put in too. Done by itself at the opening, and before a refusal."""
        self._folder.check()
        with self._lock:
            return self._ledger.measure()

    def why_unsound(self) -> str:
        """Empty while it may be used."""
        return "it is closed" if self.closed else self._folder.why_gone()

    # Files

    def open(self, path: str, mode: Mode = "r") -> BinaryIO:
        """A regular file, open for bytes: to read, to write anew, to make, or to append to. It ends with the directory.

        Raises FileNotFoundError to read one that is not there, FileExistsError to make one that is, FolderLimitReached over
        open_max; and so do writes, over bytes_max.
        """
        parts = parts_of(path)
        self._insist_room()
        if mode == "r":
            with self._reached(parts) as (folder, name):
                descriptor = open_regular(folder, name, os.O_RDONLY, self._folder.mount)
                return io.BufferedReader(self._kept(SandboxFile(descriptor)))
        with self._changing(parts) as (folder, name):
            descriptor = open_to_write(folder, name, mode, self._ledger, self._folder.mount)
            file = GrowingFile(descriptor, self._ledger, self._lock, appends=mode == "a")
            return self._kept(file)  # unbuffered: a refusal comes where it is written

    def read(self, path: str) -> bytes:
        """All of a regular file. Raises FolderLimitReached over read_bytes_max."""
        maximum = self.limits.read_bytes_max
        with self.open(path) as file:
            data = file.read(maximum + 1)
        if len(data) > maximum:
            what = f"{path!r} has more bytes"
            raise FolderLimitReached(str(self.path), what, "read_bytes_max", maximum, "open it, and read in pieces")
        return data

    def write(self, path: str, data: bytes) -> None:
        """Makes a file, or puts a new one in its place, whole: whoever reads it has the one before or this one.

        Raises FolderLimitReached, and leaves the one before then.
        """
        with self._changing(parts_of(path)) as (folder, name):
            put_in_place(folder, name, data, self._ledger, self._is_open)

    # Folders and names

    def list(self, path: str = ".") -> tuple[Entry, ...]:
        """What stands in a folder, sorted by name, with the links and whatever else there is. Raises FolderLimitReached
        over listed_max."""
        maximum = self.limits.listed_max
        with self._listing(path) as folder, os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(maximum + 1), strict=False)]
            if len(names) > maximum:
                what, way_out = f"{path!r} has more things in it", "spread them over folders"
                raise FolderLimitReached(str(self.path), what, "listed_max", maximum, way_out)
            all_told = ((name, found(folder, name)) for name in sorted(names))
            return tuple(entry_of(name, told) for name, told in all_told if told is not None)

    def stat(self, path: str) -> Entry:
        """What stands at a path; a link is told as such, and not followed. Raises FileNotFoundError."""
        with self._reached(parts_of(path)) as (folder, name):
            return entry_of(name, os.stat(name, dir_fd=folder, follow_symlinks=False))

    def make_folder(self, path: str) -> None:
        """Makes a folder and those above it; one that is there stays. Raises FolderLimitReached."""
        with self._changing((*parts_of(path), ".")):
            return

    def rename(self, source: str, target: str) -> None:
        """Gives a file, a folder or a link another path; a file that is there is replaced. Raises FolderLimitReached for
        the folders above."""
        with self._lock:
            with self._reached(parts_of(source)) as (folder, old):
                moved, from_ = os.stat(old, dir_fd=folder, follow_symlinks=False), os.dup(folder)
            try:
                with self._changing(parts_of(target)) as (to, new):
                    replaced = found(to, new)
                    os.rename(old, new, src_dir_fd=from_, dst_dir_fd=to)
            finally:
                os.close(from_)
            if replaced is not None and (moved.st_dev, moved.st_ino) != (replaced.st_dev, replaced.st_ino):
                self._ledger.give(size_of(replaced), 1)

    def remove(self, path: str, *, tree: bool = False) -> None:
        """Removes a file, a link or an empty folder; with tree, a folder with all that is in it, whatever its rights.

        Raises FileNotFoundError; OSError for a folder that is not empty, and for what cannot be removed.
        """
        with self._lock, self._reached(parts_of(path)) as (folder, name):
            told = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(told.st_mode):
                os.unlink(name, dir_fd=folder)
            elif not tree:
                os.rmdir(name, dir_fd=folder)
            else:
                self._remove_tree(folder, name, path)
                return
            self._ledger.give(size_of(told), 1)

    async def close(self) -> None:
        """Closes its files, whoever has them. A folder that was made is removed with all that is in it; one that was
        given stays. Raises OSError with what could not be removed."""
        self._folder.shut()
        try:
            if self._open_files():
                await in_thread(self._close_files)
        finally:
            await self._folder.close()

    # The ways

    @contextlib.contextmanager
    def _reached(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[tuple[int, str]]:
        self._folder.check()
        with reached(self._folder.descriptor(), parts, self._make_folder if make else None) as (folder, name):
            insist_mount(folder, name, self._folder.mount)
            yield folder, name

    @contextlib.contextmanager
    def _changing(self, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        with self._lock, self._reached(parts, make=True) as way:
            yield way

    @contextlib.contextmanager
    def _listing(self, path: str) -> Iterator[int]:
        parts = () if path == "." else parts_of(path)
        with self._reached((*parts, ".")) as (folder, name):
            descriptor = os.open(name, FOLDER, dir_fd=folder)  # copies share how far a list has come
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_folder(self, name: str, folder: int) -> None:
        if found(folder, name) is not None:
            return
        insist_mount(folder, name, self._folder.mount)
        with contextlib.suppress(FileExistsError), self._ledger.taken(files=1):
            os.mkdir(name, 0o700, dir_fd=folder)

    def _kept(self, file: F) -> F:
        """An open file. One that comes after the end ends too."""
        with self._files_lock:
            self._files.add(file)
        if self.closed:
            file.close()
            raise ResourceClosed(str(self.path))
        return file

    def _insist_room(self) -> None:
        maximum = self.limits.open_max
        if len(self._open_files()) >= maximum:
            what, way_out = f"it would have {maximum + 1:,} files open", "close those that are no longer used"
            raise FolderLimitReached(str(self.path), what, "open_max", maximum, way_out)

    def _open_files(self) -> Sequence[SandboxFile]:
        with self._files_lock:
            return [file for file in self._files if not file.closed]

    def _unlinked(self) -> int:
        sizes = {(told.st_dev, told.st_ino): told.st_size for told in self._open_told() if not told.st_nlink}
        return sum(sizes.values())  # of each file once, however often it is open

    def _is_open(self, there: os.stat_result) -> bool:
        return any(os.path.samestat(told, there) for told in self._open_told())

    def _open_told(self) -> Iterator[os.stat_result]:
        return (told for file in self._open_files() if (told := file.told()) is not None)

    def _close_files(self) -> None:
        for file in self._open_files():
            file.close()

    def _remove_tree(self, folder: int, name: str, path: str) -> None:
        inside = open_unlocked(folder, name, self._folder.mount)
        try:
            empty_and(inside, Path(path), lambda: os.rmdir(name, dir_fd=folder))
        finally:
            os.close(inside)
            self._ledger.measure()

    def _measured(self) -> Usage:
        top = self._folder.descriptor()
        try:
            return measured(top, self.limits.files_max)
        finally:
            os.close(top)
