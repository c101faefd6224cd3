"""Files and folders that a system toolbox shows, as far as its sandbox lets it.

A text is given as text, in UTF-8 or with the mark of UTF-16; of a long one its head and tail, with the true size. All else
is Media of the type that its first bytes tell.
"""

from __future__ import annotations

import codecs
from typing import Any, BinaryIO

from agentos.resources.folders.file_sandbox import FileRefused, FileSandbox
from agentos.resources.process.output import CHUNK_BYTES, Output
from agentos.toolboxes.results import Media

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (8, b"AVI ", "video/x-msvideo"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"\0\0\1\0", "image/x-icon"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\3\4", "application/zip"),
    (0, b"PK\5\6", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"(\xb5/\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (257, b"ustar", "application/x-tar"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"\0asm", "application/wasm"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def attached(sandbox: FileSandbox, path: str, kept_bytes: int) -> str | Media:
    """A file as text or Media, of which at most kept_bytes are kept. Raises FileRefused; OSError when reading fails."""
    with sandbox.open_for_reading(path) as file:
        return _read(file, path, sandbox.file_bytes_max, kept_bytes)


def listing(sandbox: FileSandbox, path: str, entries_max: int, scan_max: int) -> dict[str, Any]:
    """What stands in a folder, sorted by name; a `truncated` says when that is not all. Raises FileRefused."""
    entries, more = sandbox.listed(path, scan_max)
    shown = [
        {"name": _readable(entry.name), "kind": entry.kind.value}
        | ({} if entry.size_bytes is None else {"bytes": entry.size_bytes})
        for entry in entries[:entries_max]
    ]
    told: dict[str, Any] = {"path": path, "entries": shown}
    if more or len(entries) > entries_max:
        of = f"more than {scan_max:,}" if more else f"{len(entries):,}"
        told["truncated"] = f"{len(shown):,} of {of} are shown (entries_max {entries_max:,}); list a folder in it"
    return told


def media_type_of(first: bytes) -> str | None:
    """The type that the first bytes of a file tell; None when they tell nothing, as those of a text."""
    for at, magic, media_type in _MAGIC:
        if first.startswith(magic, at):
            return media_type
    return None


def _read(file: BinaryIO, path: str, file_bytes_max: int, kept_bytes: int) -> str | Media:
    output = Output(kept_bytes)
    first = b""
    nul = False
    while chunk := file.read(CHUNK_BYTES):
        first = first or chunk
        nul = nul or b"\0" in chunk
        output.add(chunk)
        if output.total > file_bytes_max:  # it grows while it is read
            raise FileRefused(f"{path!r} has more than {file_bytes_max:,} bytes (fsbMaxFileSize)")
    return _shown(output, first, nul)


def _shown(output: Output, first: bytes, nul: bool) -> str | Media:
    media_type = media_type_of(first)
    if media_type is None and first.startswith(_UTF16):
        return _utf16(output)
    if media_type is not None or nul:
        return Media(media_type or "application/octet-stream", output.take_bytes(), output.total)
    taken = output.take()
    if isinstance(taken, str):
        return taken.removeprefix("\ufeff")
    return Media("application/octet-stream", taken, output.total)


def _utf16(output: Output) -> str | Media:
    data = output.take_bytes()
    try:
        text = data[: len(data) // 2 * 2].decode("utf-16")
    except UnicodeDecodeError:
        return Media("application/octet-stream", data, output.total)
    return text if len(data) == output.total else f"{text}\n[... the first {len(data):,} of {output.total:,} bytes ...]"


def _readable(name: str) -> str:
    """A name whose bytes are no UTF-8 shows them as \\xNN."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
