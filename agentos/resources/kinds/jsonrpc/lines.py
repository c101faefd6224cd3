"""Cuts what a process prints into lines, within a bound."""

from __future__ import annotations

from collections.abc import Callable

HEAD_BYTES = 512
"""What is kept of a line that is too long."""


class Lines:
    """Takes chunks and gives whole lines, without their ends; blank ones are left out.

    Of a line over bytes_max too_long gets the first bytes and the true size, once it has ended.
    """

    def __init__(self, bytes_max: int, line: Callable[[bytes], None], too_long: Callable[[bytes, int], None]) -> None:
        self._bytes_max, self._line, self._too_long = bytes_max, line, too_long
        self._begun = bytearray()
        self._size = 0

    def add(self, chunk: memoryview) -> None:
        *whole, rest = bytes(chunk).split(b"\n")
        for part in whole:
            self._take(part)
            self._end()
        self._take(rest)

    def _take(self, part: bytes) -> None:
        self._size += len(part)
        self._begun += part
        if self._size > self._bytes_max:
            del self._begun[HEAD_BYTES:]

    def _end(self) -> None:
        line, size = bytes(self._begun), self._size
        self._begun.clear()
        self._size = 0
        if size > self._bytes_max:
            self._too_long(line, size)
        elif line := line.strip():
            self._line(line)
