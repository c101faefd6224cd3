"""replay: would it be decided again, as it was or with another configuration?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.history import (
    Departed,
    Divergence,
    Identical,
    Replayed,
    family_of,
    replay_against,
    replay_family,
    replay_log,
)
from agentos.history.against.variant_files import variant_of
from agentos.history.replay.portions import replay_in_processes
from agentos.interfaces.cli.departures import departure_object, put_departures
from agentos.interfaces.cli.entries import body_text
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.live_replay import LiveOptions, check_live, replay_live
from agentos.interfaces.cli.output import counted, put, put_json, say
from agentos.interfaces.cli.workplace import Network
from agentos.kernel.reading import Reading, reading


async def replay(
    conversation: str | None = None,
    /,
    *,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    children: Flag = False,
    against: Path | None = None,
    jobs: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    live: LiveOptions | None = None,
    network: Network | None = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Decide one conversation, or all, again from what was recorded, and compare entry by entry. Nothing is called.

    Prints `identical`, or the first entry that would be decided otherwise with both sides; exit code 0 or 1.

    With --against, a conversation is decided again with what a file says instead: another agent, a prompt (.txt, or .md
    without a head), tools as 'agentos tool list --json' prints them, or the script of a model. Recorded replies and results
    are used as long as the requests stay the same. The first thing that departs is named, with both sides and the calls
    that come of it.

    With --with-model, a conversation is run anew by the real model, in a fork: the inputs from the first or the chosen turn
    on are given again. A call that the record has gets its recorded result. Any other is denied, or with --with-tools run;
    then each that is not `pure` is asked about at the terminal. What became of it is compared with the original, which
    stays as it is.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has; without one, all are replayed
    all_
        replay the whole store, as without CONVERSATION
    children
        with all conversations below it, each by itself; the heads that its calls name are looked for in them
    against
        the file that says what is to be otherwise
    jobs
        how many processes replay the whole store; by default one for each core
    json
        print one JSON object
    """
    _check_usage(conversation, all_=all_, children=children, against=against, jobs=jobs)
    live = live or LiveOptions()
    check_live(live, network, conversation, others=children or against is not None)
    if live.asked and conversation is not None:
        return await replay_live(conversation, live, network, json=json, here=here)
    if against is not None:
        assert conversation is not None, "it was asked for"
        return await _against(here.store_url(), conversation, against, children=children, json=json)
    results = await _results(here.store_url(), conversation, children=children, jobs=jobs)
    diverged = [result for result in results if isinstance(result, Divergence)]
    identical = [result for result in results if isinstance(result, Identical)]
    if json:
        put_json({"identical": not diverged, "conversations": [_object(result) for result in results]})
    elif conversation is not None and not children:
        _put_one(results[0])
    else:
        _put_all(identical, diverged)
    return Exit.FAILURE if diverged else Exit.OK


def _check_usage(
    conversation: str | None, *, all_: bool, children: bool, against: Path | None, jobs: int | None
) -> None:
    """Raises UsageError for options that do not go together."""
    if conversation is not None and (all_ or jobs is not None):
        raise UsageError(f"{'--all' if all_ else '--jobs'} is for the whole store; leave out the conversation")
    if conversation is None and (children or against is not None):
        name = "--children" if children else "--against"
        raise UsageError(f"{name} is for one conversation; say which: agentos replay ID {name}")


async def _results(url: str, conversation: str | None, *, children: bool, jobs: int | None) -> list[Replayed]:
    """Those of one conversation, of its family, or of all; other logs have no passes."""
    async with reading(url) as store:
        one = await find_conversation(store, conversation) if conversation is not None else None
        if one is not None:
            return await replay_family(store.store, one) if children else [await replay_log(store.store, one)]
    found = [result async for result in replay_in_processes(url, jobs)]
    return [result for result in found if isinstance(result, (Identical, Divergence))]


async def _against(url: str, conversation: str, file: Path, *, children: bool, json: bool) -> int:
    """One conversation, or those of its family that the same agent has."""
    variant = variant_of(file)
    async with reading(url) as store:
        one = await find_conversation(store, conversation)
        logs = await _of_same_agent(store, one) if children else [one]
        results = [await replay_against(store.store, log, variant) for log in logs]
    departed = any(isinstance(result, Departed) for result in results)
    if json:
        objects = [departure_object(result) for result in results]
        put_json({"against": variant.name, "unchanged": not departed, "conversations": objects})
    else:
        put_departures(variant.name, results)
    return Exit.FAILURE if departed else Exit.OK


async def _of_same_agent(store: Reading, conversation: str) -> list[str]:
    sql = "select id from conversations where agent = (select agent from conversations where id = ?)"
    same = {id_ for (id_,) in (await store.query(sql, (conversation,))).rows}
    return [row.id for row in await family_of(store.store, conversation) if row.id in same]


def _put_one(result: Replayed) -> None:
    put(f"{result.log}: {result}" if isinstance(result, Divergence) else str(result))
    if isinstance(result, Divergence):
        _put_sides(result)


def _put_all(identical: list[Identical], diverged: list[Divergence]) -> None:
    for result in diverged:
        _put_one(result)
    entries = sum(result.entries for result in identical)
    if diverged:
        put(f"{len(diverged)} of {counted(len(identical) + len(diverged), 'conversation')} diverged")
    else:
        put(f"identical: {counted(len(identical), 'conversation')}, {entries} entries")
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
