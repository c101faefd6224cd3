"""What a line says about lines before it whose texts it erases."""

from __future__ import annotations

import msgspec


class Blank(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line that loses texts: where it stands, and all that it takes to overwrite it, however much of that was done.

    nulls and texts are stretches of the line, each as start and length in bytes: JSON values in whose place `null`, or an
    empty string, stands with spaces behind it. crc is that of the line then.
    """

    segment: int
    offset: int
    length: int
    crc: int
    nulls: tuple[int, ...]
    texts: tuple[int, ...]
