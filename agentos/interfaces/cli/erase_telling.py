"""What `erase` shows: what would go, what went, and the file of receipts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agentos.history import iso_time
from agentos.interfaces.cli.errors import UsageError
from agentos.interfaces.cli.output import counted, put, put_json, put_table, say
from agentos.kernel import ErasePlan, Erasure, Receipt
from agentos.kernel.erase_plan import Target

PLAN_COLUMNS = ("conversation", "agent", "state", "texts", "goes as")
COLUMNS = ("conversation", "agent", "receipt", "texts", "erased at", "by", "reason")
EXPIRED_COLUMNS = ("conversation", "agent", "last entry", "with", "texts")
MODE = 0o600


@contextmanager
def receipt_file(path: Path | None) -> Iterator[BinaryIO | None]:
    """The file for the receipts, found writable before anything is erased; it is gone again when nothing was written.

    Errors: UsageError when something stands in it already; OSError.
    """
    if path is None:
        yield None
        return
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, MODE), "wb") as file:
        is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if is_regular and os.fstat(file.fileno()).st_size:
            raise UsageError(f"{path} holds something already; name another file for the receipts")
        try:
            yield file
        finally:
            file.flush()
            if is_regular and not file.tell():
                path.unlink(missing_ok=True)


def write_receipts(erasures: Sequence[Erasure], file: BinaryIO | None) -> None:
    """As JSON, on the disk when this returns: one erasure as an object, many as a list. Raises OSError."""
    if file is None:
        return
    plain = [as_object(one) for one in erasures]
    file.write(msgspec.json.format(msgspec.json.encode(plain[0] if len(plain) == 1 else plain), indent=2) + b"\n")
    file.flush()
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fsync(file.fileno())


def as_object(erasure: Erasure) -> dict[str, Any]:
    """Receipts with their times as text too."""
    plain: dict[str, Any] = msgspec.to_builtins(erasure)
    receipts = [{**msgspec.to_builtins(one), "at": iso_time(one.at), "at_us": one.at} for one in erasure.receipts]
    return {**plain, "receipts": receipts, "bodies": erasure.bodies}


def show_plan(plan: ErasePlan, *, json: bool) -> None:
    if json:
        put_json({"conversation": plan.conversation, "logs": [_plan_object(one, plan) for one in plan.targets]})
        return
    put_table(PLAN_COLUMNS, [[one.log, one.agent, one.state, one.bodies, _goes_as(one, plan)] for one in plan.targets])
    if plan.itself.forked_from is not None:
        say(f"entries up to {plan.itself.upto} are shared with {plan.itself.forked_from}, and stay there")


def show_expired(plans: Sequence[ErasePlan]) -> None:
    put_table(EXPIRED_COLUMNS, [list(expired_object(plan).values()) for plan in plans])


def expired_object(plan: ErasePlan) -> dict[str, Any]:
    """One that has had its time: with counts the conversations that go along with it."""
    texts = sum(target.bodies for target in plan.standing)
    itself = plan.itself
    return {
        "conversation": itself.log,
        "agent": itself.agent,
        "updated_at": iso_time(itself.updated_at),
        "with": len(plan.standing) - 1,
        "texts": texts,
    }


def tell(erasures: Sequence[Erasure]) -> None:
    put_table(COLUMNS, [_row(one) for erasure in erasures for one in erasure.receipts])
    for erasure in erasures[:1]:
        put()
        put(erasure.store)
        put(erasure.elsewhere)
    for erasure in erasures:
        if not erasure.new:
            say(f"{erasure.conversation} was erased before; these are its receipts")
    for erasure in erasures:
        if erasure.living_forks:
            forks = ", ".join(erasure.living_forks)
            many = counted(len(erasure.living_forks), "fork")
            say(f"{erasure.conversation}: {many} began meanwhile, with what they were told since: {forks}")


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


def _row(receipt: Receipt) -> list[Any]:
    entry = f"{receipt.seq} {receipt.digest[:16]}"
    return [receipt.log, receipt.agent, entry, receipt.bodies, iso_time(receipt.at), receipt.by, receipt.reason]
