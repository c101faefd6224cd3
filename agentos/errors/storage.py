"""What lasts cannot do what was asked: stores, search indexes, anchors, bundles."""

from __future__ import annotations

from agentos.errors.base import AgentosError


class StoreError(AgentosError):
    """The store cannot do what was asked."""


class StoreUnavailable(StoreError):
    """The store failed; nothing was acknowledged, and intake is kept until it is back."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"store {url}: {reason}")


class StoreBusy(StoreUnavailable):
    """Another process held the store longer than busy_timeout_ms."""


class StoreTooNew(StoreError):
    def __init__(self, url: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"store {url} has schema version {found}, this program knows up to {known}; use a newer agentos"
        )


class StoreTooOld(StoreError):
    """It is to be read alone, which changes nothing, and has an older schema than this program reads."""

    def __init__(self, url: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"store {url} has schema version {found}, this program reads {known}; 'agentos upgrade' brings it up to date"
        )


class StoreDamaged(StoreError):
    """The file is not a store of agentos or lost a part of itself."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"store {url} is damaged: {reason}; 'agentos verify' names what differs")


class QueryRefused(StoreError):
    """A query was not one reading statement, or went over a limit."""


class CopyRefused(StoreError):
    """A store cannot be copied to this place, or not now; what was copied before stays, and is gone on with."""


class IndexUnavailable(StoreError):
    """The file of a search index cannot be used; it holds nothing that the store has not."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"search index {path}: {reason}; it may be deleted, and the next search makes it anew")


class IndexDamaged(IndexUnavailable):
    """It is not what was written, or is something else."""


class AnchorError(AgentosError):
    """A file of anchors does not say what was asked of it."""


class AnchorDamaged(AnchorError):
    """A line of a file of anchors is not as it was written; line counts from 1."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(f"{path} line {line}: {reason}; take another copy of the file")


class AnchorRefused(AnchorError):
    """No anchor can be written to this file, or not now; the file is as it was."""


class BundleError(AgentosError):
    """A bundle cannot be written or read."""


class BundleRefused(BundleError):
    """A file is no bundle, or one that may not be read; nothing of it was used."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class BundleDamaged(BundleRefused):
    """A member of a bundle is not as its manifest says; line counts from 1, 0 where it cannot be told."""

    def __init__(self, path: str, member: str, line: int, reason: str) -> None:
        self.member, self.line, self.why = member, line, reason
        super().__init__(path, f"{member}{f' line {line}' if line else ''}: {reason}")


class ImportRefused(BundleError):
    """A bundle cannot be taken into this store; nothing of it was stored."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class ExportRefused(BundleError):
    """Nothing can be exported so; no file was written."""
