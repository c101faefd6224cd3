"""search: find what was said, by words, in all conversations of the store."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from agentos.errors import QueryRefused
from agentos.history import iso_time
from agentos.history.search.hits import Hit
from agentos.history.search.indexing import Indexing
from agentos.history.search.search import HITS, HITS_MAX, Found, Role, Wanted, search_store
from agentos.history.search.words import match_of
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here
from agentos.interfaces.cli.live import LiveLine
from agentos.interfaces.cli.output import bold, counted, put, put_json, say, visible
from agentos.interfaces.cli.past import time_of
from agentos.kernel.reading import Reading, reading

State = Literal["idle", "running", "parked", "paused", "closed"]

MARK = "1;33"
"""The ANSI style of a word that was looked for; where none is shown, it stands in [brackets]."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which texts are looked through."""

    agent: Annotated[str | None, Parameter(name=["--agent", "-a"], help="only in conversations of this agent")] = None
    tool: Annotated[str | None, Parameter(help="only arguments for this tool, and what it answered")] = None
    role: Annotated[
        Role | None, Parameter(help="only what the user, the assistant or a tool wrote; arguments are the assistant's")
    ] = None
    since: Annotated[str | None, Parameter(help="only from this time on: 2026-11-30T10:00:00Z, or '10m ago'")] = None
    until: Annotated[str | None, Parameter(help="only before this time")] = None
    root: Annotated[str | None, Parameter(help="only in this conversation and those of its subagents")] = None
    state: Annotated[State | None, Parameter(help="only in conversations that are in this state now")] = None
    thinking: Annotated[Flag, Parameter(help="what models thought, too")] = False

    async def wanted(self, store: Reading) -> Wanted:
        """Raises UsageError, UnknownConversation."""
        return Wanted(
            agent=self.agent,
            root=await find_conversation(store, self.root) if self.root is not None else None,
            state=self.state,
            role=self.role,
            tool=self.tool,
            since=time_of(self.since) if self.since is not None else None,
            until=time_of(self.until) if self.until is not None else None,
            thinking=self.thinking,
        )


async def search(
    *words: str,
    where: Where | None = None,
    newest: Flag = False,
    limit: Annotated[int, Parameter(name=["--limit", "-n"], validator=Number(gte=1, lte=HITS_MAX))] = HITS,
    after: str | None = None,
    rebuild: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Find what was said, by words, in all conversations: inputs, replies, arguments and results of tools.

    A text has to have all words, in whatever order, case and accents left aside: 'red ball'. Put a "phrase" into quotes, a
    star behind the beginning of a word* and a minus before a -word that is not wanted; give more than one word as one
    argument when a minus is among them. The best hits come first. Exit code 1 when there is none.

    Parameters
    ----------
    words
        what to look for
    newest
        the newest hits first
    limit
        how many at most
    after
        go on behind this hit: the cursor that the page before ended with
    rebuild
        make the index anew from the log first
    json
        print one JSON object
    """
    typed = " ".join(words)
    _check(typed)
    telling = _Telling()
    async with reading(here.store_url()) as store, LiveLine(telling.line):
        wanted = await (where or Where()).wanted(store)
        found = await search_store(
            store.store, typed, wanted, limit=limit, newest=newest, after=after, rebuild=rebuild, tell=telling.tell
        )
        _say_index(found)
    if json:
        put_json(_object(found))
    else:
        _put(found)
    return Exit.OK if found.hits else Exit.FAILURE


def _check(words: str) -> None:
    """Raises UsageError for words that cannot be looked for."""
    try:
        match_of(words)
    except QueryRefused as refused:
        raise UsageError(str(refused)) from refused


class _Telling:
    """What the line on a terminal says while the index is brought up to date."""

    def __init__(self) -> None:
        self._last: Indexing | None = None

    def tell(self, indexing: Indexing) -> None:
        self._last = indexing

    def line(self) -> str:
        if self._last is None:
            return ""
        logs, all_logs, texts = self._last
        return f"indexing: {logs:,} of {counted(all_logs, 'conversation')}, {texts:,} texts"


def _say_index(found: Found) -> None:
    if found.behind:
        say("another process brings the index up to date at this moment; what was said last may be missing")
    if found.unkept is not None:
        say(f"the index cannot be kept at {found.unkept}; it was made in memory, for this search alone")


def _put(found: Found) -> None:
    for hit in found.hits:
        put(_head(hit))
        print(f"    {_marked(hit)}")
    if not found.hits:
        say(f"nothing found in {counted(found.texts, 'text')}")
        return
    first = found.hits[0]
    say(f"'agentos show {first.conversation} --at {first.seq}' opens the first")
    if found.more:
        say(f"more: --after {found.hits[-1].cursor}, or a larger --limit")


def _head(hit: Hit) -> str:
    """When, in which conversation of whom, at which seq, who wrote it, and in which forks it stands too."""
    who = f"{hit.role} {hit.part} {hit.tool}" if hit.tool else f"{hit.role} {hit.part}"
    turn = f", turn {hit.turn.rpartition('_')[2]}" if hit.turn else ""
    forks = f", in {counted(len(hit.forks), 'fork')} too" if hit.forks else ""
    return f"{iso_time(hit.at)}  {hit.conversation} {hit.agent}  seq {hit.seq}{turn}  {who}{forks}"


def _marked(hit: Hit) -> str:
    """The snippet, harmless on a terminal."""
    parts: list[str] = []
    last = 0
    for begin, end in hit.marks:
        word = visible(hit.snippet[begin:end])
        styled = bold(word, sys.stdout, MARK)
        parts += [visible(hit.snippet[last:begin]), styled if styled != word else f"[{word}]"]
        last = end
    return "".join((*parts, visible(hit.snippet[last:])))


def _object(found: Found) -> dict[str, Any]:
    """hits, whether there are more, and the cursor to go on with."""
    hits = [
        {**msgspec.to_builtins(hit), "at": iso_time(hit.at), "at_us": hit.at, "cursor": hit.cursor}
        for hit in found.hits
    ]
    return {
        "hits": hits,
        "more": found.more,
        "after": found.hits[-1].cursor if found.more else None,
        "texts": found.texts,
        "index": found.index,
        "behind": found.behind,
    }
