"""What a script has printed, within a bound; it counts on a worker for nothing."""

from __future__ import annotations


class Printed:
    """Takes pieces and keeps the first of them, up to about bytes_max. total_bytes is what was printed in all."""

    def __init__(self, bytes_max: int) -> None:
        self._room = bytes_max
        self._pieces: list[str] = []
        self._kept_bytes = self.total_bytes = 0

    def add(self, piece: str) -> None:
        size = len(piece.encode())
        self.total_bytes += size
        if size <= self._room - self._kept_bytes:
            self._pieces.append(piece)
            self._kept_bytes += size

    def text(self) -> str:
        """All that was kept, with a line about what was not."""
        kept = "".join(self._pieces)
        if self.total_bytes <= self._kept_bytes:
            return kept
        left_out = self.total_bytes - self._kept_bytes
        return f"{kept}\n[... {left_out:,} of {self.total_bytes:,} bytes left out here]\n"

    def told(self) -> str:
        """To stand behind the words of a failure; empty when nothing was printed."""
        return f"\nPrinted so far:\n{self.text()}" if self.total_bytes else ""
