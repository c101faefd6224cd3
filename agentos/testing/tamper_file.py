"""Tampering with a store in a folder: a line of a segment is edited, and its checksum made anew."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from agentos.history import copy_store, verify_store
from agentos.persistence import open_store
from agentos.testing.tampering import Named

SAID = "the key is under the mat"
LIE = "the key is under the pot"
"""Of the same length, so that no offset moves."""
_LINE = re.compile(rb'\{"crc":"[0-9a-f]{8}",(.*)\}')


async def tamper_with_file_store(source: str, folder: Path, log: str) -> tuple[str, str, str, str, str, str, bool]:
    """The cells of the row of the table: a copy of the store as a folder, in which somebody said something else."""
    url = f"file:{folder}"
    from_, store = open_store(source), open_store(url)
    try:
        await copy_store(from_, store)
    finally:
        await from_.close()
        await store.close()
    edit_lines(folder)
    store = open_store(url)
    try:
        report = await verify_store(store)
    finally:
        await store.close()
    named = Named(log, None, "messages", "text")
    found = next((one for one in report.differences if named.fits(one)), None)
    place = str(named._replace(seq=found.seq)) if found is not None else f"NOT {named}"
    word = "found" if found is not None else "-"
    what = "a person said something else; the checksum of the line fits"
    return "edit a line", f"{what} (store file:)", word, "", "", place, found is not None


def edit_lines(folder: Path) -> None:
    """Has each line that holds SAID hold LIE. Raises AssertionError when there is none."""
    edited = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or SAID.encode() not in (before := path.read_bytes()):
            continue
        lines = [_edited(line) for line in before.split(b"\n")]
        path.write_bytes(b"\n".join(lines))
        edited += 1
    assert edited, f"{SAID!r} stands in no file of {folder}"


def _edited(line: bytes) -> bytes:
    found = _LINE.fullmatch(line.replace(SAID.encode(), LIE.encode()))
    if SAID.encode() not in line or found is None:
        return line
    return b'{"crc":"%08x",%s}' % (zlib.crc32(found[1] + b"}"), found[1])
