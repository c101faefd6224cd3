"""replay and verify: would it be decided again, and is it still what was written?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agentos.history import Divergence, Identical, Replayed, heads_digest, replay_all, replay_log, verify_store
from agentos.history.report import Difference
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.errors import Exit
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say
from agentos.kernel.reading import Reading, reading


async def replay(
    conversation: str | None = None,
    /,
    *,
    json: Flag = False,
    here: Here,
) -> int:
    """Decide one conversation, or all, again from what was recorded, and compare entry by entry. Nothing is called.

    Prints `identical`, or the first entry that would be decided otherwise with both sides; exit code 0 or 1.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has; without one, all are replayed
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        one = await find_conversation(store, conversation) if conversation is not None else None
        results = [result async for result in _replayed(store, one)]
    diverged = [result for result in results if isinstance(result, Divergence)]
    identical = [result for result in results if isinstance(result, Identical)]
    if json:
        put_json({"identical": not diverged, "conversations": [_object(result) for result in results]})
    elif one is not None:
        _put_one(results[0])
    else:
        _put_all(identical, diverged)
    return Exit.FAILURE if diverged else Exit.OK


async def verify(*, json: Flag = False, here: Here) -> int:
    """Recompute digests, commitments and tables from the log; differences name log, seq and table. Exit code 0 or 1.

    The digest of all heads is that of every store that holds the same entries, whatever kind it is of.

    Parameters
    ----------
    json
        print one JSON object
    """
    async with reading(here.store_url()) as store:
        report = await verify_store(store.store)
        heads = await heads_digest(store.store)
    if json:
        counts = {"logs": report.logs, "entries": report.entries, "payloads": report.payloads}
        differences = [_difference(difference) for difference in report.differences]
        put_json({"ok": report.ok, **counts, "heads": heads, "differences": differences, "more": report.more})
    else:
        put(str(report))
        for difference in report.differences:
            put(f"  {difference}")
        if report.more:
            say(f"and {report.more} more")
        put(f"heads: {heads}")
    return Exit.OK if report.ok else Exit.FAILURE


async def _replayed(store: Reading, one: str | None) -> AsyncIterator[Replayed]:
    """One result, or those of all conversations; other logs have no passes."""
    if one is not None:
        yield await replay_log(store.store, one)
        return
    async for result in replay_all(store.store):
        if isinstance(result, (Identical, Divergence)):
            yield result


def _put_one(result: Replayed) -> None:
    put(f"{result.log}: {result}" if isinstance(result, Divergence) else str(result))
    if isinstance(result, Divergence):
        _put_sides(result)


def _put_all(identical: list[Identical], diverged: list[Divergence]) -> None:
    for result in diverged:
        _put_one(result)
    entries = sum(result.entries for result in identical)
    if diverged:
        put(f"{len(diverged)} of {len(identical) + len(diverged)} conversations diverged")
    else:
        put(f"identical: {len(identical)} conversations, {entries} entries")
    other = {rules for result in identical for rules in result.other_rules}
    if other:
        say(f"some turns were decided under other rules than those of this program: {', '.join(sorted(other))}")


def _put_sides(result: Divergence) -> None:
    for name, side in (("stored", result.stored), ("produced", result.produced)):
        put(f"  {name}:" if side else f"  {name}: nothing")
        for path, value in side.items():
            put(f"    {path}: {body_text(value)}")


def _object(result: Replayed) -> dict[str, Any]:
    if isinstance(result, Divergence):
        return {
            "conversation": result.log,
            "identical": False,
            "seq": result.seq,
            "kind": result.kind,
            "field": result.field,
            "stored": dict(result.stored),
            "produced": dict(result.produced),
            "other_rules": list(result.other_rules),
        }
    assert isinstance(result, Identical)
    counts = {"entries": result.entries, "units": result.units, "erased": result.erased}
    return {"conversation": result.log, "identical": True, **counts, "other_rules": list(result.other_rules)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "log": difference.log,
        "seq": difference.seq,
        "table": difference.table,
        "field": difference.field,
        "stored": difference.stored,
        "expected": difference.expected,
    }
