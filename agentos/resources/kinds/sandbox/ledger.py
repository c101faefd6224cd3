"""What a sandbox directory holds, kept as it is written, and measured before it is called full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentos.errors import FolderLimitReached
from agentos.resources.folders.measuring import Usage
from agentos.resources.kinds.sandbox.limits import SandboxLimits

_WAY_OUT = "remove what is no longer needed, or give it a larger bound"


class Ledger:
    """Used under the lock of its directory alone, so that what was taken is written when it is measured."""

    def __init__(
        self, folder: str, limits: SandboxLimits, measure: Callable[[], Usage], unlinked: Callable[[], int]
    ) -> None:
        """unlinked says how many bytes the disk keeps for open files whose names are gone: they take room until they are
        closed."""
        self._folder, self._limits, self._measure, self._unlinked = folder, limits, measure, unlinked
        self.usage = Usage(0, 0)

    def take(self, bytes_: int = 0, files: int = 0) -> None:
        """Raises FolderLimitReached, and takes nothing then."""
        if self._is_over(bytes_, files):
            self.usage = self._measure()
            self._insist(bytes_, files)
        self.give(-bytes_, -files)

    def give(self, bytes_: int = 0, files: int = 0) -> None:
        """Of what others have put in and we remove, not all may have been counted."""
        self.usage = Usage(max(0, self.usage.bytes - bytes_), max(0, self.usage.files - files))

    @contextmanager
    def taken(self, bytes_: int = 0, files: int = 0) -> Iterator[None]:
        """Takes, and gives back when what it is taken for fails. Raises FolderLimitReached."""
        self.take(bytes_, files)
        try:
            yield
        except BaseException:
            self.give(bytes_, files)
            raise

    def measure(self) -> Usage:
        self.usage = self._measure()
        return self.usage

    def _is_over(self, bytes_: int, files: int) -> bool:
        """Who takes nothing is let through also where others have filled it."""
        usage, limits = self.usage, self._limits
        return bool(
            (bytes_ and usage.bytes + bytes_ + self._unlinked() > limits.bytes_max)
            or ((bytes_ or files) and usage.files + files > limits.files_max)
        )

    def _insist(self, bytes_: int, files: int) -> None:
        usage, limits = self.usage, self._limits
        if usage.files + files > limits.files_max:  # also who takes bytes alone: over it, nobody has counted them
            what = f"it would hold {usage.files + files:,} files and folders"
            raise FolderLimitReached(self._folder, what, "files_max", limits.files_max, _WAY_OUT)
        total = usage.bytes + bytes_ + self._unlinked()
        if bytes_ and total > limits.bytes_max:
            what = f"it would hold {total:,} bytes"
            raise FolderLimitReached(self._folder, what, "bytes_max", limits.bytes_max, _WAY_OUT)
