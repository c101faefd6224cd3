"""From lines to messages: a line, several that end with a backslash, or a block between lines of three quotes."""

from __future__ import annotations

BLOCK = '"""'
CONTINUED = "\\"


class MessageBuilder:
    """Takes lines, and gives a message when it is whole."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._block = False

    @property
    def open(self) -> bool:
        """Whether lines of a message were given, and more of them must come."""
        return self._block or bool(self._lines)

    def add(self, line: str) -> str | None:
        """The message that this line makes whole, else None."""
        if self._block:
            return self._in_block(line)
        if not self._lines and line.lstrip().startswith(BLOCK):
            self._block = True
            rest = line.lstrip().removeprefix(BLOCK)
            return self._in_block(rest) if rest.strip() else None
        if line.endswith(CONTINUED):
            self._lines.append(line.removesuffix(CONTINUED))
            return None
        self._lines.append(line)
        return self._whole()

    def drop(self) -> None:
        self._lines, self._block = [], False

    def _in_block(self, line: str) -> str | None:
        if not line.rstrip().endswith(BLOCK):
            self._lines.append(line)
            return None
        last = line.rstrip().removesuffix(BLOCK)
        if last:
            self._lines.append(last)
        return self._whole()

    def _whole(self) -> str:
        text = "\n".join(self._lines)
        self.drop()
        return text
