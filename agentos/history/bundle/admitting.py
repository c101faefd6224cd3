"""What may come in at all, whatever the store holds: a whole bundle with its texts, within what one import takes.

What the manifest alone tells comes first, so that nobody waits for the digests of what is too large anyway.
"""

from __future__ import annotations

from agentos.errors import ImportRefused
from agentos.history.bundle.archive import BundleReader
from agentos.history.bundle.check import check_bundle
from agentos.ids import Kind

IMPORT_BYTES_MAX = 256 * 1024 * 1024
"""How many bytes of logs and definitions one import takes: all of it is in memory at once, and one transaction."""
IMPORT_SHARED_ENTRIES_MAX = 2_000_000
"""How many entries forks may share in one import, each fork's counted: each is folded by itself."""


def check_admitted(bundle: BundleReader, bytes_max: int = IMPORT_BYTES_MAX) -> None:
    """Raises ImportRefused, which names the limit or the first difference."""
    path = str(bundle.path)
    if bundle.manifest.redacted:
        raise ImportRefused(
            path, "it is redacted: without its texts no conversation can go on; export it without --redact"
        )
    _check_sizes(bundle, path, bytes_max)
    report = check_bundle(bundle, differences_max=1)
    for difference in report.differences:
        more = f" and {report.more} more" if report.more else ""
        raise ImportRefused(path, f"{difference}{more}; 'agentos verify {path}' tells all differences")


def _check_sizes(bundle: BundleReader, path: str, bytes_max: int) -> None:
    parts = [part for part in bundle.manifest.logs if part.kind == Kind.CONVERSATION.value]
    size = sum(part.bytes for part in parts) + sum(part.bytes for part in bundle.manifest.definitions)
    if size > bytes_max:
        raise ImportRefused(
            path,
            f"its conversations have {size:,} bytes, and an import takes {bytes_max:,} (IMPORT_BYTES_MAX) at once;"
            " export them one by one, or take the whole store with 'agentos copy'",
        )
    shared = sum(part.shared for part in parts)
    if shared > IMPORT_SHARED_ENTRIES_MAX:
        most = f"{IMPORT_SHARED_ENTRIES_MAX:,} (IMPORT_SHARED_ENTRIES_MAX)"
        raise ImportRefused(path, f"its forks share {shared:,} entries, of {most}; export them one by one")
