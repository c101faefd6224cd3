"""Which files a toolbox may touch: rules over canonical paths, and an opening that nobody can swap a link into.

A path is resolved first, links and `..` and all, and what it then names is judged. What is not allowed and what does not
exist give the same answer. A file is opened part by part from the root, without following a link (see `below`), so that
what is read is what was judged. Its size is asked of the open descriptor. The kernel's own file systems (/proc, /sys, /dev)
are closed under every rule, and also where they are mounted a second time.

Not seen: a hard link inside to a file that also has a name outside; and that two names are the same to a file system that
ignores case, so that `Not` of a path there lets the other spelling through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import BinaryIO

from agentos.errors import AgentosError, ConfigurationError
from agentos.resources.folders.below import FOLDER, PATH_CHARS_MAX, WAY, PathRefused, folder_below, open_regular
from agentos.resources.folders.entries import Entry, entry_of
from agentos.resources.folders.sandbox_rules import Keys, Rule, Subject, Tell, near, never, rule_of

FILE_BYTES_MAX = 50 * 1024 * 1024
"""How large a file may be that is read, where the sandbox does not say."""
_KEYS = ["fsbPredicate", "fsbMaxFileSize", "fsbName"]
_CLOSED = tuple(PurePath(path) for path in ("/proc", "/sys", "/dev"))
_KERNEL_TYPES = frozenset({b"proc", b"sysfs", b"devtmpfs", b"devpts", b"debugfs", b"tracefs", b"cgroup", b"cgroup2"})
_SWAPPED = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENOENT})


class FileRefused(AgentosError):
    """A path that a sandbox does not let through; the text names it and why."""


class FileSandbox:
    """The files that may be touched. Without a rule there is none."""

    def __init__(
        self, rule: Rule = never, *, base: Path, file_bytes_max: int = FILE_BYTES_MAX, name: str = "sandbox"
    ) -> None:
        self.file_bytes_max, self.name = file_bytes_max, name
        self._rule, self._base = rule, Path(os.path.abspath(base))

    @classmethod
    def from_data(cls, data: object, base: Path) -> FileSandbox:
        """From JSON data: fsbPredicate (a rule, see sandbox_rules), fsbMaxFileSize in bytes, fsbName.

        Relative paths count from base, here and later. Keys that begin with `--` are comments.
        Raises ConfigurationError with one line for each problem, naming its key.
        """
        problems: list[str] = []

        def tell(keys: Keys, what: str) -> None:
            problems.append(f"{_dotted(keys)}: {what}")

        made = _sandbox_of(data, Path(os.path.abspath(base)), tell)
        if problems:
            raise ConfigurationError("\n".join(problems))
        return made

    def allows(self, path: str) -> bool:
        """Whether an existing file or folder may be touched now."""
        try:
            canonical = self._canonical(path)
        except FileRefused:
            return False
        found = _stat_of(canonical)
        return self._judge(canonical, found) and not (found is not None and _of_the_kernel(found))

    def open_for_reading(self, path: str) -> BinaryIO:
        """A regular file, open to read; never one that would wait for somebody. Raises FileRefused."""
        canonical = self._canonical(path)
        if not self._judge(canonical, _stat_of(canonical)):
            raise self._refusal(path)
        with self._opened(canonical, path, os.O_RDONLY) as descriptor:
            found = os.fstat(descriptor)
            self._check_open(canonical, found, path)
            return os.fdopen(os.dup(descriptor), "rb")

    def listed(self, path: str, scan_max: int) -> tuple[list[Entry], bool]:
        """What of a folder's things may be touched, sorted by name, and whether more than scan_max stand there.

        Raises FileRefused.
        """
        canonical = self._canonical(path)
        found = _stat_of(canonical)
        if not self._judge(canonical, found):
            raise self._refusal(path)
        if found is None or not stat.S_ISDIR(found.st_mode):
            raise FileRefused(f"{path!r} is no folder")
        with self._opened(canonical, path, FOLDER) as descriptor:
            if _of_the_kernel(os.fstat(descriptor)):
                raise self._refusal(path)
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry, _ in zip(entries, range(scan_max + 1), strict=False)]
            shown = (self._entry(canonical, name, descriptor) for name in sorted(names[:scan_max]))
            return [entry for entry in shown if entry is not None], len(names) > scan_max

    def _entry(self, folder: Path, name: str, descriptor: int) -> Entry | None:
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:  # gone meanwhile
            return None
        if stat.S_ISLNK(found.st_mode):
            shown = self.allows(str(folder / name))
        else:
            shown = self._judge(folder / name, found)
        return entry_of(name, found) if shown else None

    def _canonical(self, path: str) -> Path:
        """Where a path leads, as far as it exists. Raises FileRefused for what is no path."""
        if not path or "\0" in path or len(path) > PATH_CHARS_MAX:
            why = "is empty" if not path else "holds a NUL" if "\0" in path else f"is over {PATH_CHARS_MAX} characters"
            raise FileRefused(f"a path {why}")
        try:
            return Path(os.path.realpath(os.fsdecode(os.fsencode(self._base / path))))
        except (UnicodeEncodeError, OSError) as error:
            raise FileRefused(f"{path!r} is no path: {error}") from error

    def _judge(self, canonical: PurePath, found: os.stat_result | None) -> bool:
        """Whether the rules let through what was found at a canonical path."""
        if found is None or stat.S_ISLNK(found.st_mode) or _closed(canonical):
            return False
        is_directory = stat.S_ISDIR(found.st_mode)
        return self._rule(Subject(canonical, is_directory, 0 if is_directory else found.st_size))

    def _check_open(self, canonical: Path, found: os.stat_result, path: str) -> None:
        """Asks again of what is open now, since it may have been swapped for another. Raises FileRefused."""
        if not stat.S_ISREG(found.st_mode):
            raise FileRefused(f"{path!r} is no regular file")
        if _of_the_kernel(found) or not self._judge(canonical, found):
            raise self._refusal(path)
        if found.st_size > self.file_bytes_max:
            raise FileRefused(f"{path!r} has {found.st_size:,} bytes, over {self.file_bytes_max:,} (fsbMaxFileSize)")

    @contextlib.contextmanager
    def _opened(self, canonical: Path, path: str, flags: int) -> Iterator[int]:
        """A descriptor of what stands at a canonical path, reached without following a link. Raises FileRefused."""
        try:
            descriptor = _descend(canonical, flags)
        except PathRefused as error:
            raise FileRefused(f"{path!r} is no regular file") from error
        except OSError as error:
            if error.errno in _SWAPPED:
                raise self._refusal(path) from error
            raise FileRefused(f"{path!r} cannot be opened: {error.strerror}") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _refusal(self, path: str) -> FileRefused:
        return FileRefused(f"{path!r}: {self.name} allows no such file or folder")


def _descend(canonical: Path, flags: int) -> int:
    """Opens part by part from the root, a folder if the flags say so. Raises PathRefused for what is no regular file."""
    root, *parts = canonical.parts
    *above, name = parts or ["."]
    with folder_below(os.open(root, WAY), above) as folder:
        return os.open(name, flags, dir_fd=folder) if flags & os.O_DIRECTORY else open_regular(folder, name, flags)


def _stat_of(canonical: Path) -> os.stat_result | None:
    """None when nothing is there, or nothing that may be looked at. The path is resolved: a link here is a swap."""
    try:
        return os.lstat(canonical)
    except OSError:
        return None


def _closed(canonical: PurePath) -> bool:
    return any(canonical == closed or closed in canonical.parents for closed in _CLOSED)


def _of_the_kernel(found: os.stat_result) -> bool:
    """Whether it lies in a file system that the kernel makes up, under whatever path that is mounted."""
    device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}".encode()
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes()
    except FileNotFoundError:  # a system without them, or without a process file system
        return False
    for line in mounts.splitlines():
        where, _, what = line.partition(b" - ")
        if where.split(b" ", 3)[2] == device and what.split(b" ", 1)[0] in _KERNEL_TYPES:
            return True
    return False


def _sandbox_of(data: object, base: Path, tell: Tell) -> FileSandbox:
    if not isinstance(data, Mapping):
        tell((), "a file sandbox is an object of fsbPredicate, fsbMaxFileSize and fsbName")
        return FileSandbox(base=base)
    for key in data:
        if key not in _KEYS and not str(key).startswith("--"):
            why = "; write the sandbox itself in place of its name" if key == "ref" else near(str(key), _KEYS)
            tell((str(key),), f"unknown key{why}")
    size, name = data.get("fsbMaxFileSize"), data.get("fsbName")
    if size is not None and (type(size) is not int or size < 0):
        tell(("fsbMaxFileSize",), f"a number of bytes is needed here, not {size!r}")
        size = None
    if name is not None and not isinstance(name, str):
        tell(("fsbName",), "a text is needed here")
        name = None
    rule: Rule = never
    if "fsbPredicate" in data:
        rule = rule_of(data["fsbPredicate"], base, tell, ("fsbPredicate",))
    return FileSandbox(
        rule, base=base, file_bytes_max=FILE_BYTES_MAX if size is None else size, name=name or "the file sandbox"
    )


def _dotted(keys: Keys) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".") or "file sandbox"
