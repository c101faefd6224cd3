"""The last line that a running process printed, told as the progress of its call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agentos.errors import ToolError

_log = logging.getLogger(__name__)
LINE_CHARS = 300
_LINE_BYTES = 4 * LINE_CHARS


class LastLine:
    """Tells {"line": ...} once a line is whole (a newline or a carriage return ends it), unless it is blank or was told last.

    At most one line each wait_s; of those between, the last. stdout and stderr count alike. A teller that raises ToolError
    has had enough (progress_max): nothing more is told, and the process goes on.
    """

    def __init__(self, tell: Callable[[dict[str, str]], None], wait_s: float) -> None:
        self._tell, self._wait_s = tell, wait_s
        self._loop = asyncio.get_running_loop()
        self._line = self._told = ""
        self._free_at_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def pipe(self) -> Callable[[memoryview], None]:
        begun = bytearray()  # of the line that is not whole yet

        def heard(chunk: memoryview) -> None:
            data = bytes(begun) + bytes(chunk)
            end = max(data.rfind(b"\n"), data.rfind(b"\r"))
            begun[:] = data[end + 1 :][:_LINE_BYTES]
            if end >= 0:
                self._heard(_last_line(data[:end]))

        return heard

    def close(self) -> None:
        """Nothing is told any more: the result says it all."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heard(self, line: str) -> None:
        if not line or self._closed:
            return
        self._line = line
        if self._timer is not None:
            return
        wait_s = self._free_at_s - self._loop.time()
        if wait_s <= 0:
            self._tell_now()
        else:
            self._timer = self._loop.call_later(wait_s, self._tell_now)

    def _tell_now(self) -> None:
        self._timer = None
        if self._line == self._told:
            return
        self._told = self._line
        self._free_at_s = self._loop.time() + self._wait_s
        try:
            self._tell({"line": self._line})
        except ToolError as error:
            _log.debug("no more progress is told: %s", error)
            self.close()


def _last_line(data: bytes) -> str:
    """The last one that is not blank, of whole lines without the end of the last one."""
    data = data.rstrip()
    start = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    return data[start : start + _LINE_BYTES].decode(errors="replace").strip()[:LINE_CHARS]
