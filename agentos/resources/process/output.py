"""What a process printed, within a bound: the head, the tail, and the true size."""

from __future__ import annotations

import base64

CHUNK_BYTES = 65_536
_BASE64_BYTES_MAX = 65_536
"""More of what is no text serves no reader."""


class Output:
    """Takes chunks and keeps at most limit_bytes of them, at least 4: three quarters head, and the tail in a ring."""

    def __init__(self, limit_bytes: int) -> None:
        self.total = 0
        self._head_max = limit_bytes - limit_bytes // 4
        self._tail_max = limit_bytes // 4
        self._head = bytearray()
        self._ring = bytearray()
        self._at = 0

    def add(self, data: bytes | memoryview) -> None:
        self.total += len(data)
        room = self._head_max - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._turn(data[-self._tail_max :])

    def data(self) -> bytes:
        """All that was kept, without a mark where something is left out."""
        return b"".join((self._head, *self._tail()))

    def end(self, limit_chars: int) -> str:
        """The last characters, for an error message; what is no UTF-8 shows as replacement characters."""
        kept = self.data()
        text = kept[-4 * limit_chars :].decode(errors="replace")[-limit_chars:]
        return text if len(text) == len(kept) or self.total <= len(text.encode()) else f"[...] {text}"

    def take_text(self) -> str:
        """The text, with a line where something is left out; for what is no UTF-8 the first bytes as base64.

        Nothing is kept afterwards: the bytes and the text of a large output are in memory together only while one is
        made of the other.
        """
        taken = self.take()
        return taken if isinstance(taken, str) else bytes_text(taken[:_BASE64_BYTES_MAX], self.total)

    def take(self) -> str | bytes:
        """The text as of `take_text`, or when it is no UTF-8 all bytes, else the first of them."""
        gap = self._join()
        whole = self.total == len(self._head)
        if not whole:
            gap = self._mark_gap(gap)
        kept, self._head, self._ring = self._head, bytearray(), bytearray()
        try:
            return kept.decode()
        except UnicodeDecodeError:
            return bytes(kept if whole else kept[:gap])

    def take_bytes(self) -> bytes:
        """All bytes, or the first of them when not all are kept. Nothing is kept afterwards."""
        gap = self._join()
        kept, self._head, self._ring = self._head, bytearray(), bytearray()
        return bytes(kept if self.total == len(kept) else kept[:gap])

    def _join(self) -> int:
        """Puts the tail after the head; gives where they meet."""
        gap = len(self._head)
        for part in self._tail():
            self._head += part
        return gap

    def _turn(self, data: bytes | memoryview) -> None:
        if not self._ring:
            self._ring = bytearray(self._tail_max)
        first = min(len(data), self._tail_max - self._at)
        self._ring[self._at : self._at + first] = data[:first]
        self._ring[: len(data) - first] = data[first:]
        self._at = (self._at + len(data)) % self._tail_max

    def _tail(self) -> tuple[memoryview, memoryview]:
        """The older and the newer part of the ring."""
        ring = memoryview(self._ring)
        if self.total - len(self._head) < self._tail_max:
            return ring[:0], ring[: self.total - len(self._head)]
        return ring[self._at :], ring[: self._at]

    def _mark_gap(self, gap: int) -> int:
        """Puts a line into the gap, in place of the pieces of characters at its two sides; gives where it begins."""
        start = gap - _piece_bytes(self._head[max(0, gap - 4) : gap])
        end = gap
        while end < min(gap + 3, len(self._head)) and 0x80 <= self._head[end] < 0xC0:
            end += 1
        left_out = self.total - len(self._head) + end - start
        self._head[start:end] = f"\n[... {left_out:,} of {self.total:,} bytes left out here ...]\n".encode()
        return start


def bytes_text(data: bytes | bytearray | memoryview, total: int | None = None) -> str:
    """Bytes for a reader of text; total is their true number when data is only the first of them."""
    size = f"{len(data):,} bytes" if total is None or total == len(data) else f"first {len(data):,} of {total:,} bytes"
    return f"({size}, base64) {base64.b64encode(data).decode()}"


def _piece_bytes(data: bytearray) -> int:
    """How many bytes at the end are the beginning of a character that is not all there."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < needed else 0
        if byte < 0x80:
            return 0
    return 0
