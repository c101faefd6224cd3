"""The text of a file of configuration, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

from agentos.definitions.limits import FileLimits
from agentos.definitions.source import Lines, Place, Refused

BYTE_ORDER_MARK = "\ufeff"


def read_text(path: Path, limits: FileLimits) -> tuple[str, bool]:
    """The text, each line ended by a newline alone, and whether a byte order mark stood before it.

    Of a file that is too long no more is read than shows it. Raises Refused.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limits.file_bytes_max + 1)
    except OSError as error:
        raise Refused(Place(0, 0), os.strerror(error.errno) if error.errno else str(error)) from error
    except ValueError as error:
        raise Refused(Place(0, 0), f"no name of a file: {error}") from error
    if len(data) > limits.file_bytes_max:
        bytes_max = f"{limits.file_bytes_max:,} bytes (file_bytes_max)"
        raise Refused(Place(0, 0), f"over {bytes_max}, which no configuration needs")
    text = _decoded(data)
    marked = text.startswith(BYTE_ORDER_MARK)
    text = text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n")
    zero = text.find("\0")
    if zero >= 0:
        raise Refused(Lines(text).place(zero), "a zero byte (U+0000) stands here")
    return text, marked


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(Place(1, 1), "the text is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        why = f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8"
        raise Refused(Lines(before).place(len(before)), why) from error
