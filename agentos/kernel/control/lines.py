"""Lines of a stream, each within a bound, read within limits of time; half a line is kept while others wait."""

from __future__ import annotations

import asyncio

CHUNK_BYTES = 64 * 1024


class LineTooLong(Exception):
    """Nothing of it was used."""


class Lines:
    """Reads whole lines. A read that is cut short by its limit loses nothing."""

    def __init__(self, reader: asyncio.StreamReader, bytes_max: int) -> None:
        self._reader, self._bytes_max = reader, bytes_max
        self._buffer = bytearray()
        self._looked = 0

    @property
    def begun(self) -> bool:
        """Whether a part of a line is there."""
        return bool(self._buffer)

    def ready(self) -> bytes | None:
        """The next line without its end, if all of it is there. Raises LineTooLong."""
        end = self._buffer.find(b"\n", self._looked)
        if end < 0:
            self._looked = len(self._buffer)
            if self._looked > self._bytes_max:
                raise LineTooLong
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._looked = 0
        if end > self._bytes_max:
            raise LineTooLong
        return line

    async def more(self, limit_s: float) -> bool:
        """Whether something more came; False is the end of the stream. Raises TimeoutError, OSError."""
        async with asyncio.timeout(limit_s):
            chunk = await self._reader.read(CHUNK_BYTES)
        self._buffer += chunk
        return bool(chunk)
