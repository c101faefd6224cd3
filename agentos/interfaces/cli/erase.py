"""erase: the texts of a conversation and of all below it, for good; or of all that has had its time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from agentos.codec import decode_text
from agentos.definitions import load_all, load_project
from agentos.history import iso_time
from agentos.ids import LogId
from agentos.interfaces.cli.errors import Exit, UsageError
from agentos.interfaces.cli.finding import find_conversation
from agentos.interfaces.cli.invocation import Flag, Here, Invocation
from agentos.interfaces.cli.output import counted, is_terminal, put, put_json, put_table, say
from agentos.kernel import ErasePlan, Erasure, Kernel, Receipt
from agentos.kernel import open as open_kernel
from agentos.kernel.erase_plan import Target
from agentos.kernel.reading import reading

PLAN_COLUMNS = ("conversation", "agent", "state", "texts", "goes as")
COLUMNS = ("conversation", "agent", "receipt", "texts", "erased at", "by", "reason")
EXPIRED_COLUMNS = ("conversation", "agent", "last entry")
UNSETTLED = (
    "somebody reads an older view of the store, so its files still hold the bytes; the next writer overwrites them, and so"
    " does erasing again"
)
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
        a file to write the receipts to, as JSON
    json
        print one JSON object
    """
    if (conversation is None) != expired:
        raise UsageError("say the ID of one conversation, or --expired for all that have had their time")
    if expired:
        return await _erase_expired(here, limit, yes=yes, dry_run=dry_run, receipt=receipt, json=json)
    async with reading(here.store_url()) as store:
        id_ = await find_conversation(store, str(conversation))
    async with open_kernel(here.store_url()) as kernel:
        _keep_to_project(kernel)
        plan = await kernel.erase_plan(id_, forks=with_forks)
        if dry_run or (plan.standing and not json):
            _show_plan(plan, json=json)
        if dry_run:
            return Exit.OK
        if plan.standing and not (yes or _agreed(f"erase {counted(len(plan.standing), 'conversation')} for good?")):
            say("nothing was erased")
            return Exit.FAILURE
        typed = await _inputs_of(kernel, [target.log for target in plan.standing])
        erasure = await kernel.erase(id_, by=by, reason=reason, forks=with_forks)
    _forget_typed(typed)
    _write([erasure], receipt)
    if json:
        put_json(as_object(erasure))
    else:
        _tell([erasure])
    return Exit.OK


async def _erase_expired(
    here: Invocation, limit: int, *, yes: bool, dry_run: bool, receipt: Path | None, json: bool
) -> int:
    left: list[tuple[str, str]] = []
    async with open_kernel(here.store_url()) as kernel:
        _keep_to_project(kernel)
        found = await kernel.expired(limit)
        rows = [[one.log, one.agent, iso_time(one.updated_at)] for one in found]
        if dry_run and json:
            put_json(
                {"expired": [dict(zip(("conversation", "agent", "updated_at"), row, strict=True)) for row in rows]}
            )
        elif not json:
            put_table(EXPIRED_COLUMNS, rows)
        if dry_run or not found:
            if not found:
                say("no conversation has had its time")
            return Exit.OK
        if not (yes or _agreed(f"erase {counted(len(found), 'conversation')} for good, with all below?")):
            say("nothing was erased")
            return Exit.FAILURE
        typed = {one.log: await _inputs_of(kernel, [one.log]) for one in found}
        erasures = await kernel.erase_expired(limit, tell=lambda log, why: left.append((log, why)))
    _forget_typed([text for one in erasures for text in typed.get(LogId(one.conversation), ())])
    _write(erasures, receipt)
    if json:
        put_json({"erased": [as_object(one) for one in erasures], "left": [[log, why] for log, why in left]})
    else:
        _tell(erasures)
    for log, why in left:
        say(f"{log} is left: {why}")
    return Exit.OK


def as_object(erasure: Erasure) -> dict[str, Any]:
    """Receipts with their times as text too."""
    plain: dict[str, Any] = msgspec.to_builtins(erasure)
    receipts = [{**msgspec.to_builtins(one), "at": iso_time(one.at), "at_us": one.at} for one in erasure.receipts]
    return {**plain, "receipts": receipts, "bodies": erasure.bodies}


def _keep_to_project(kernel: Kernel) -> None:
    """The retention rules of the agents of this project, as their files say them now."""
    for spec in load_all(load_project(Path.cwd()), ()).agents.values():
        kernel.keep_to(spec)


def _show_plan(plan: ErasePlan, *, json: bool) -> None:
    if json:
        put_json({"conversation": plan.conversation, "logs": [_plan_object(one, plan) for one in plan.targets]})
        return
    put_table(PLAN_COLUMNS, [[one.log, one.agent, one.state, one.bodies, _goes_as(one, plan)] for one in plan.targets])
    if plan.itself.forked_from is not None:
        say(f"entries up to {plan.itself.upto} are shared with {plan.itself.forked_from}, and stay there")


def _plan_object(target: Target, plan: ErasePlan) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(target)
    return {**plain, "goes_as": _goes_as(target, plan)}


def _goes_as(target: Target, plan: ErasePlan) -> str:
    if target.erased_at is not None:
        return f"erased at {iso_time(target.erased_at)}"
    if target.log == plan.conversation:
        return "itself"
    if target.parent_call is not None:
        return f"child of {target.parent}"
    return f"fork of {target.forked_from}"


def _agreed(question: str) -> bool:
    """Asks who sits there. Raises UsageError when nobody does."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("nobody sits here to be asked; say --yes to erase, or --dry-run to see what would go")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _inputs_of(kernel: Kernel, logs: Sequence[str]) -> list[str]:
    """What people said, which may stand in the history of the chat too."""
    return [decode_text(text) for log in logs for (text,) in (await kernel.query(_INPUTS, (log,))).rows]


def _forget_typed(texts: Sequence[str]) -> None:
    from agentos.interfaces.cli.chat.history import History

    history = History.of_user()
    gone = history.forget(texts)
    if gone:
        say(f"{counted(gone, 'line')} went from {history.path}, the history of the chat of this user")


def _write(erasures: Sequence[Erasure], path: Path | None) -> None:
    """The receipts as JSON: one erasure as an object, many as a list."""
    if path is None:
        return
    plain = [as_object(one) for one in erasures]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plain[0] if len(plain) == 1 else plain), indent=2) + b"\n")


def _tell(erasures: Sequence[Erasure]) -> None:
    put_table(COLUMNS, [_row(one) for erasure in erasures for one in erasure.receipts])
    for erasure in erasures[:1]:
        put()
        put(erasure.store)
        put(erasure.elsewhere)
    for erasure in erasures:
        if not erasure.settled:
            say(f"{erasure.conversation}: {UNSETTLED}")
        if not erasure.new:
            say(f"{erasure.conversation} was erased before; these are its receipts")


def _row(receipt: Receipt) -> list[Any]:
    entry = f"{receipt.seq} {receipt.digest[:16]}"
    return [receipt.log, receipt.agent, entry, receipt.bodies, iso_time(receipt.at), receipt.by, receipt.reason]
