"""lineage: the tree of calls below a conversation, turn or call, through all subagents; whole, sifted, or as it grows."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.history import lineage_of, render_tree
from agentos.history.lineage.ancestry import chain_of, render_chain
from agentos.history.lineage.following import Frame, frames_as_stored
from agentos.history.lineage.sifting import Sift, has_status, sifted
from agentos.interfaces.cli.entries import clock_of
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.finding import find_place
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.output import put, put_json, say
from agentos.kernel.reading import Reading, reading


async def lineage(
    id_: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    tool: str | None = None,
    status: str | None = None,
    slow: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    min_tokens: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    sums: Flag = False,
    follow: Flag = False,
    path: str | None = None,
    json: Flag = False,
    here: Here,
) -> None:
    """Print the tree of turns, steps, calls and child conversations with status, milliseconds and tokens.

    Filters leave the nodes that fit all of them, and those above them. With --follow: frames as they are stored, from the
    open turn on, or the last one, until it ends; another process may be at work. With --path: the chain of one call.

    Parameters
    ----------
    id_
        a conversation by its id or a part of it, or the id of a turn or call
    agent
        only what conversations of this agent did
    tool
        only calls of this tool
    status
        only what has this status: failed finds failed(raised) too
    slow
        only what took so many milliseconds or more
    min_tokens
        only what took so many tokens or more, in and out, subagents included
    sums
        calls and subagents below each node too, and of all sums what its conversation took alone
    follow
        print frames as they are stored, until the conversation, turn or call ends
    path
        the id of a call: print its chain, root first
    json
        print one JSON object; with --follow one for each frame, on a line of its own
    """
    sift = Sift(agent=agent, tool=tool, status=status, slow_ms=slow, min_tokens=min_tokens)
    if (id_ is None) == (path is None):
        raise UsageError(
            "name a conversation, turn or call; or a call with --path"
            if id_ is None
            else "--path says it all: the id of a call tells its conversation; leave out the other one"
        )
    if path is not None and (follow or sums or sift != Sift()):
        raise UsageError("--path shows one chain as it is; leave out --follow, --sums and filters")
    async with reading(here.store_url()) as store:
        if path is not None:
            _put_chain(await chain_of(store.store, await _id(store, path)), json=json)
        elif follow:
            await _follow(store, await _id(store, id_ or ""), sift, json=json)
        else:
            await _put_tree(store, await _id(store, id_ or ""), sift, sums=sums, json=json)


async def _id(store: Reading, text: str) -> str:
    place = await find_place(store, text)
    return text.strip() if place.seq else place.conversation


async def _put_tree(store: Reading, id_: str, sift: Sift, *, sums: bool, json: bool) -> None:
    found = sifted(await lineage_of(store.store, id_), sift)
    sifts = sift != Sift()
    if json:
        plain: dict[str, Any] = msgspec.to_builtins(found.tree)
        put_json({**plain, "matches": found.matches} if sifts else plain)
        return
    put(render_tree(found.tree, sums=sums))
    if sifts:
        say(f"{found.matches} of {found.nodes} nodes fit; those above them stand where they are")


def _put_chain(links: Any, *, json: bool) -> None:
    if json:
        put_json({"path": msgspec.to_builtins(links)})
        return
    for line in render_chain(links):
        put(line)


async def _follow(store: Reading, id_: str, sift: Sift, *, json: bool) -> None:
    async for frame in frames_as_stored(store.store, id_):
        if not _fits(frame, sift):
            continue
        if json:
            put_json(msgspec.to_builtins(frame), stream=True)
        else:
            put(_line(frame), flush=True)


def _fits(frame: Frame, sift: Sift) -> bool:
    """What is known at the end alone is asked of ends."""
    return (
        (sift.agent is None or frame.agents[-1:] == (sift.agent,))
        and (sift.tool is None or (frame.kind == "call" and frame.name == sift.tool))
        and (sift.status is None or has_status(frame.status, sift.status))
        and (sift.slow_ms is None or (frame.ms is not None and frame.ms >= sift.slow_ms))
        and (sift.min_tokens is None or frame.tokens.input + frame.tokens.output >= sift.min_tokens)
    )


def _line(frame: Frame) -> str:
    """The time, the agents from the root down, what it is, and how it went."""
    name = f" {frame.name}" if frame.name else ""
    ms = f", {frame.ms:.1f} ms" if frame.ms is not None else ""
    tokens = f", {frame.tokens}" if frame.tokens.input or frame.tokens.output else ""
    child = f" in {frame.child}" if frame.child else ""
    what = frame.id if frame.kind == "conversation" else f"{frame.kind} {_number(frame)}{name}"
    return f"{clock_of(frame.at)}  {' > '.join(frame.agents)}  {what}  {frame.status}{child}{ms}{tokens}"


def _number(frame: Frame) -> str:
    """Which step of its turn; else the seq by which turns and calls are known in their conversation."""
    return frame.id.rpartition("_")[2] if frame.step is None else str(frame.step)
