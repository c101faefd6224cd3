"""fork and what-if: a conversation goes on another way from one of its entries, once, or in several ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentos.history import Parting, parting_of
from agentos.interfaces.cli.diff import act_line, side_object
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here, Invocation
from agentos.interfaces.cli.output import clipped, put_done, put_json, put_table, say
from agentos.interfaces.cli.run import driven
from agentos.interfaces.cli.variants import Variant, read_variants, variant_of
from agentos.interfaces.cli.waiting import end_of_turn, wait_for
from agentos.interfaces.cli.workplace import Network, Selection, Workplace, opened
from agentos.kernel import Fork, Kernel
from agentos.kernel import open as open_kernel
from agentos.kernel.reading import reading

COLUMNS = ("variant", "conversation", "outcome", "steps", "calls", "tokens", "ms", "answer", "parts with")
ANSWER_SHOWN = 40


async def fork(
    conversation: Annotated[str, Parameter(name="ID")],
    /,
    *,
    at: int | None = None,
    replace_result: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    model: str | None = None,
    prompt: Path | None = None,
    agent: str | None = None,
    run: Flag = False,
    network: Network | None = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Begin a conversation with what this one had come to at an entry. It shares those entries, and costs one row.

    Prints the new id, and on stderr where it begins: at the end of a unit, at the entry or before. A turn that was open
    there waits until the fork is run, by --run or by `agentos run --resume ID`.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    at
        the seq of the last entry to share; without it all, or with --replace-result those up to where the calls are open
    replace_result
        CALL=FILE: give a call that is open there the text of a file as its result
    model
        go on with another model
    prompt
        a file with the system prompt to go on with
    agent
        go on with another agent: its slug, or its file
    run
        run the open turn to its end
    json
        print one JSON object
    """
    variant = variant_of(model=model, prompt=prompt, agent=agent, results=replace_result)
    log = await _found(here, conversation)
    async with _kernel(here, network, bare=variant.is_plain and not run) as kernel:
        made = await _forked(kernel, log, at, variant, run=run)
        if json and not run:
            put_json(_as_object(made))
        elif not json:
            put_done(made.id)
        say(_where(made, at))
        if not run:
            return Exit.OK
        return await driven(kernel, {made: end_of_turn(kernel, made)}, wait=False, json=json)


async def what_if(
    conversation: Annotated[str, Parameter(name="ID")],
    /,
    *,
    at: int | None = None,
    variant: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    say_: Annotated[str | None, Parameter(name=["--say", "-p"])] = None,
    network: Network | None = None,
    json: Flag = False,
    here: Here,
) -> int:
    """Fork a conversation once for each variant, run all of them, and compare them in one table.

    A variant is NAME, which varies nothing, or NAME:KEY=VALUE,KEY=VALUE with the keys model, prompt (a file), agent (a slug
    or a file) and result (CALL=FILE); the option may be repeated for one name. `parts with` is the first thing that a
    variant says or does otherwise than the conversation itself.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has
    at
        the seq of the last entry to share
    variant
        what to vary
    say_
        what to say to each fork; needed where no turn is open
    json
        print one JSON object
    """
    variants = read_variants(variant)
    log = await _found(here, conversation)
    async with _kernel(here, network) as kernel:
        forks = [await _forked(kernel, log, at, one, run=False) for one in variants]
        _check_runs(forks, say_)
        say(_where(forks[0], at))
        turns = {one.id: one.ask(say_) if say_ is not None else _run(kernel, one) for one in forks}
        await wait_for(kernel, turns)
        partings = [await parting_of(kernel.store, log, one.id) for one in forks]
    if json:
        rows = zip(variants, forks, partings, strict=True)
        put_json({"conversation": log, "variants": [_row_object(*row) for row in rows]})
    else:
        put_table(COLUMNS, [_row(*row) for row in zip(variants, partings, strict=True)])
    return Exit.OK


@asynccontextmanager
async def _kernel(here: Invocation, network: Network | None, *, bare: bool = False) -> AsyncIterator[Kernel]:
    """With the agents of the project; a fork that varies nothing and is not run needs none."""
    if bare:
        async with open_kernel(here.store_url()) as kernel:
            yield kernel
        return
    async with opened(Workplace.of(here, Selection.on(network))) as kernel:
        yield kernel


async def _found(here: Invocation, text: str) -> str:
    async with reading(here.store_url()) as store:
        return await find_conversation(store, text)


async def _forked(kernel: Kernel, log: str, at: int | None, variant: Variant, *, run: bool) -> Fork:
    return await kernel.fork(
        log,
        at,
        replace_results=variant.results,
        model=variant.model,
        prompt=variant.prompt,
        agent=variant.agent,
        run=run,
    )


async def _run(kernel: Kernel, made: Fork) -> Any:
    await kernel.run_fork(made)
    return await kernel.outcome(made.id)


def _check_runs(forks: list[Fork], text: str | None) -> None:
    for made in forks:
        if not made.turn and text is None:
            why = f"no turn is open at seq {made.upto}, so there is nothing to run"
            raise UsageError(f"{why}; say something to the variants with -p, or fork where a turn is open")


def _where(made: Fork, at: int | None) -> str:
    rounded = f", where the unit before seq {at} ends" if at not in (None, made.upto) else ""
    goes_on = f"; turn {made.turn} is open" if made.turn else ""
    return f"begins with {made.forked_from} up to seq {made.upto}{rounded}{goes_on}; agent {made.agent}"


def _as_object(made: Fork) -> dict[str, Any]:
    return {
        "conversation": made.id,
        "forked_from": made.forked_from,
        "upto": made.upto,
        "open_turn": made.turn or None,
        "agent": made.agent,
    }


def _row(variant: Variant, parting: Parting) -> list[Any]:
    side = parting.b
    lines = side.answer.splitlines()
    parts = act_line(parting.pairs[0][1]) if parting.pairs else "nothing"
    tokens = f"{side.input_tokens}+{side.output_tokens}"
    facts = [side.outcome, side.steps, side.calls, tokens, round(side.ms)]
    return [variant.name, side.conversation, *facts, clipped(lines[0] if lines else "", ANSWER_SHOWN), parts]


def _row_object(variant: Variant, made: Fork, parting: Parting) -> dict[str, Any]:
    first = parting.pairs[0] if parting.pairs else None
    parts = None if first is None else {"was": act_line(first[0]), "is": act_line(first[1])}
    return {"variant": variant.name, "agent": made.agent, "upto": made.upto, **side_object(parting.b), "parts": parts}
