"""Asks one executable what it is: runs `EXE describe` within bounds, and reads what it printed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentos.errors import ResourceError
from agentos.resources.process.descendants import MARK
from agentos.resources.process.process import Command, Ended, ProcessLimits, run_process
from agentos.resources.process.reasons import code_text, reason_of
from agentos.toolboxes.script.files import content_digest, openness
from agentos.toolboxes.script.form import ScriptForm
from agentos.toolboxes.script.reading import read_description


class DescribeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of reading the descriptions: for each script, and how many are asked at once."""

    wait_s: float = 10.0
    output_bytes: int = 256 * 1024
    parallel_max: int = 8


class Asked(msgspec.Struct, frozen=True):
    """What became of asking: its form, or None and the problem. notes are what was assumed, and what is unsafe. content is
    the digest of the file."""

    path: Path
    form: ScriptForm | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()
    content: str = ""


async def ask(
    path: Path,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    mark: str,
    limits: ProcessLimits,
    describe: DescribeLimits,
) -> Asked:
    """One script is one answer: whatever is wrong with it is its problem, and raises nothing."""
    command = Command(argv=[str(path), "describe"], environment={**environment, MARK: mark}, cwd=str(cwd), mark=mark)
    limits = msgspec.structs.replace(limits, memory_bytes=2 * describe.output_bytes, grace_s=0.2)
    try:
        async with asyncio.timeout(describe.wait_s):
            ended = await run_process(command, limits)
        printed = _printed(ended, describe)
        described = read_description(printed)
    except TimeoutError:
        return Asked(path, problem=f"describe did not end within {describe.wait_s:g} s")
    except ResourceError as error:  # no place among the processes that there may be
        return Asked(path, problem=f"it was not asked: {error}")
    except OSError as error:
        return Asked(path, problem=reason_of(error, path, cwd))
    except ValueError as error:
        return Asked(path, problem=str(error))
    notes = (*described.notes, *openness(path))
    return Asked(path, described.form, notes=notes, content=content_digest(path))


def _printed(ended: Ended, describe: DescribeLimits) -> bytes:
    if ended.code != 0:
        said = ended.err.end(400).strip()
        raise ValueError(f"describe ended with {code_text(ended.code)}{f': {said}' if said else ''}")
    if ended.out.total > describe.output_bytes:
        raise ValueError(f"describe printed {ended.out.total:,} bytes, over {describe.output_bytes:,}")
    return ended.out.data()
