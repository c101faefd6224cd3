"""Bounds of what configuration files may hold. An error that comes of one says its name."""

from __future__ import annotations

import msgspec


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """file_values_max counts every key and item, again each time that an alias of YAML repeats it.

    file_problems_max: the problems told of one file; files_max: the files that one load follows, and the entries of one
    directory; cycles_max: the cycles of references that are told.
    """

    file_bytes_max: int = 1024 * 1024
    file_depth_max: int = 50
    file_values_max: int = 20_000
    file_problems_max: int = 50
    files_max: int = 2_000
    cycles_max: int = 100


LIMITS = FileLimits()
