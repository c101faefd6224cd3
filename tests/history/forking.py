"""Forks as the kernel will begin them: a log of its own that shares the entries of another one up to the end of a unit."""

from __future__ import annotations

from collections.abc import Sequence

from agentos.components import AgentContext, CallConfig, Narrowing
from agentos.events.entry import Registry
from agentos.events.intake import Resume
from agentos.ids import AgentId, Digest, Kind, LogId, Micros, hashed_id
from agentos.journal import Head, fold, seal
from agentos.kernel import Kernel
from agentos.persistence.base import LogRow, StoredEntry, Verdict
from agentos.systems import SCHEDULE, run_pass
from agentos.testing.ids import SequentialSalts
from agentos.world import View

LONG = 10**9


class Anything:
    """Says yes to every slot; contexts are those of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def slot(self, log: LogId, call: int, config: CallConfig) -> bool:
        return True

    def deadlock(self, view: View, call: int) -> bool:
        return False

    def context(self, agent: AgentId, depth: int, narrowings: tuple[Narrowing, ...] = ()) -> Digest:
        return self._kernel.services.context(agent, depth)

    def pinned(self, digest: Digest) -> AgentContext:
        return self._kernel.services.pinned(digest)


def ends_of_units(entries: Sequence[StoredEntry]) -> list[int]:
    return [
        entry.seq
        for entry, later in zip(entries, [*entries[1:], None], strict=True)
        if not later or later.unit == later.seq
    ]


async def fork(kernel: Kernel, parent: str, upto: int) -> str | None:
    """A fork with its first unit, as the kernel would begin it; None when nothing was open there."""
    log = LogId(hashed_id(Kind.CONVERSATION, "fork", parent, str(upto)))
    shared = await kernel.store.entries(parent, 0, upto)
    slice_, times = fold(log, shared, Registry())
    view = View(slice_, upto, Micros(kernel.clock.now()), [Resume(fork=True)], Anything(kernel))
    assert not run_pass(view, SCHEDULE, 1_000)
    if not view.drafts:
        return None
    row = LogRow(
        id=log,
        kind=Kind.CONVERSATION.value,
        owner=kernel.ticker.writer,
        epoch=1,
        seq=upto,
        digest=shared[-1].digest,
        root=log,
        forked_from=parent,
        upto=upto,
    )
    sealed = seal(view, Head(row=row, new=True), kernel.ticker.writer, times, SequentialSalts(), LONG)
    verdicts = kernel.store.append([sealed.unit])
    assert (verdicts if isinstance(verdicts, list) else await verdicts) == [Verdict.STORED]
    return log
