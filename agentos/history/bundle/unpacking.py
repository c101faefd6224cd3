"""The data of one member, unpacked chunk by chunk and never beyond what the directory says of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from agentos.history.bundle.container import DEFLATED, Member, Refused

CHUNK_BYTES = 64 * 1024


class Unpacking:
    """Unpacks one member chunk by chunk, and never gives more than the directory says."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._inflate = zlib.decompressobj(-15) if member.method == DEFLATED else None
        self._crc = self._given = 0

    def take(self, packed: bytes) -> Iterator[bytes]:
        """What these next bytes become. Raises Refused."""
        if self._inflate is None:
            yield self._checked(packed)
            return
        while True:
            try:
                chunk = self._inflate.decompress(packed, CHUNK_BYTES)
            except zlib.error:
                raise Refused(f"{self._member.name} cannot be unpacked: its data is damaged") from None
            packed = self._inflate.unconsumed_tail
            if self._inflate.unused_data:
                raise Refused(f"{self._member.name} has bytes behind its end")
            if not chunk:
                return
            yield self._checked(chunk)

    def end(self) -> None:
        """All bytes were taken. Raises Refused when they are not what the directory says."""
        name = self._member.name
        if self._given != self._member.unpacked or (self._inflate is not None and not self._inflate.eof):
            raise Refused(f"{name} becomes {self._given:,} bytes, and {self._member.unpacked:,} are said")
        if self._crc != self._member.crc:
            raise Refused(f"{name} has another checksum than is said")

    def _checked(self, chunk: bytes) -> bytes:
        self._given += len(chunk)
        if self._given > self._member.unpacked:
            raise Refused(f"{self._member.name} becomes more than the {self._member.unpacked:,} bytes that are said")
        self._crc = zlib.crc32(chunk, self._crc)
        return chunk
