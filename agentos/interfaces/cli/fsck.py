"""fsck: is all of the store whole, and what can be put right?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentos.history import Checked, Finding, Mended, check_store, repair_store
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.kernel.reading import Reading, reading

FINDINGS_SHOWN = 1_000


async def fsck(*, repair: Flag = False, json: Flag = False, here: Here) -> int:
    """Check the whole store: all that 'agentos verify' does, whether calls and results pair, and what nobody drives.

    Each finding says whether --repair mends it. That makes the tables beside a log anew from its entries, and removes private
    values that no entry commits to; it says what it did. Entries and heads are never rewritten, and turns are not driven.
    Exit code 0 when nothing is found, or nothing is left after a repair; else 1.

    Parameters
    ----------
    repair
        put right what the log can tell; the store may be at work meanwhile
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        checked = await check_store(store.store)
    mended: Sequence[Mended] = ()
    if repair and checked.to_mend:
        async with reading(here.store_url()) as store:
            mended = await _repaired(store, checked)
        async with reading(here.store_url()) as store:
            checked = await check_store(store.store)
    if json:
        put_json(_object(checked, mended))
    else:
        _put(checked, mended)
    return Exit.OK if checked.ok else Exit.FAILURE


async def _repaired(reading: Reading, checked: Checked) -> list[Mended]:
    async with reading.writing() as store:
        return await repair_store(store, checked)


def _put(checked: Checked, mended: Sequence[Mended]) -> None:
    for done in mended:
        put(f"mended {done}" if done.done else str(done))
    read = checked.report
    counts = f"{read.entries} entries and {read.payloads} payloads in {counted(read.logs, 'log')}"
    put(f"ok: {counts}" if checked.ok else f"{counted(len(checked.findings), 'finding')} in {counts}")
    for finding in checked.findings[:FINDINGS_SHOWN]:
        put(f"  {finding}")
    if len(checked.findings) > FINDINGS_SHOWN:
        say(f"and {len(checked.findings) - FINDINGS_SHOWN} more; --json has all")
    for left in checked.left:
        say(str(left))


def _object(checked: Checked, mended: Sequence[Mended]) -> dict[str, Any]:
    counts = {"logs": checked.report.logs, "entries": checked.report.entries, "payloads": checked.report.payloads}
    return {
        "ok": checked.ok,
        **counts,
        "findings": [_finding(finding) for finding in checked.findings],
        "left_open": [msgspec.to_builtins(left) for left in checked.left],
        "mended": [msgspec.to_builtins(done) for done in mended],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {**msgspec.to_builtins(finding.difference), "mend": finding.mend, "why_not": finding.why_not}
