"""copy: a whole store moved to another place, of whatever kind."""

from __future__ import annotations

import time
from typing import Any

from agentos.history import Copied, Progress, Report, copy_store, verify_store
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag
from agentos.interfaces.cli.live import LiveLine, animates
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.kernel.reading import reading

PROGRESS_S = 5.0
"""How often progress is told where no line can be rewritten in place."""


async def copy(source: str, destination: str, /, *, verify: Flag = False, json: Flag = False) -> int:
    """Copy a whole store to another place, of whatever kind, entry by entry as they stand.

    The destination has to be empty, or an earlier copy of the same store that was cut short: it then goes on where it
    stopped. Heads, digests and bodies are equal afterwards; tables are made anew; open turns go on in the copy. The source
    is only read. It may be at work; what it stores from then on is not in the copy.

    Parameters
    ----------
    source
        the URL of the store to copy
    destination
        the URL of the copy
    verify
        verify the copy afterwards, as 'agentos verify' does; exit code 1 when something differs
    json
        print one JSON object
    """
    telling = _Telling()
    async with reading(source) as from_, reading(destination) as to, LiveLine(telling.line):
        copied = await copy_store(from_.store, to.store, tell=telling.tell)
        shown = from_.url, to.url
    report = await _verified(destination) if verify else None
    if json:
        put_json(_object(copied, shown, report))
    else:
        _put(copied, shown, report)
    for row in copied.alive:
        say(f"writer {row.n} (pid {row.pid} on {row.host}) is at work in {shown[0]}; what it stores is not in the copy")
    return Exit.OK if report is None or report.ok else Exit.FAILURE


class _Telling:
    """What is said meanwhile: a line that is rewritten, or a message now and then."""

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._said = time.monotonic()

    def tell(self, progress: Progress) -> None:
        self._last = progress
        if not animates() and time.monotonic() - self._said >= PROGRESS_S:
            self._said = time.monotonic()
            say(self.line())

    def line(self) -> str:
        if self._last is None:
            return ""
        logs, all_logs, entries, bytes_ = self._last
        return f"{logs:,} of {counted(all_logs, 'log')}, {entries:,} entries, {bytes_:,} bytes"


async def _verified(url: str) -> Report:
    async with reading(url) as store:
        return await verify_store(store.store)


def _put(copied: Copied, urls: tuple[str, str], report: Report | None) -> None:
    wrote = f"{copied.entries:,} entries and {copied.bytes:,} bytes"
    put(f"copied {wrote}: {counted(copied.logs, 'log')} in {urls[0]} and in {urls[1]}, heads {copied.heads}")
    if report is not None:
        put(f"verified: {report}")
        for difference in report.differences:
            put(f"  {difference}")


def _object(copied: Copied, urls: tuple[str, str], report: Report | None) -> dict[str, Any]:
    return {
        "source": urls[0],
        "destination": urls[1],
        "logs": copied.logs,
        "entries": copied.entries,
        "bytes": copied.bytes,
        "heads": copied.heads,
        "writers_at_work": [row.n for row in copied.alive],
        **({"verified": report.ok} if report is not None else {}),
    }
