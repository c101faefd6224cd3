"""The bounds of one sandbox directory."""

from __future__ import annotations

import msgspec


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """At most bytes_max in all files and files_max files, folders and other things; of one file `read` gives at most
    read_bytes_max, of one folder `list` shows listed_max; open_max files are open at once.

    They bound what is written through the handle. What a program puts into the folder by itself is counted, and not
    held up: that is for the limits of its process.
    """

    bytes_max: int = 256 * 1024 * 1024
    files_max: int = 10_000
    read_bytes_max: int = 50 * 1024 * 1024
    listed_max: int = 10_000
    open_max: int = 100
