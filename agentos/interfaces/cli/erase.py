"""erase: the texts of a conversation and of all below it, for good; or of all that has had its time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import msgspec
from cyclopts import Parameter

from agentos.codec import decode_text
from agentos.definitions import load_all, load_project
from agentos.errors import StoreError
from agentos.ids import LogId
from agentos.interfaces.cli import erase_telling as telling
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here, Invocation
from agentos.interfaces.cli.output import counted, is_terminal, put_json, say
from agentos.kernel import ErasePlan, Erasure, Kernel
from agentos.kernel import open as open_kernel
from agentos.kernel.erasure import unsettled_words
from agentos.kernel.reading import reading
from agentos.settings import Settings

COMPACTING = "writing the store anew: it takes as long as the store is large, and nobody else writes to it meanwhile"
COMPACTED = "the store is written anew: nothing is left in its files of what was erased at any time"
_INPUTS = """
select text from messages join logs on logs.n = messages.n where logs.id = ? and role = 'user' and text is not null
"""


async def erase(
    conversation: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    with_forks: Flag = False,
    expired: Flag = False,
    reason: str = "request",
    by: str = "user",
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", show_default=False)] = False,
    dry_run: Flag = False,
    limit: int = 1_000,
    receipt: Path | None = None,
    compact: Flag = False,
    json: Flag = False,
    here: Here,
) -> int:
    """Erase the texts of a conversation and of all below it: inputs, replies, arguments, results. It cannot be undone.

    Entries, digests, times, counters and names of agents and tools stay, and still verify; a receipt in each log says what
    went, when and why. The conversation is closed by it. What will go is shown first, and asked about at a terminal. It is
    refused while a turn is open, while forks live that share its entries, and before the time that its agent keeps it.

    Parameters
    ----------
    conversation
        its id, or a part of it that no other has; that of a root or a fork
    with_forks
        also the forks that share its entries, with all below them
    expired
        in place of one conversation: all that have had their time by `retention` of their agents
    reason
        a name that stands in the receipts
    by
        who erases, a name that stands in the receipts
    yes
        do not ask; needed where nobody sits at a terminal
    dry_run
        show what would go, and erase nothing
    limit
        with --expired, how many conversations at most
    receipt
        a file that is not there yet, to write the receipts to, as JSON
    compact
        then write the files of the store anew, without anything that is left in them of what was erased; without an ID,
        only that. It takes as long as the store is large, and nobody else writes meanwhile (with PostgreSQL, or reads)
    json
        print one JSON object
    """
    if compact and conversation is None and not expired:
        return await _compact(here, json=json)
    if (conversation is None) != expired:
        raise UsageError("say the ID of one conversation, or --expired for all that have had their time")
    if limit < 1:
        raise UsageError(f"--limit is {limit}; at least 1 is needed")
    with telling.receipt_file(None if dry_run else receipt) as file:
        how = _How(with_forks, reason, by, yes, dry_run, limit, file, compact, json)
        return await (_erase_expired(here, how) if conversation is None else _erase_one(here, conversation, how))


class _How(NamedTuple):
    with_forks: bool
    reason: str
    by: str
    yes: bool
    dry_run: bool
    limit: int
    receipts: BinaryIO | None
    compact: bool
    json: bool


async def _erase_one(here: Invocation, conversation: str, how: _How) -> int:
    async with reading(here.store_url()) as store:
        id_ = await find_conversation(store, conversation)
    async with _opened(here) as kernel:
        plan = await kernel.erase_plan(id_, forks=how.with_forks)
        if how.dry_run or (plan.standing and not how.json):
            telling.show_plan(plan, json=how.json)
        if how.dry_run:
            return Exit.OK
        if plan.standing and not (how.yes or _agreed(f"erase {counted(len(plan.standing), 'conversation')} for good?")):
            say("nothing was erased")
            return Exit.FAILURE
        typed = await _inputs_of(kernel, [plan])
        with _cut_short():
            erasures = [await kernel.erase(id_, by=how.by, reason=how.reason, forks=how.with_forks)]
        telling.write_receipts(erasures, how.receipts)
        code = _forget_typed(erasures, typed)
        if how.compact:
            erasures = await _compacted(kernel, erasures)
    if how.json:
        put_json(telling.as_object(erasures[0]))
    else:
        telling.tell(erasures)
    return _settled(here, erasures, how) or code


async def _erase_expired(here: Invocation, how: _How) -> int:
    left: dict[str, str] = {}
    async with _opened(here) as kernel:
        found = await kernel.expired(how.limit, tell=left.__setitem__)
        if how.dry_run and how.json:
            put_json({"expired": [telling.expired_object(plan) for plan in found], "left": list(left.items())})
        elif not how.json:
            telling.show_expired(found)
        if how.dry_run or not found:
            if not found:
                say("no conversation has had its time")
            if how.json and not how.dry_run:
                put_json({"erased": [], "left": list(left.items())})
            _tell_left(left)
            return Exit.OK
        if not (how.yes or _agreed(f"erase {counted(len(found), 'conversation')} for good, with all below?")):
            say("nothing was erased")
            return Exit.FAILURE
        typed = await _inputs_of(kernel, found)
        among = {plan.conversation for plan in found}
        with _cut_short():
            erasures = await kernel.erase_expired(how.limit, tell=left.__setitem__, among=among)
        telling.write_receipts(erasures, how.receipts)
        code = _forget_typed(erasures, typed)
        if how.compact:
            erasures = await _compacted(kernel, erasures)
    if how.json:
        put_json({"erased": [telling.as_object(one) for one in erasures], "left": list(left.items())})
    else:
        telling.tell(erasures)
    _tell_left(left)
    return _settled(here, erasures, how) or code


async def _compact(here: Invocation, *, json: bool) -> int:
    say(COMPACTING)
    async with _opened(here) as kernel:
        is_done = await kernel.compact()
        words = COMPACTED if is_done else unsettled_words(kernel.store.url)
    if json:
        put_json({"compacted": is_done})
    say(words)
    return Exit.OK if is_done else Exit.FAILURE


async def _compacted(kernel: Kernel, erasures: Sequence[Erasure]) -> list[Erasure]:
    """What is erased is told also when the store cannot be written anew."""
    say(COMPACTING)
    try:
        settled = await kernel.compact()
    except StoreError as error:
        say(f"it is erased, and the store was not written anew: {error}; 'agentos erase --compact' does it")
        settled = False
    return [msgspec.structs.replace(erasure, settled=settled) for erasure in erasures]


def _settled(here: Invocation, erasures: Sequence[Erasure], how: _How) -> int:
    """Says when bytes are left in the files, which is a failure for whoever asked for --compact alone."""
    if all(erasure.settled for erasure in erasures):
        return Exit.OK
    say(unsettled_words(here.store_url()))
    return Exit.FAILURE if how.compact else Exit.OK


def _tell_left(left: Mapping[str, str]) -> None:
    for log, why in left.items():
        say(f"{log} is left: {why}")


@asynccontextmanager
async def _opened(here: Invocation) -> AsyncIterator[Kernel]:
    """A kernel with the limits of this project, and the retention rules of its agents as their files say them now."""
    project = load_project(Path.cwd())
    settings = project.settings if project is not None else Settings()
    async with open_kernel(here.store_url(), settings=settings) as kernel:
        for spec in load_all(project, ()).agents.values():
            kernel.keep_to(spec)
        yield kernel


@contextmanager
def _cut_short() -> Iterator[None]:
    """Says what an interrupt in the middle leaves."""
    try:
        yield
    except asyncio.CancelledError:
        say(
            "cut short: what is erased stays so, with its receipts ('agentos ps'); the same command again does the rest"
        )
        raise


def _agreed(question: str) -> bool:
    """Asks who sits there. Raises UsageError when nobody does."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("nobody sits here to be asked; say --yes to erase, or --dry-run to see what would go")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _inputs_of(kernel: Kernel, plans: Sequence[ErasePlan]) -> dict[LogId, list[str]]:
    """What people said, by log, which may stand in the history of the chat too."""
    logs = {target.log for plan in plans for target in plan.standing}
    return {log: [decode_text(text) for (text,) in (await kernel.query(_INPUTS, (log,))).rows] for log in logs}


def _forget_typed(erasures: Sequence[Erasure], typed: Mapping[LogId, Sequence[str]]) -> int:
    """Takes it out of the history of the chat; when that cannot be done, this is said, and is a failure."""
    from agentos.interfaces.cli.chat.history import History

    history = History.of_user()
    logs = [receipt.log for erasure in erasures for receipt in erasure.receipts]
    try:
        gone = history.forget([text for log in logs for text in typed.get(log, ())])
    except OSError as error:
        say(f"the history of the chat of this user, {history.path}, still holds what was typed: {error.strerror}")
        return Exit.FAILURE
    if gone:
        say(f"{counted(gone, 'line')} went from {history.path}, the history of the chat of this user")
    return Exit.OK
